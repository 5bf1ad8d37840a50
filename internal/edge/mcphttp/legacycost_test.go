// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// memory is what the process holds for objects and goroutines.
func memory() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// wire is a connection without a client behind it, so that all that is measured
// is the sidecar's.
func wire(t testing.TB, url, request string) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, request, strings.TrimPrefix(url, "http://")); err != nil {
		t.Fatal(err)
	}
	return conn
}

// awaits reads from a connection until something has come.
func awaits(t testing.TB, conn net.Conn, buf []byte, what string) {
	t.Helper()
	n := 0
	for !bytes.Contains(buf[:n], []byte(what)) {
		got, err := conn.Read(buf[n:])
		if err != nil || n == len(buf) {
			t.Fatalf("%v after %q", err, buf[:n])
		}
		n += got
	}
}

// TestIdleLegacyStreamsAreCheap runs alone: it looks at the whole process. The bound
// is the one that an operator is promised for a session with a stream.
func TestIdleLegacyStreamsAreCheap(t *testing.T) {
	const streams, most = 1000, 40 << 10
	rig, url := office(t, officeOptions{})
	manager := rig.Bridge.Sessions()
	buf := make([]byte, 4096)
	open := func() net.Conn {
		s, err := manager.Open(peer.Address("127.0.0.1:1"), &outriggerv1.RequestContext{
			ProtocolVersion: rev11, Capabilities: &outriggerv1.ClientCapabilities{Elicitation: &outriggerv1.ElicitationCapability{Form: true}},
			ClientInfo: &outriggerv1.Implementation{Name: "client", Version: "1.0.0"},
		}, 7)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		conn := wire(t, url, "GET / HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: "+s.ID()+"\r\n\r\n")
		awaits(t, conn, buf, "data: \n\n")
		return conn
	}
	open() // what is made once
	goroutines, before := runtime.NumGoroutine(), memory()
	conns := make([]net.Conn, streams)
	for i := range conns {
		conns[i] = open()
	}
	cost, more := (memory()-before)/streams, float64(runtime.NumGoroutine()-goroutines)/streams
	t.Logf("%d bytes and %.2f goroutines for each of %d idle streams", cost, more, streams)
	if cost > most*raceCost || cost < 1000 {
		t.Errorf("an idle stream costs %d bytes, want at most %d", cost, most)
	}
	tell(t, rig, notify.Change{Kind: notify.ToolsListChanged}) // they are all alive
	for _, conn := range conns {
		awaits(t, conn, buf, "notifications/tools/list_changed")
		_ = conn.Close()
	}
	// The sidecar may have opened connections to its backend meanwhile, of a few goroutines each.
	testkit.Until(t, "the streams are gone", func() bool { return runtime.NumGoroutine() <= goroutines+10 })
	if got := manager.Stats(); got.Sessions != streams+1 {
		t.Errorf("%+v", got)
	}
}

// TestSessionsThatAreAbandoned opens as many as there may be, over HTTP, and
// walks away: those after them push them out of memory one by one. One that had set something
// is gone, so that its client knows; one that had not begins again from its id.
func TestSessionsThatAreAbandoned(t *testing.T) {
	const most = 200
	rig, url := office(t, officeOptions{configure: func(c *configv1.Config) {
		c.Limits.MaxSessions, c.Limits.CallerSharePercent = proto.Int32(most), proto.Int32(100)
	}})
	first, second := openWith(t, url, rev11, `{}`), openWith(t, url, rev11, `{}`)
	if got := first.post(request("logging/setLevel", `"level":"error"`)); got.status != http.StatusOK {
		t.Fatalf("set a level: %d %s", got.status, got.body)
	}
	if got := second.post(request("ping", "")); got.status != http.StatusOK {
		t.Fatalf("ping: %d %s", got.status, got.body)
	}
	for range most {
		openAs(t, first.http, url, rev11, `{}`)
	}
	for c, want := range map[*legacy]int{first: http.StatusNotFound, second: http.StatusOK} {
		if got := c.post(request("ping", "")); got.status != want {
			t.Errorf("one of the longest unused: %d %s", got.status, got.body)
		}
	}
	if got := rig.Bridge.Sessions().Stats(); got.Sessions != most || got.Evicted != 3 {
		t.Errorf("%+v", got)
	}
}
