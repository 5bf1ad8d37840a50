// SPDX-License-Identifier: Apache-2.0

//go:build !race

package catalog

import (
	"runtime"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestALoadOfTheSameTakesLittleMemory: the load of 200 services that are known
// already takes less than a third of the first one. The server is in the same process
// and counts too, so this file is left out under the race detector, where pools forget
// and the server allocates most of what is counted.
//
//nolint:paralleltest // it counts what the whole process allocates
func TestALoadOfTheSameTakesLittleMemory(t *testing.T) {
	peer := telling(manyServices(200).Files...)
	url := peer.serve(t, reflectionV1)
	live := NewLive([]source.Source{source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{})}, LiveOptions{})
	took := func() uint64 {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	first := took()
	for range 3 {
		if again := took(); again > first/3 {
			t.Errorf("the first load took %d KB, one that brought nothing new %d KB", first>>10, again>>10)
		}
	}
}
