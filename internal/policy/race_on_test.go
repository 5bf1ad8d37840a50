// SPDX-License-Identifier: Apache-2.0

//go:build race

package policy_test

// isRace tells that the race detector runs, which makes simulations many times slower.
const isRace = true
