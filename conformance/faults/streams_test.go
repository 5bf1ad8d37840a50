// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/faults"
)

// streamFaults are those of the short form.
var streamFaults = []string{"reset mid-call", "kill -9 and restart mid-call", "SIGSTOP, SIGCONT in time"}

// goesOn is how long streams last after a fault.
const goesOn = 300 * time.Millisecond

// TestStreamsAndFaults has streams of every kind and protocol open while things go wrong,
// and accounts for each message: those of a stream that succeeds arrive once and in
// order, those of one that fails are a beginning of it, and none that was acknowledged is
// lost. OUTRIGGER_FULL has all faults.
func TestStreamsAndFaults(t *testing.T) {
	t.Parallel()
	each := 2
	full := os.Getenv("OUTRIGGER_FULL") == "1"
	if full {
		each = 4
	}
	rig := faults.NewRig(t, faults.Options{Binary: binary, Edges: []string{"typed-grpc-go"}, Timeout: timeout, Flags: []string{"--breaker", "off"}})
	for _, f := range faults.Faults(timeout) {
		if only := os.Getenv("OUTRIGGER_FAULT"); !full && !slices.Contains(streamFaults, f.Name) || full && only != "" && only != f.Name {
			continue
		}
		var codes []string
		if len(f.Codes) > 0 {
			codes = []string{"unavailable"}
		}
		flows, executions := rig.Flows(each, func() {
			f.Break(rig)
			time.Sleep(f.Hold)
			f.Mend(rig)
			time.Sleep(goesOn)
		})
		report(t, f.Name, flows, executions, codes)
		if f.Shows != "" && f.Shows != faults.Timeout && !slices.ContainsFunc(flows, func(f faults.Flow) bool { return f.Code != "" }) {
			t.Errorf("%s: every stream succeeded", f.Name)
		}
		// Then everything works again.
		rig.Await(f.Name+": streams of every kind succeed", func() bool {
			flows, executions = rig.Flows(1, nil)
			findings := faults.AuditFlows(flows, executions, []string{"unavailable"})
			return len(findings) == 0 && !slices.ContainsFunc(flows, func(f faults.Flow) bool { return f.Code != "" })
		})
		rig.AtRest()
	}
}

func report(t *testing.T, name string, flows []faults.Flow, executions []faults.Execution, codes []string) {
	t.Helper()
	ended, sent, back := map[string]int{}, 0, 0
	for _, f := range flows {
		ended[f.Code]++
		sent += f.Sent
		back += len(f.Got)
	}
	t.Logf("%s: %d streams ended with %v; %d messages sent, %d at the backend, %d back", name, len(flows), ended, sent, len(executions), back)
	for _, finding := range faults.AuditFlows(flows, executions, codes) {
		t.Errorf("%s: %v", name, finding)
	}
}
