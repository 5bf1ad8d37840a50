// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestGlobsWithoutATool: a misspelt name in the callers file is told once, and
// shows at /readyz?verbose until it is mended. The process is ready all the same.
func TestGlobsWithoutATool(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	verbose := func() string {
		t.Helper()
		text, _ := get(t, oneShot(), h.admin+"/readyz?verbose")
		return text
	}
	if text := verbose(); !strings.Contains(text, "3 callers") || strings.Contains(text, "match none") {
		t.Errorf("without a fault:\n%s", text)
	}
	rewrite(t, h.callers, strings.Replace(callersYAML(), "[lab.echo, lab.inspect, \"fleet.get_*\"]", "[lab.ecko, \"flet.*\", \"fleet.get_*\"]", 1))
	testkit.Says(t, h.log, `"outrigger.caller":"planner","pattern":"lab.ecko"`)
	testkit.Says(t, h.log, `"outrigger.caller":"planner","pattern":"flet.*"`)
	testkit.Until(t, "it shows", func() bool {
		return strings.Contains(verbose(), `planner: tools "lab.ecko" match none; planner: tools "flet.*" match none`)
	})
	if text := verbose(); !strings.HasPrefix(text, "ready") || strings.Contains(text, "get_*") {
		t.Errorf("with a fault:\n%s", text)
	}
	// One is mended, the other is not told again.
	rewrite(t, h.callers, strings.Replace(callersYAML(), "[lab.echo, lab.inspect, \"fleet.get_*\"]", "[lab.echo, \"flet.*\", \"fleet.get_*\"]", 1))
	testkit.Until(t, "one is left", func() bool {
		text := verbose()
		return strings.Contains(text, "flet") && !strings.Contains(text, "ecko")
	})
	if n := strings.Count(h.log.String(), `"pattern":"flet.*"`); n != 1 {
		t.Errorf("it is told %d times", n)
	}
	rewrite(t, h.callers, callersYAML())
	testkit.Until(t, "none is left", func() bool { return !strings.Contains(verbose(), "match none") })
}
