// SPDX-License-Identifier: Apache-2.0

//go:build !race

package notify_test

// slowdown is for runs with the race detector.
const slowdown = 1
