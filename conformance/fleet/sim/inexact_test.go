// SPDX-License-Identifier: Apache-2.0

//go:build !exact

package sim_test

// isExact: the runtime draws all random numbers from a seed. Here it does not.
const isExact = false

func seedRuntime(uint64) {}
