// SPDX-License-Identifier: Apache-2.0

//go:build !race

package connectapi_test

// slowness is how much longer the race detector takes, at most.
const slowness = 1
