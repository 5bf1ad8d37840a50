// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bench/internal/report"
)

func head() report.Head {
	return report.Head{
		Date: time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC), Machine: "2 cores, a model", Command: "make it", Commit: "0123456789ab", BuiltWith: "go1.26.8",
		Took: 171234 * time.Millisecond,
	}
}

func endToEnd() *report.EndToEnd {
	rounds := func(cpu ...float64) []report.Figure {
		var out []report.Figure
		for i, c := range cpu {
			out = append(out, report.Figure{Rate: 1000 + float64(i), P50: 500, P99: 900, MiddleCPU: c, BackendCPU: 20, CallersCPU: 30})
		}
		return out
	}
	size := func(name string, crowd *report.Crowd) report.Size {
		return report.Size{
			Name: name, Arguments: 167, AtMost: 1.3, LessBy: 3, Crowd: crowd,
			Figures: map[string][]report.Figure{
				"direct": rounds(0, 0, 0), "proxy": rounds(50, 60, 40), "sidecar": rounds(60, 66, 60), "sidecar-legacy": rounds(70, 70, 70),
				"hand-a": rounds(300, 300, 300), "hand-b": rounds(200, 180, 170),
			},
			Peak: map[string]int64{"proxy": 20_000_000, "sidecar": 40_000_000, "hand-a": 90_000_000, "hand-b": 80_000_000, "sidecar-legacy": 40_000_000},
		}
	}
	return &report.EndToEnd{
		Head: head(), Rounds: 3, Callers: 50, Window: time.Second, Longest: 4 * time.Second, AtLeast: 100,
		Subjects: []report.Subject{
			{Name: "direct", Title: "nothing between", Kind: report.Direct}, {Name: "proxy", Title: "empty", Kind: report.Floor},
			{Name: "sidecar", Title: "ours", Kind: report.Measured}, {Name: "sidecar-legacy", Title: "ours, older", Kind: report.Beside},
			{Name: "hand-a", Title: "theirs", Kind: report.HandWritten}, {Name: "hand-b", Title: "others'", Kind: report.HandWritten},
		},
		Sizes: []report.Size{
			size("small", &report.Crowd{Callers: 256, Calls: 9000, RSS: 50_000_000, Peak: 61_000_000, Limit: 60_000_000}),
			size("large", &report.Crowd{Callers: 256, Limit: 300_000_000, Failure: "caller 3: wrong answer\nand more"}),
		},
		Digits: []report.Digits{
			{Subject: "sidecar", ID: report.Exact, Number: report.Exact, Text: report.Exact},
			{Subject: "hand-a", ID: "9007199254740992", Number: "9007199254740992", Text: "refused"},
		},
	}
}

func latency() *report.Latency {
	return &report.Latency{
		Head: head(), Rate: 1000, Rounds: 3, Warmup: time.Second, Window: 5 * time.Second, Arguments: 976,
		Subjects: []report.Subject{{Name: "direct", Title: "nothing between"}, {Name: "mcp", Title: "ours"}},
		Figures: map[string][]report.Timing{
			"direct": {{P50: 150, P90: 200, P99: 400, P999: 900}, {P50: 160, P90: 200, P99: 600, P999: 900}, {P50: 140, P90: 200, P99: 300, P999: 900}},
			"mcp":    {{P50: 350, P90: 500, P99: 1300, P999: 2900}, {P50: 360, P90: 500, P99: 1700, P999: 2900}, {P50: 340, P90: 500, P99: 1200, P999: 2900}},
		},
		Memory: report.ServerMemory{Idle: 18_000_000, IdleAnon: 14_000_000, Calls: 10, Rest: 22 * time.Second, Peak: 60_000_000, After: 22_000_000, Callers: 256, CrowdCalls: 40_000},
	}
}

// soak makes a soak whose memory grows by a share from its first look to its last.
func soak(growth float64) *report.Soak {
	s := &report.Soak{
		Head: head(), Duration: 10 * time.Minute, Every: 5 * time.Second, Callers: 50, Edges: []string{"mcp", "rpc"}, Arguments: 976,
		Capacity: 8000, Rate: 4000, Share: 0.5, Calls: 2_400_000, CPU: 123, P50: 400, P99: 1900,
		Before: report.Look{RSS: 30_000_000, Anon: 14_000_000, Heap: 10_000_000, Goroutines: 13},
		After:  report.Look{RSS: 31_000_000, Anon: 15_000_000, Heap: 11_000_000, Goroutines: 13},
	}
	const looks = 120
	for i := range looks {
		rss := 40e6 * (1 + growth*float64(i)/(looks-1))
		if i < 10 {
			rss = 20e6 // it settles
		}
		if i%7 == 0 {
			rss *= 1.2 // a look before a collection
		}
		s.Looks = append(s.Looks, report.Look{At: time.Duration(i+1) * 5 * time.Second, RSS: int64(rss), Anon: 25_000_000, Heap: 15_000_000, Goroutines: 70 + i%3, Rate: 4000})
	}
	return s
}

// saturation makes a run in which some goals are missed.
func saturation() *report.Saturation {
	s := &report.Saturation{Head: head(), Rounds: 2, Window: 3 * time.Second, Crowd: 1024, Connections: 2048}
	at := func(x, capacity, answered float64, p99 time.Duration) report.LoadPoint {
		return report.LoadPoint{X: x, Capacity: capacity, Answered: answered, Rejected: 10, P50: p99 / 2, P99: p99, CPU: 80 * time.Microsecond, Recovery: 100 * time.Millisecond}
	}
	for range s.Rounds {
		for x, v := range map[float64]float64{16: 5000, 256: 8000, 4096: 4000} {
			s.Closed.Add(report.OfSidecar, at(x, 0, v, time.Millisecond))
			s.Closed.Add(report.OfProxy, at(x, 0, 9000, time.Millisecond))
		}
		for x, v := range map[float64]float64{0.9: 7200, 1.2: 7900, 4: 1000} {
			s.Open.Add(report.OfSidecar, at(x, 8000, v, time.Duration(x*float64(10*time.Millisecond))))
			s.Open.Add(report.OfProxy, at(x, 9000, 5400, 10*time.Millisecond))
		}
		for name, cost := range map[string]time.Duration{report.CostResult: 80e3, report.CostError: 90e3, report.CostRejected: 40e3, report.CostFloor: 20e3} {
			s.Costs.Add(name, report.LoadPoint{CPU: cost})
		}
		for name, cost := range map[string]time.Duration{
			report.ProxyGRPC: 40e3, report.ProxyHTTP: 45e3, report.ToolGRPC: 50e3, report.TypedGRPC: 61e3, report.TypedGRPC + report.OfOtherBuild: 100e3, report.ToolJSON: 89e3,
		} {
			s.Edges.Add(name, report.LoadPoint{CPU: cost, Answered: 9000})
		}
		s.SlowTool.Add(report.Alone, at(500, 0, 500, 2*time.Millisecond))
		s.SlowTool.Add(report.BesideSlow, at(500, 0, 400, 8*time.Millisecond))
		s.SlowTool.Add(report.BesideStaggered, at(500, 0, 500, 3*time.Millisecond))
		for _, floor := range []string{report.OfProxy, report.OfApart} {
			s.SlowTool.Add(report.Of(floor, report.Alone), at(500, 0, 500, 2*time.Millisecond))
			s.SlowTool.Add(report.Of(floor, report.BesideSlow), at(500, 0, 500, 5*time.Millisecond))
			s.Neighbours.Add(report.Of(floor, report.FewLarge), at(100, 0, 100, 4*time.Millisecond))
		}
		s.SlowBackend.Add(report.OfSidecar, at(2, 800, 780, 250*time.Millisecond))
		for _, name := range []string{report.Alone, report.ManySmall, report.FewLarge} {
			s.Neighbours.Add(name, at(100, 0, 100, 5*time.Millisecond))
		}
		s.Catalogs.Add(report.OfSidecar, report.CatalogPoint{
			Thousand: 34e6, ThousandTools: 1000, Vast: 200e6, VastTools: 11340, Ready: 900 * time.Millisecond,
			Start: 1200 * time.Millisecond, Grown: 120 * time.Millisecond, GrownRest: 165e6, GrownPeak: 200e6, GrownRestOwn: 158e6, GrownPeakOwn: 178e6, GrownTools: 9160,
		})
	}
	return s
}

// TestTheChartHasItsCurves: a polyline for each subject that was measured, and no text that is no number.
func TestTheChartHasItsCurves(t *testing.T) {
	t.Parallel()
	chart := saturation().SVG()
	if n := strings.Count(chart, "<polyline"); n != 4 {
		t.Errorf("%d lines, want those of sidecar and proxy, twice", n)
	}
	if strings.Contains(chart, "NaN") || strings.Contains(chart, "Inf") {
		t.Errorf("no number: %s", chart)
	}
	if err := xml.Unmarshal([]byte(chart), new(struct{})); err != nil {
		t.Error(err)
	}
}

func TestLoadGoals(t *testing.T) {
	t.Parallel()
	want := []string{
		"goodput beyond the peak, callers in closed loops, of the peak",
		"goodput of the proxy's, at any number of callers",
		"goodput at 4.00 times the capacity",
		"the same: goodput of the proxy's at 4.00 times its capacity",
		"p99 of the answered at 4.00 times, beside that below the capacity",
		"CPU of a rejected call, of a result's",
		"a fast tool beside 1,024 callers of a slow one: goodput of that alone",
		"the same: p99 of that alone",
		"CPU of a call, typed gRPC, of the empty proxy, gRPC to gRPC",
	}
	if diff := cmp.Diff(want, saturation().Missed()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]interface{ Markdown() string }{"e2e.md": endToEnd(), "latency.md": latency(), "soak.md": soak(0.02), "load.md": saturation()} {
		golden := filepath.Join("testdata", name)
		got := document.Markdown()
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
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestEndToEndGoals(t *testing.T) {
	t.Parallel()
	want := []report.Goal{
		{What: "small: CPU per call, times that of the empty proxy", Wanted: "≤ 1.30", Figure: "1.20 (1.10–1.50)", Kept: true},
		{What: "small: CPU per call, times less than the best hand-written server (`hand-b`)", Wanted: "≥ 3.00", Figure: "2.83 (2.73–3.33)"},
		{What: "large: CPU per call, times that of the empty proxy", Wanted: "≤ 1.30", Figure: "1.20 (1.10–1.50)", Kept: true},
		{What: "large: CPU per call, times less than the best hand-written server (`hand-b`)", Wanted: "≥ 3.00", Figure: "2.83 (2.73–3.33)"},
		{What: "small: 256 callers, errors and answers of others", Wanted: "none", Figure: "9,000 calls", Kept: true},
		{What: "small: memory (VmHWM) with 256 callers", Wanted: "< 60.0 MB", Figure: "61.0 MB"},
		{What: "large: 256 callers, errors and answers of others", Wanted: "none", Figure: "caller 3: wrong answer"},
		{What: "2^53+1 as an id and as an int64 argument", Wanted: "exact", Figure: "exact", Kept: true},
	}
	if diff := cmp.Diff(want, endToEnd().Goals()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := endToEnd().Missed(); len(got) != 4 {
		t.Errorf("missed %q", got)
	}
	lossy := endToEnd()
	lossy.Digits[0].ID = "9007199254740992"
	if got := lossy.Missed(); len(got) != 5 {
		t.Errorf("lost digits pass: %q", got)
	}
}

// A run of some subjects has goals only for what was measured.
func TestGoalsOfAPart(t *testing.T) {
	t.Parallel()
	e := endToEnd()
	e.Subjects, e.Digits, e.Sizes = e.Subjects[2:3], nil, e.Sizes[:1]
	e.Sizes[0].Crowd = nil
	if got := e.Goals(); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestLatencyGoals(t *testing.T) {
	t.Parallel()
	// Round by round 900, 1100 and 900 us are added.
	if diff := cmp.Diff([]string{"memory (VmHWM) with 256 callers"}, latency().Missed()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	slow := latency()
	for i := range slow.Figures["mcp"] {
		slow.Figures["mcp"][i].P99 += 100
	}
	slow.Memory.Idle, slow.Memory.Peak = 30_000_000, 59_999_999
	if got := slow.Missed(); len(got) != 2 {
		t.Errorf("missed %q", got)
	}
}

func TestSoakGoals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		soak *report.Soak
		edit func(*report.Soak)
		want []string
	}{
		{name: "flat", soak: soak(0)},
		{name: "less in the end", soak: soak(-0.5)},
		// Of the growth over the whole soak the medians of the thirds are 0.8 * 2/3 apart.
		{name: "nearly flat", soak: soak(0.09)},
		{name: "memory", soak: soak(0.11), want: []string{"growth of memory (VmRSS)"}},
		{name: "a wrong answer", soak: soak(0), edit: func(s *report.Soak) { s.Failure = "caller 1: wrong answer" }, want: []string{"errors and wrong answers"}},
		{name: "goroutines", soak: soak(0), edit: func(s *report.Soak) {
			for i := range s.Looks {
				s.Looks[i].Goroutines += i / 15
			}
		}, want: []string{"growth of goroutines"}},
		{name: "one goroutine of few", soak: soak(0), edit: func(s *report.Soak) {
			for i := range s.Looks {
				s.Looks[i].Goroutines = 15 + i/60
			}
		}},
		{name: "a goroutine is left", soak: soak(0), edit: func(s *report.Soak) { s.After.Goroutines++ }, want: []string{"goroutines when idle again"}},
		{
			name: "too short to tell", soak: soak(0), edit: func(s *report.Soak) { s.Looks = s.Looks[:8] },
			want: []string{"growth of memory (VmRSS)", "growth of goroutines"},
		},
	} {
		if test.edit != nil {
			test.edit(test.soak)
		}
		if diff := cmp.Diff(test.want, test.soak.Missed()); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.name, diff)
		}
	}
}
