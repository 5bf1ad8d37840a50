// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/conformance/telemetry/collector"
	"github.com/outrigger-mcp/outrigger/conformance/telemetry/service"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// long measures as long as it takes to see 5 %.
var long = flag.Bool("long", false, "measure long enough to see a difference of 5 % in p99")

// Bounds. A short run only finds calls that wait for the collector: they would take as long as an export, seconds instead of
// some milliseconds, and no noise of a busy machine comes near that.
const (
	shortRatio = 20
	longRatio  = 1.05
	// callers call one after the other, each on its own connection.
	callers = 4
	// mostKB is what spans that wait may add to the memory.
	mostKB = 24 << 10
)

// plan is how much is measured: rounds of windows of calls.
type plan struct {
	windows, calls int
	bound          float64
}

func planned() plan {
	if *long {
		return plan{windows: 40, calls: 2000, bound: longRatio}
	}
	return plan{windows: 5, calls: 300, bound: shortRatio}
}

// TestABrokenCollectorDelaysNoCall: the p99 of calls while the collector is dead, hung or slow, against those of a
// sidecar without telemetry and of one whose collector is well, in turns within one run, so that what slows the machine for a while hits both. Then the collector
// comes back, and so do the spans.
func TestABrokenCollectorDelaysNoCall(t *testing.T) {
	for _, row := range []struct {
		name  string
		begin func(t *testing.T, addr string) (end func())
	}{
		{"killed", func(t *testing.T, addr string) func() {
			c := collector.StartAt(t, addr)
			c.Stop()
			return func() {}
		}},
		{"hung", func(t *testing.T, addr string) func() { return collector.Hang(t, addr).Stop }},
		{"slow", func(t *testing.T, addr string) func() { return collector.Delay(t, addr, 3*time.Second).Stop }},
	} {
		t.Run(row.name, func(t *testing.T) {
			backend := service.StartPlain(t)
			args := []string{"--backend", "grpc://" + backend.Addr, "--log-level", "warn"}
			off := sidecar.ServeReady(t, built.measured, args[:2]...)
			addr := testkit.Reserved(t)
			end := row.begin(t, addr)
			telemetryTo(t, "http://"+addr)
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2000")
			on := sidecar.ServeReady(t, built.measured, args[:2]...)
			healthy := collector.Start(t)
			telemetryTo(t, healthy.URL())
			well := sidecar.ServeReady(t, built.measured, args[:2]...)
			before := residentKB(t, on.PID())
			ratio, besideWell := compareTails(t, planned(), off, well, on)
			after := residentKB(t, on.PID())
			t.Logf("%s: p99 %.3f times that without telemetry, %.3f times that with a healthy collector; RSS %d KB, then %d KB",
				row.name, ratio, besideWell, before, after)
			if bound := planned().bound; ratio > bound || besideWell > bound {
				t.Errorf("p99 is %.3f times that without telemetry and %.3f times that with a healthy collector, want at most %.2f", ratio, besideWell, bound)
			}
			if after-before > mostKB {
				t.Errorf("the memory grew from %d KB to %d KB", before, after)
			}
			oneWarning(t, on)
			exportsFail(t, on)
			end()
			comesBack(t, on, addr)
		})
	}
}

// compareTails is how many times longer the p99 of on is than that of off, and than that of well: medians over all rounds of
// windows, in which the three take turns in every order.
func compareTails(t *testing.T, p plan, off, well, on *sidecar.Server) (toOff, toWell float64) {
	t.Helper()
	all := []*sidecar.Server{off, well, on}
	for _, s := range all {
		window(t, s, p.calls/2) // warm up
	}
	orders := [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}}
	var offs, wells []float64
	for i := range p.windows {
		var tails [3]float64
		for _, at := range orders[i%len(orders)] {
			tails[at] = float64(window(t, all[at], p.calls))
		}
		offs, wells = append(offs, tails[2]/tails[0]), append(wells, tails[2]/tails[1])
	}
	return median(offs), median(wells)
}

func median(of []float64) float64 {
	slices.Sort(of)
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

// window makes calls and returns the p99 of their durations.
func window(t *testing.T, s *sidecar.Server, calls int) time.Duration {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			w := &overHTTP{client: caller.Client(false), url: s.URL("/mcp"), dialect: caller.Modern}
			defer w.client.CloseIdleConnections()
			for range calls / callers {
				begin := time.Now()
				got := w.send(t.Context(), t, ask{id: "1", tool: "lab.echo", args: `{"nonce":"one"}`})
				end := time.Since(begin)
				if !strings.Contains(got, `"one"`) {
					t.Errorf("got %s", got)
					return
				}
				mu.Lock()
				took = append(took, end)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if len(took) == 0 {
		t.FailNow()
	}
	slices.Sort(took)
	return took[int(math.Ceil(0.99*float64(len(took))))-1]
}

// residentKB is the memory of a process.
func residentKB(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb
}

// oneWarning looks for exactly one line about exports, at the level of a warning.
func oneWarning(t *testing.T, s *sidecar.Server) {
	t.Helper()
	s.Log(t, "a warning about exports", isExportWarning)
	n := 0
	for line := range strings.SplitSeq(s.Text(), "\n") {
		if strings.Contains(line, `"level":"warn"`) || strings.Contains(line, `"level":"error"`) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, s.Text())
	}
}

func isExportWarning(e sidecar.Entry) bool { return e.Fields["level"] == "warn" }

// exportsFail wants the page to say that exports fail.
func exportsFail(t *testing.T, s *sidecar.Server) {
	t.Helper()
	testkit.Until(t, "a metric of failed exports", func() bool {
		return positive(page(t, s), "outrigger_telemetry_exports_total", `outcome="failed"`)
	})
}

// page is the metrics page.
func page(t *testing.T, s *sidecar.Server) string {
	t.Helper()
	resp, err := http.Get(s.AdminURL("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// positive holds where a line with a prefix and one of the words has a value above zero.
func positive(text, prefix string, words ...string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, prefix) || strings.HasSuffix(line, " 0") {
			continue
		}
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
			return true
		}
	}
	return false
}

// comesBack starts a collector where the broken one was and wants the spans of calls there.
func comesBack(t *testing.T, s *sidecar.Server, addr string) {
	t.Helper()
	c := collector.StartAt(t, addr)
	w := dialHTTP(t, s, "/mcp", caller.Modern)
	id := 0
	testkit.Until(t, "spans after the collector came back", func() bool {
		id++
		o := originOf("comes back", strconv.Itoa(id))
		w.send(t.Context(), t, ask{id: strconv.Itoa(id), tool: "lab.echo", args: `{}`, origin: o})
		return slices.ContainsFunc(c.Spans(), func(span collector.Span) bool { return span.Service == serviceName })
	})
}
