// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// noShares lets one caller and one tool hold everything, so that the limit under test is the one that refuses.
var noShares = []string{"--caller-share", "100", "--tool-share", "100"}

// large is a call whose body is not read where its head is enough to refuse it.
var large = ask{tool: "lab.echo", args: `{"nonce":"` + strings.Repeat("n", 100<<10) + `"}`}

// TestShed: a request beyond what the sidecar takes at once has a span on each edge. Standard input has none: what comes there
// waits.
func TestShed(t *testing.T) {
	s := newStory(t, "shed")
	server := s.serve(t, append(noShares, "--max-in-flight", "1")...)
	wires := s.dialAll(t, server) // before there is a call in flight, because a session takes one too
	giveUp := s.hold(t, wires[0].wire, "a call in flight")
	for _, w := range wires {
		s.refused(t, w, "a call", echoes, "UNAVAILABLE", "unavailable")
		if w.typed {
			s.refused(t, w, "a stream", watches, "", "unavailable")
			continue
		}
		s.refused(t, w, "a listing", ask{method: listing}, "UNAVAILABLE", "unavailable")
	}
	giveUp()
	s.ends(t, server)
}

// TestQueue: a call that finds the queue full, one that waits in it for too long, and one whose caller gives it up there.
func TestQueue(t *testing.T) {
	s := newStory(t, "queue")
	server := s.serve(t, append(noShares, "--max-calls", "1", "--max-queued", "1", "--queue-wait", "25s")...)
	wires := s.dialAll(t, server)
	giveUp := s.hold(t, wires[0].wire, "a running call")
	leave := s.begin(t, wires[0].wire, "a queued call whose caller gives it up", echoes)
	isQueued := func() bool {
		_, metrics := server.Probe(t, "/metrics")
		return strings.Contains(metrics, `outrigger_queue_tool_waiting{tool="lab.echo"} 1`)
	}
	testkit.Until(t, "a queued call", isQueued)
	for _, w := range wires {
		s.refused(t, w, "the queue is full", echoes, "UNAVAILABLE", "unavailable")
		s.refused(t, w, "the queue is full, and the call is large", large, "UNAVAILABLE", "unavailable")
	}
	leave()
	testkit.Until(t, "the end of the queued call", func() bool { return !isQueued() })
	giveUp()
	s.stop(t, server)
	server = s.serve(t, append(noShares, "--max-calls", "1", "--queue-wait", "50ms")...)
	wires = s.dialAll(t, server)
	giveUp = s.hold(t, wires[0].wire, "another running call")
	for _, w := range wires {
		s.refused(t, w, "the wait is too long", echoes, "UNAVAILABLE", "unavailable")
	}
	giveUp()
	s.ends(t, server)
}

// TestRateLimited: a request over a rate has a span on each edge.
func TestRateLimited(t *testing.T) {
	s := newStory(t, "rate-limited")
	server := s.serve(t, "--caller-rate", "0.0001", "--caller-burst", "2")
	wires := s.dialAll(t, server) // one of them opens a session, which counts
	s.says(t, wires[0].wire, "the only call", echoes, "one")
	for _, w := range wires {
		s.refused(t, w, "a call", echoes, "RATE_LIMITED", "resource_exhausted")
		if w.typed {
			s.refused(t, w, "a stream", watches, "", "resource_exhausted")
			continue
		}
		s.refused(t, w, "a listing", ask{method: listing}, "RATE_LIMITED", "resource_exhausted")
	}
	s.stop(t, server)
	for _, row := range []struct {
		name    string
		dialect caller.Dialect
	}{{"stdio-modern", caller.Modern}, {"stdio-legacy", caller.Legacy}, {"stdio-canonical", caller.Canonical}} {
		w := dialStdio(t, s.args("--tool-rate", "0.0001", "--tool-burst", "1"), row.dialect)
		s.says(t, w, row.name+": the only call", echoes, "one")
		s.says(t, w, row.name+": a call", echoes, "RATE_LIMITED")
		w.pipe.CloseInput()
		w.pipe.Wait(t)
	}
	s.compare(t)
}
