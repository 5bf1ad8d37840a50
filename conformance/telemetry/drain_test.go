// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestDrain: a request that comes during a drain, and streams that the drain ends.
func TestDrain(t *testing.T) {
	s := newStory(t, "drain")
	server := s.serve(t)
	wires := s.dialAll(t, server)
	giveUp := s.hold(t, wires[0].wire, "a call in flight")
	var ends []func()
	for _, w := range wires {
		ends = append(ends, s.changes(t, w)...)
	}
	server.Signal(t, syscall.SIGTERM)
	probe := echoes
	probe.id, probe.origin = "probe", originOf(s.name, "probe")
	testkit.Until(t, "the drain", func() bool { return strings.Contains(wires[0].send(t.Context(), t, probe), "UNAVAILABLE") })
	for _, w := range wires {
		s.refused(t, w, "a call during the drain", echoes, "UNAVAILABLE", "unavailable")
		if w.typed {
			s.refused(t, w, "a stream during the drain", watches, "", "unavailable")
		}
	}
	giveUp()
	for _, end := range ends {
		end()
	}
	s.hangUp()
	server.Wait(t)
	s.compare(t)
}

// TestDrainOfStdio: the same on a pipe, where a drain waits for the call in flight.
func TestDrainOfStdio(t *testing.T) {
	s := newStory(t, "drain-stdio")
	for _, row := range []struct {
		name    string
		dialect caller.Dialect
	}{{"stdio-modern", caller.Modern}, {"stdio-legacy", caller.Legacy}, {"stdio-canonical", caller.Canonical}} {
		w := dialStdio(t, s.args(), row.dialect)
		drain(s.backend.Asleep())
		drain(s.backend.GivenUp())
		call := s.tell(row.name+": a call in flight", sleeps)
		w.pipe.MustSend(t, call.text(row.dialect))
		testkit.Receive(t, "the call at the service", s.backend.Asleep())
		w.pipe.Signal(t, syscall.SIGTERM)
		probe := echoes
		probe.id, probe.origin = "probe", originOf(s.name, row.name+" probe")
		testkit.Until(t, "the drain", func() bool { return strings.Contains(w.send(t.Context(), t, probe), "UNAVAILABLE") })
		s.says(t, w, row.name+": a call during the drain", echoes, "UNAVAILABLE")
		given := ask{method: "notifications/cancelled", params: `"requestId":"` + call.id + `"`}
		w.pipe.MustSend(t, given.text(row.dialect))
		testkit.Receive(t, "the end of the call at the service", s.backend.GivenUp())
		w.pipe.Wait(t)
	}
	s.compare(t)
}

// changes opens the streams of an edge that last until one side ends them. What it returns waits for the sidecar to do so.
func (s *story) changes(t *testing.T, w dialled) (ends []func()) {
	t.Helper()
	switch over := w.wire.(type) {
	case *overHTTP:
		var e *events
		switch w.name {
		case "mcp-modern":
			e = over.stream(t, s.tell(w.name+": a subscription", ask{method: "subscriptions/listen", params: `"notifications":{"toolsListChanged":true}`}), "")
			e.next(t)
		case "mcp-legacy":
			e = over.stream(t, s.tell(w.name+": the stream of a session", ask{method: listens}), "")
		default:
			return nil
		}
		return []func(){func() {
			_, _ = io.Copy(io.Discard, e.lines)
			e.close()
		}}
	case *overRPC:
		if w.typed {
			return nil
		}
		filter := &outriggerv1.SubscribeRequest_Changes{Changes: &outriggerv1.ChangeFilter{ToolsListChanged: true}}
		subscribed, err := over.tools.Subscribe(t.Context(), request(s.tell(w.name+": Subscribe", ask{}), &outriggerv1.SubscribeRequest{Filter: filter}))
		if err != nil {
			t.Fatal(err)
		}
		watched, err := over.tools.WatchTools(t.Context(), request(s.tell(w.name+": WatchTools", ask{}), &outriggerv1.WatchToolsRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		return []func(){lasting(t, subscribed), lasting(t, watched)}
	}
	return nil
}

// lasting waits for the first message of a stream, and returns what waits for its end.
func lasting[T any](t *testing.T, stream *connect.ServerStreamForClient[T]) (end func()) {
	t.Helper()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	return func() {
		for stream.Receive() { // what was on its way
		}
		_ = stream.Close()
	}
}

// TestCutOff: what is still running at the end of the grace period has its span, too.
func TestCutOff(t *testing.T) {
	s := newStory(t, "cut-off")
	server := s.serve(t, "--grace", "100ms")
	var ends []func()
	for _, w := range s.dialAll(t, server) {
		drain(s.backend.Asleep())
		ends = append(ends, s.begin(t, w.wire, w.name+": a call", sleeps))
		testkit.Receive(t, "the call at the service", s.backend.Asleep())
		if over, ok := w.wire.(*overRPC); ok && w.typed {
			stream, err := over.watchVehicles(t.Context(), s.tell(w.name+": a stream", ask{}), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, lasting(t, stream))
		}
	}
	server.Signal(t, syscall.SIGTERM)
	server.Wait(t)
	for _, end := range ends {
		end()
	}
	s.compare(t)
}
