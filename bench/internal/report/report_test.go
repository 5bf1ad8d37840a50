// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bench/internal/report"
)

var update = flag.Bool("update", false, "write the golden files")

func example() *report.Report {
	figures := map[report.Cell][]report.Figure{}
	for _, callers := range []int{1, 50} {
		for round := range 5 {
			r := float64(round)
			add := func(path string, f report.Figure) {
				cell := report.Cell{Path: path, Callers: callers}
				figures[cell] = append(figures[cell], f)
			}
			add("direct", report.Figure{Rate: 20000 + 1000*r, P50: 40, P99: 90.5, BackendCPU: 22, CallersCPU: 31})
			add("proxy", report.Figure{Rate: 10000 + 500*r, P50: 80, P99: 190, MiddleCPU: 50, BackendCPU: 23, CallersCPU: 35})
			add("mcp", report.Figure{Rate: 5000 + 300*r, P50: 1234, P99: 12345, MiddleCPU: 90 + r, BackendCPU: 24, CallersCPU: 36})
		}
	}
	return &report.Report{
		Date: time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC), Machine: "2 cores, a model", Command: "make bench", Commit: "0123456789ab", BuiltWith: "go1.26.8",
		Took: 171234 * time.Millisecond,
		Footprint: report.Footprint{
			Binary: 20_400_000, Ready: []time.Duration{90 * time.Millisecond, 310 * time.Millisecond, 101500 * time.Microsecond},
			Logged: []time.Duration{88 * time.Millisecond}, IdleRSS: 31_000_000, IdleAnon: 20_000_000, FreshRSS: 22_000_000, WarmRSS: 33_000_000, Calls: 10, Idle: 5 * time.Second,
		},
		Load: &report.Load{
			Paths:   []report.Path{{Name: "direct", Title: "nothing between"}, {Name: "proxy", Title: "empty"}, {Name: "mcp", Title: "an edge"}},
			Callers: []int{1, 50}, Rounds: 5, Window: time.Second, Size: "small", Arguments: 167, Figures: figures, RSS: 40_000_000, Peak: 44_000_000,
			Skipped: []report.Skipped{{Path: "rpc", Reason: "status 500\na log"}},
		},
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	golden := filepath.Join("testdata", "report.md")
	got := example().Markdown()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestMisses(t *testing.T) {
	t.Parallel()
	good := report.Footprint{Binary: 1, Ready: []time.Duration{time.Millisecond}, IdleRSS: 1}
	for _, test := range []struct {
		name string
		edit func(*report.Footprint)
		want []string
	}{
		{"none", func(*report.Footprint) {}, nil},
		{"binary", func(f *report.Footprint) { f.Binary = report.MaxBinary }, []string{"binary"}},
		{"one slow start of three is no miss", func(f *report.Footprint) {
			f.Ready = []time.Duration{1, report.MaxStartup, 1}
		}, nil},
		{"startup", func(f *report.Footprint) { f.Ready = []time.Duration{1, report.MaxStartup, report.MaxStartup} }, []string{"startup"}},
		{"memory", func(f *report.Footprint) { f.IdleRSS = report.MaxIdleRSS }, []string{"idle memory"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := good
			test.edit(&f)
			if diff := cmp.Diff(test.want, f.Misses()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestFiguresGoBetweenTheMarkers(t *testing.T) {
	t.Parallel()
	section, other := report.SectionOf("bench"), report.SectionOf("bench-e2e")
	path := filepath.Join(t.TempDir(), "doc.md")
	kept := "\n" + other.Begin + "\nanother's\n" + other.End + "\ntail\n"
	if err := os.WriteFile(path, []byte("head\n"+section.Begin+"\nold\n"+section.End+kept), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time changes nothing
		if err := section.Write(path, "new\n"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("head\n"+section.Begin+"\n\nnew\n\n"+section.End+kept, string(got)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	for _, bad := range []string{"", section.Begin, section.End, section.End + section.Begin, other.Begin + other.End} {
		if _, err := section.Replace(bad, "new"); !errors.Is(err, report.ErrNoMarkers) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := section.Write(path+"x", ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// The project's own document has the places.
func TestTheDocumentHasMarkers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"bench", "bench-e2e", "bench-latency", "bench-load", "bench-large", "bench-streams", "bench-telemetry", "bench-soak"} {
		if _, err := report.SectionOf(target).Replace(string(text), ""); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}
