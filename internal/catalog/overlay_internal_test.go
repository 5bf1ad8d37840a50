// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// The index leaves out no entry that matches, whatever way an entry names its methods.
func TestOverlayIndexFindsWhatMatches(t *testing.T) {
	t.Parallel()
	patterns := []string{
		"a.B/C", "a.B/*", "a.B", "a.?", "b.c", "b_c", "*", "a.B/C", "[a].B/C", `a\.B/C`, "other.S/M", "x.y", "/a.B/C", "a.B/c",
	}
	var overrides []Override
	for _, p := range patterns {
		overrides = append(overrides, Override{Match: p, Options: &configv1.ToolOptions{Title: p}})
	}
	entries, problems := compileOverlay(overrides)
	if len(problems) > 0 || len(entries) != len(patterns) {
		t.Fatal(problems)
	}
	index := newOverlayIndex(entries)
	for _, of := range []struct {
		service, method string
		names           []string
	}{
		{"a.B", "a.B/C", []string{"b.c", "b_c"}}, {"a.B", "a.B/D", []string{"b.d", "b_d"}}, {"other.S", "other.S/M", []string{"s.m", "a.B/C"}}, {"", "", nil},
	} {
		var want []int
		for i := range entries {
			if entries[i].glob.matches(of.service, of.method, of.names...) {
				want = append(want, i)
			}
		}
		candidates := index.candidates(of.service, of.method, of.names)
		var got []int
		for _, i := range candidates {
			if entries[i].glob.matches(of.service, of.method, of.names...) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %v match, the index gives %v", of, want, got)
		}
	}
}

// BenchmarkBuildWithOverlay has an entry for each of 1,000 methods, as an overlay for services that cannot be changed has.
func BenchmarkBuildWithOverlay(b *testing.B) {
	load := manyServices(100)
	var overlay []Override
	for i := range 100 {
		for j := range 10 {
			overlay = append(overlay, Override{
				Match: fmt.Sprintf("bench.s%d.Service%d/DoThing%d", i, i, j), Options: &configv1.ToolOptions{Title: "A thing"},
			})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		c, err := Build([]*source.Loaded{load}, BuildOptions{Overlay: overlay})
		if err != nil || len(c.Tools()) != 1000 || len(c.Warnings()) > 0 {
			b.Fatal(err)
		}
	}
}
