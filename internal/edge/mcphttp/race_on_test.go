// SPDX-License-Identifier: Apache-2.0

//go:build race

package mcphttp_test

// raceCost is how much more memory the race detector takes, at most.
const raceCost = 2
