// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"
)

// Each limit is kept at its edge and missed beyond it.
func TestTelemetryGoals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		few, before []float64
		idle        int64
		missed      []string
	}{
		{name: "kept", few: []float64{103, 99, 106}, before: []float64{100, 99, 101}, idle: 29},
		{name: "too much with few traces", few: []float64{104, 104, 99}, before: []float64{101, 101, 101}, idle: 29, missed: []string{"`few`"}},
		{name: "more than before in every round", few: []float64{100, 100, 100}, before: []float64{99, 98, 99.5}, idle: 29, missed: []string{"`other`"}},
		{name: "too much memory", few: []float64{100, 100, 100}, before: []float64{101, 101, 101}, idle: 30, missed: []string{"memory"}},
	} {
		figures := func(all []float64) (out []Figure) {
			for _, cpu := range all {
				out = append(out, Figure{MiddleCPU: cpu})
			}
			return out
		}
		r := &Telemetry{IdleRSS: test.idle, IdleLimit: 30, Before: "other", EndToEnd: EndToEnd{
			Subjects: []Subject{{Name: "sidecar", Kind: Measured}, {Name: "few", Kind: Beside, Above: 3}, {Name: "other", Kind: Beside}},
			Sizes: []Size{{Name: smallCalls, Figures: map[string][]Figure{
				"sidecar": figures([]float64{100, 100, 100}), "few": figures(test.few), "other": figures(test.before),
			}}},
		}}
		missed := r.Missed()
		if len(missed) != len(test.missed) || len(r.Goals()) != 3 {
			t.Errorf("%s: missed %q of %d goals", test.name, missed, len(r.Goals()))
		}
		for _, want := range test.missed {
			if !slices.ContainsFunc(missed, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("%s: missed %q, want %s", test.name, missed, want)
			}
		}
		if !strings.Contains(r.Markdown(), "| `few` |") {
			t.Errorf("%s: %s", test.name, r.Markdown())
		}
	}
}
