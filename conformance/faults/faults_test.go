// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/faults"
)

// timeout is what the sidecar gives a call in these tests: several times what a
// call takes on a machine that is busy, and short enough to wait for.
const timeout = 6 * time.Second

// shortEdges are one of each kind: MCP of both eras, /rpc, ToolService over
// Connect, gRPC and as a stream, the typed pass-through, and stdio.
var shortEdges = []string{
	"mcp-modern-h2c", "mcp-legacy", "rpc", "tool-connect", "tool-grpc-go", "exchange-grpc", "typed-connect", "typed-grpc-go", "stdio-modern",
}

// TestFaults lets some faults happen one after the other to one sidecar, with
// callers on every kind of edge.
func TestFaults(t *testing.T) {
	t.Parallel()
	rig := faults.NewRig(t, faults.Options{Binary: binary, Edges: shortEdges, Timeout: timeout, Seed: seed(t)})
	var results []faults.Result
	for _, f := range faults.Faults(timeout) {
		if f.Short {
			results = append(results, round(t, rig, f))
		}
	}
	t.Log("\n" + faults.Table(results))
}

// round lets one fault happen and reports the findings.
func round(t *testing.T, rig *faults.Rig, f faults.Fault) faults.Result {
	t.Helper()
	result := rig.Round(f)
	for i, finding := range result.Findings {
		if i == 20 {
			t.Errorf("%s: and %d more", f.Name, len(result.Findings)-i)
			break
		}
		t.Errorf("%s: %v", f.Name, finding)
	}
	return result
}

// seed is OUTRIGGER_SEED, 1 where there is none.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("OUTRIGGER_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("OUTRIGGER_SEED: %v", err)
	}
	return n
}
