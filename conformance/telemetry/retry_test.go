// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/telemetry/collector"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestARetryThatSucceeds: each attempt has its own span in the call, of which the last has the service below it. A
// connection may be made just in time for the first attempt, or too late for the last one; then another call is made.
func TestARetryThatSucceeds(t *testing.T) {
	r := newRig(t)
	w := dialHTTP(t, r.serve(t), "/mcp", caller.Modern)
	const most = 20
	for i := range most {
		o := originOf("retry", strconv.Itoa(i))
		r.relay.Cut(t)
		drain(r.relay.Refused())
		done := make(chan string, 1)
		go func() {
			done <- w.send(t.Context(), t, ask{id: "1", tool: "lab.echo", args: `{"nonce":"two"}`, origin: o})
		}()
		testkit.Receive(t, "a connection that fails", r.relay.Refused())
		r.relay.Mend(t)
		got := <-done
		if strings.Contains(got, "UNAVAILABLE") {
			continue
		}
		if !strings.Contains(got, `"two"`) {
			t.Fatalf("got %s", got)
		}
		if attempts := r.attempts(t, o.message); len(attempts) > 1 {
			compareAttempts(t, attempts)
			return
		}
	}
	t.Errorf("none of %d calls was retried", most)
}

// attempts are the calls of the backend in a trace, whose service has answered.
func (r *rig) attempts(t *testing.T, traceID string) (out []collector.Span) {
	t.Helper()
	r.Wait(t, "the answer of the service and the call", func() bool {
		out = slices.DeleteFunc(r.Spans(), func(s collector.Span) bool { return s.TraceID != traceID || s.Kind != "Client" })
		return slices.ContainsFunc(r.Spans(), func(s collector.Span) bool {
			return s.TraceID == traceID && s.Service == serviceName && s.Kind == "Server"
		}) && len(out) > 0
	})
	slices.SortFunc(out, func(a, b collector.Span) int { return a.Start.Compare(b.Start) })
	return out
}

func compareAttempts(t *testing.T, attempts []collector.Span) {
	t.Helper()
	for i, s := range attempts {
		number, status := strconv.Itoa(i)+" (Int)", "UNAVAILABLE"
		if i == 0 {
			number = ""
		}
		if i == len(attempts)-1 {
			status = "OK"
		}
		if s.Attributes["outrigger.retry.attempt"] != number || s.Attributes["rpc.response.status_code"] != status || s.Parent != attempts[0].Parent {
			t.Errorf("attempt %d: %+v", i, s)
		}
	}
}
