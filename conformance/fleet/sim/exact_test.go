// SPDX-License-Identifier: Apache-2.0

//go:build exact

package sim_test

import (
	"math/rand/v2"
	_ "unsafe" // for go:linkname
)

// exactState is the state of the runtime's random numbers, in builds with the edits of package overlay.
//
//go:linkname exactState runtime.exactState
var exactState uint64

// exactMaps is the seed of all maps.
//
//go:linkname exactMaps runtime.exactMaps
var exactMaps uint64

// isExact: the runtime draws all random numbers from a seed.
const isExact = true

func seedRuntime(seed uint64) {
	exactState = seed | 1<<63
	exactMaps = rand.New(rand.NewPCG(seed, 4)).Uint64() | 1
}
