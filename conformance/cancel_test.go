// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestLeavingCancels lets callers go away in mid-call. The backend's call is
// cancelled with them, on every edge but the one of the legacy era, where a
// connection that breaks is no cancellation.
func TestLeavingCancels(t *testing.T) {
	t.Parallel()
	for _, edge := range caller.Edges() {
		switch edge.Name {
		case "mcp-legacy", "sdk-legacy-http", "stdio-modern", "stdio-legacy", "stdio-canonical":
			continue // their own tests are below
		}
		if strings.HasPrefix(edge.Name, "exchange") {
			continue // a stream stays open when one of its calls is given up
		}
		t.Run(edge.Name, func(t *testing.T) {
			t.Parallel()
			lab := peer.GRPC(t)
			server := serve(t, "--backend", lab.URL)
			agent := edge.Dial(t, target(server, "--backend", lab.URL))
			defer agent.Close()
			ctx, leave := context.WithCancel(t.Context())
			done := make(chan caller.Answer, 1)
			go func() { done <- caller.One(ctx, agent, sleepCall("gone", time.Minute)) }()
			testkit.Until(t, "the call reaches the backend", func() bool { return lab.Calls() == 1 })
			leave()
			testkit.Until(t, "the backend's call is cancelled", func() bool { return lab.Cancelled() == 1 })
			if got := <-done; got.Err == nil {
				t.Errorf("the caller that left got %+v", got)
			}
		})
	}
}

// TestLegacyDisconnectDoesNotCancel breaks the connection of a legacy call: it
// runs to its end.
func TestLegacyDisconnectDoesNotCancel(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2c %t", h2), func(t *testing.T) {
			t.Parallel()
			lab := peer.GRPC(t)
			server := serve(t, "--backend", lab.URL)
			agent := caller.HTTP(target(server), "/mcp", caller.Legacy, h2)
			defer agent.Close()
			ctx, leave := context.WithCancel(t.Context())
			done := make(chan caller.Answer, 1)
			go func() { done <- caller.One(ctx, agent, sleepCall("gone", 2*time.Second)) }()
			testkit.Until(t, "the call reaches the backend", func() bool { return lab.Calls() == 1 })
			leave()
			<-done
			testkit.Until(t, "the backend's call ends by itself", func() bool { return lab.Slept() == 1 })
			if n := lab.Cancelled(); n != 0 {
				t.Errorf("%d calls were cancelled", n)
			}
		})
	}
}

// TestStdioCancellation cancels a call by its notification. The backend's call
// is cancelled, no answer follows, and ids match with their type.
func TestStdioCancellation(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		dialect caller.Dialect
		id      string
		// other is an id that looks alike and is another one.
		other string
		open  []string
		meta  string
		args  []string
	}{
		{name: "modern", dialect: caller.Modern, id: `7`, other: `"7"`, meta: "," + caller.ModernMeta},
		{name: "modern without _meta", dialect: caller.Modern, id: `"c"`, other: `"C"`},
		{name: "legacy", dialect: caller.Legacy, id: `"7"`, other: `7`, open: []string{caller.Initialize, caller.Initialized}},
		{name: "canonical", dialect: caller.Canonical, id: `"c"`, other: `"d"`},
		{name: "canonical with integers", dialect: caller.Canonical, id: `7`, other: `"7"`, args: []string{"--canonical-ids", "any"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			lab := peer.GRPC(t)
			pipe := sidecar.Pipe(t, built.binary, append(row.args, "--backend", lab.URL)...)
			for _, line := range row.open {
				pipe.MustSend(t, line)
			}
			if row.open != nil {
				pipe.Next(t)
			}
			cancel := func(id string) {
				pipe.MustSend(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`,"reason":"bored"`+row.meta+`}}`)
			}
			long := sleepCall("", time.Minute)
			long.ID = row.id
			pipe.MustSend(t, row.dialect.Request(long))
			testkit.Until(t, "the call reaches the backend", func() bool { return lab.Calls() == 1 })
			cancel(row.other)
			cancel(`null`)
			short := sleepCall("", time.Millisecond)
			short.ID = `"between"`
			pipe.MustSend(t, row.dialect.Request(short))
			if got := reply(t, []byte(pipe.Next(t))); string(got.ID) != `"between"` || got.Error != nil || lab.Cancelled() != 0 {
				t.Fatalf("after a cancellation that matches nothing: %+v, %d cancelled", got, lab.Cancelled())
			}
			cancel(row.id)
			testkit.Until(t, "the backend's call is cancelled", func() bool { return lab.Cancelled() == 1 })
			cancel(row.id) // late, which is no fault
			short.ID = row.id
			pipe.MustSend(t, row.dialect.Request(short))
			if got := reply(t, []byte(pipe.Next(t))); string(got.ID) != row.id || got.Error != nil {
				t.Errorf("the id is free again, but its next user gets %+v", got)
			}
			pipe.CloseInput()
			if line, err := pipe.NextWithin(testkit.Limit()); err == nil {
				t.Errorf("an answer to a cancelled call: %s", line)
			}
		})
	}
}

// TestDuplicateIDs uses an id twice on one stream: the second use is refused,
// the first call is not disturbed.
func TestDuplicateIDs(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		dialect caller.Dialect
		open    []string
		first   string
		second  string
	}{
		{name: "modern", dialect: caller.Modern, first: `7`, second: `7`},
		{name: "legacy", dialect: caller.Legacy, open: []string{caller.Initialize, caller.Initialized}, first: `"x"`, second: `"\u0078"`},
		{name: "canonical", dialect: caller.Canonical, first: `"x"`, second: `"x"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			lab := peer.GRPC(t)
			pipe := sidecar.Pipe(t, built.binary, "--backend", lab.URL)
			for _, line := range row.open {
				pipe.MustSend(t, line)
			}
			if row.open != nil {
				pipe.Next(t)
			}
			// The first call lasts until the second use has been refused, however long
			// that takes: an id whose call has ended is free again.
			call := sleepCall("", time.Minute)
			call.ID = row.first
			pipe.MustSend(t, row.dialect.Request(call))
			testkit.Until(t, "the call reaches the backend", func() bool { return lab.Calls() == 1 })
			call.ID = row.second
			pipe.MustSend(t, row.dialect.Request(call))
			if got := reply(t, []byte(pipe.Next(t))); errorCode(got) != "DUPLICATE_REQUEST_ID" || string(got.ID) != row.second {
				t.Errorf("the second use gets %+v", got)
			}
			lab.Wake()
			if got := reply(t, []byte(pipe.Next(t))); got.Error != nil || string(got.ID) != row.first {
				t.Errorf("the first use gets %+v", got)
			}
		})
	}
}
