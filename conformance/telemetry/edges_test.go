// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// timeout is that of the sidecars: long enough for a busy machine, short enough to be waited for.
const timeout = "2s"

// TestJSONEdges compares the spans and metrics of each edge and era with JSON-RPC to its golden.
func TestJSONEdges(t *testing.T) {
	for _, row := range []struct {
		edge, path string
		dialect    caller.Dialect
		stdio      bool
		session    bool
	}{
		{edge: "mcp-modern", path: "/mcp", dialect: caller.Modern},
		{edge: "mcp-legacy", path: "/mcp", dialect: caller.Legacy, session: true},
		{edge: "rpc", path: "/rpc", dialect: caller.Canonical},
		{edge: "stdio-modern", dialect: caller.Modern, stdio: true},
		{edge: "stdio-legacy", dialect: caller.Legacy, stdio: true},
		{edge: "stdio-canonical", dialect: caller.Canonical, stdio: true},
	} {
		t.Run(row.edge, func(t *testing.T) {
			r := newRig(t)
			all := scenarios()
			if row.stdio {
				w := dialStdio(t, r.args("--timeout", timeout), row.dialect)
				origins := play(t, r, row.edge, w, all)
				w.pipe.CloseInput()
				w.pipe.Wait(t)
				compare(t, r, row.edge, all, origins)
				return
			}
			s := r.serve(t, "--timeout", timeout)
			w := dialHTTP(t, s, row.path, row.dialect)
			if row.session {
				w.open(t, "{}")
			}
			origins := play(t, r, row.edge, w, all)
			w.client.CloseIdleConnections()
			s.Signal(t, syscall.SIGTERM)
			s.Wait(t)
			compare(t, r, row.edge, all, origins)
		})
	}
}

// compare is called when the sidecar has ended and so exported everything.
func compare(t *testing.T, r *rig, edge string, all []scenario, origins map[string]origin) {
	t.Helper()
	f := newForest(r.Spans())
	for name, o := range origins {
		f.traces[o.message], f.traces[o.connection] = name, name
	}
	var b strings.Builder
	for _, s := range all {
		if s.alone {
			continue // among the rest
		}
		fmt.Fprintf(&b, "# %s\n%s\n", s.name, f.of(origins[s.name]))
	}
	if rest := f.rest(); rest != "" {
		fmt.Fprintf(&b, "# without context\n%s\n", rest)
	}
	golden(t, edge+".txt", b.String())
	golden(t, edge+"-metrics.txt", conventions(r.Points()))
	exemplars(t, r)
}

// exemplars wants each exemplar of a metric of the conventions to name a trace that came. There need be none: the Protobuf
// edges have no such metrics.
func exemplars(t *testing.T, r *rig) {
	t.Helper()
	known := map[string]bool{}
	for _, s := range r.Spans() {
		known[s.TraceID] = true
	}
	values, found := uint64(0), 0
	for _, p := range r.Points() {
		if p.Name != "mcp.server.operation.duration" {
			continue
		}
		values += p.Count
		for _, e := range p.Exemplars {
			if found++; !known[e.TraceID] {
				t.Errorf("%s: the exemplar's trace %s never came", p.Name, e.TraceID)
			}
		}
	}
	if values > 0 && found == 0 {
		t.Errorf("%d values without an exemplar", values)
	}
}
