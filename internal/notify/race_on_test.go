// SPDX-License-Identifier: Apache-2.0

//go:build race

package notify_test

// slowdown is what the race detector costs, at most.
const slowdown = 20
