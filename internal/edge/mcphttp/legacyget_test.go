// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func changed(uri string) notify.Change { return notify.Change{Kind: notify.ResourceUpdated, URI: uri} }

func tell(t testing.TB, rig *mcptest.Rig, changes ...notify.Change) {
	t.Helper()
	for _, c := range changes {
		if err := rig.Bridge.Offers().Feed().Publish(c); err != nil {
			t.Fatal(err)
		}
	}
}

// lists are changes of all lists.
func lists() []notify.Change {
	return []notify.Change{{Kind: notify.ToolsListChanged}, {Kind: notify.PromptsListChanged}, {Kind: notify.ResourcesListChanged}}
}

// empty wants an empty result.
func empty(t testing.TB, got answer) {
	t.Helper()
	if got.status != 200 || string(got.Result) != `{}` {
		t.Fatalf("got %d %s, want an empty result", got.status, got.body)
	}
}

func subscription(method, uri string) string {
	return request("resources/"+method, `"uri":"`+uri+`"`)
}

func TestGETStreamsWhatChanges(t *testing.T) {
	t.Parallel()
	for _, version := range revisions() {
		for _, proto := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s over HTTP/%d", version, proto), func(t *testing.T) {
				t.Parallel()
				rig, url := office(t, officeOptions{})
				c := openAs(t, mcptest.Client(t, proto), url, version, `{}`)
				other := openWith(t, url, version, `{}`)
				empty(t, c.post(subscription("subscribe", "desk://notes/1")))
				empty(t, c.post(subscription("subscribe", "desk://seal")))
				empty(t, c.post(subscription("subscribe", "desk://seal")))
				empty(t, other.post(subscription("subscribe", "desk://safe")))
				// Changes without a listener are reported once.
				tell(t, rig, changed("desk://notes/1"), changed("desk://notes/1"))
				get, silent := c.stream(http.MethodGet, ""), other.stream(http.MethodGet, "")
				if version == rev11 {
					get.greeting()
					silent.greeting()
				}
				uri := func(e *sse, want string) {
					t.Helper()
					if m := e.method("notifications/resources/updated"); string(m.Params) != `{"uri":"`+want+`"}` {
						t.Errorf("got %s, want %s", m.Params, want)
					}
				}
				uri(get, "desk://notes/1")
				empty(t, c.post(subscription("unsubscribe", "desk://notes/1")))
				tell(t, rig, append(lists(), changed("desk://notes/1"), changed("desk://safe"), changed("desk://seal"))...)
				for _, method := range []string{"tools", "prompts", "resources"} {
					for _, e := range []*sse{get, silent} {
						if m := e.method("notifications/" + method + "/list_changed"); m.Params != nil && string(m.Params) != `{}` {
							t.Errorf("%s: params %s", method, m.Params)
						}
					}
				}
				uri(get, "desk://seal")
				uri(silent, "desk://safe")
				rig.Bridge.Offers().Feed().Close() // a drain
				get.ended()
				silent.ended()
			})
		}
	}
}

// TestWhatIsNotDeclaredIsNotTold: notifications belong to capabilities.
func TestWhatIsNotDeclaredIsNotTold(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{}) // plain RPCs have no prompts
	url := mcptest.Serve(t, mcphttp.New(rig.Bridge, mcphttp.Options{}))
	c := openWith(t, url, rev11, `{}`)
	get := c.stream(http.MethodGet, "")
	get.greeting()
	tell(t, rig, lists()[1], lists()[0])
	get.method("notifications/tools/list_changed")
	if got := c.post(subscription("subscribe", "desk://notes/1")); got.status != 200 || got.errorCode() != -32601 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := c.post(request("logging/setLevel", `"level":"debug"`)); got.status != 200 || got.errorCode() != -32601 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// TestASecondGETTakesOver: each message goes to one stream, the newest.
func TestASecondGETTakesOver(t *testing.T) {
	t.Parallel()
	for _, version := range revisions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			rig, url := office(t, officeOptions{})
			c := openWith(t, url, version, `{}`)
			ids := map[string]bool{}
			var old *sse
			for range 4 {
				get := c.stream(http.MethodGet, "")
				if version == rev11 {
					get.greeting()
				}
				if old != nil {
					old.ended()
				}
				tell(t, rig, lists()[0])
				get.method("notifications/tools/list_changed")
				if ids[get.last] {
					t.Errorf("the event id %s came twice", get.last)
				}
				ids[get.last] = true
				old = get
			}
		})
	}
}

// TestGETsThatTakeOverLoseNothing has connections that take the stream over from
// each other while much changes: together they get each change once.
func TestGETsThatTakeOverLoseNothing(t *testing.T) {
	t.Parallel()
	const changes, connections = 300, 12
	rig, url := office(t, officeOptions{feed: func(o *notify.FeedOptions) { o.MaxPending = changes }})
	c := openWith(t, url, rev06, `{}`)
	empty(t, c.post(subscription("subscribe", "desk://")))
	var mu sync.Mutex
	seen := map[string]int{}
	all := make(chan struct{})
	var reading sync.WaitGroup
	for n := range connections {
		get := c.stream(http.MethodGet, "")
		reading.Go(func() {
			for {
				e, err := get.take()
				if err != nil {
					return
				}
				if e.data == "" {
					continue
				}
				mu.Lock()
				if seen[e.data]++; len(seen) == changes {
					close(all)
				}
				mu.Unlock()
			}
		})
		for i := range changes / connections {
			tell(t, rig, changed(fmt.Sprintf("desk://%d", n*changes/connections+i)))
		}
	}
	testkit.Receive(t, "all that was told", all)
	rig.Bridge.Offers().Feed().Close()
	reading.Wait()
	for data, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", data, n)
		}
	}
	if len(seen) != changes {
		t.Errorf("%d of %d changes came", len(seen), changes)
	}
}

// TestGETAfterABreak goes on behind the last event that the client has had.
func TestGETAfterABreak(t *testing.T) {
	t.Parallel()
	for _, version := range revisions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			rig, url := office(t, officeOptions{session: func(o *session.Options) { o.MaxEvents = 4 }})
			c := openWith(t, url, version, `{}`)
			get := c.stream(http.MethodGet, "")
			if version == rev11 {
				get.greeting()
			}
			tell(t, rig, lists()[0])
			get.method("notifications/tools/list_changed")
			seen := get.last
			get.close()
			tell(t, rig, lists()[1], lists()[2])
			for range 2 { // it may break again
				get = c.stream(http.MethodGet, "", "Last-Event-ID: "+seen)
				get.method("notifications/prompts/list_changed")
				get.method("notifications/resources/list_changed")
				get.close()
			}
			for _, id := range []string{"9-9", "x", "1-999", "1-0"} {
				got := c.read(c.do(http.MethodGet, "", "Last-Event-ID: "+id))
				if got.status != 400 || got.errorCode() != -32600 || !strings.Contains(got.body, "without Last-Event-ID") {
					t.Errorf("%s: %d %s", id, got.status, got.body)
				}
			}
			for range 4 { // what is too old is not kept
				get = c.stream(http.MethodGet, "")
				if version == rev11 {
					get.greeting()
				}
				tell(t, rig, lists()[0])
				get.method("notifications/tools/list_changed")
			}
			if got := c.read(c.do(http.MethodGet, "", "Last-Event-ID: 1-1")); got.status != 400 {
				t.Errorf("what is no longer kept: %d %s", got.status, got.body)
			}
		})
	}
}

// TestAQuietStreamIsKeptAlive, over HTTP/2 also where signs of life are further
// apart than a write may take.
func TestAQuietLegacyStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	for _, proto := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", proto), func(t *testing.T) {
			t.Parallel()
			rig, url := office(t, officeOptions{http: mcphttp.Options{KeepAlive: 3 * time.Second, WriteTimeout: 2 * time.Second}})
			c := openAs(t, mcptest.Client(t, proto), url, rev11, `{}`)
			get := c.stream(http.MethodGet, "")
			get.greeting()
			for range 2 {
				if e, err := get.take(); err != nil || e.comment == "" {
					t.Fatalf("got %+v, %v", e, err)
				}
			}
			tell(t, rig, lists()[0])
			get.method("notifications/tools/list_changed")
			rig.Bridge.Offers().Feed().Close()
			get.ended()
		})
	}
}

// TestASlowReaderIsDropped, and what it could not take waits for the next one.
func TestASlowLegacyReaderIsDropped(t *testing.T) {
	t.Parallel()
	// It holds for the next reader too, who must not be dropped.
	const limit = 2 * time.Second
	dropped := make(chan struct{}, 2)
	rig, url := office(t, officeOptions{
		http: mcphttp.Options{WriteTimeout: limit},
		wrap: func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r)
				if r.Method == http.MethodGet {
					dropped <- struct{}{}
				}
			})
		},
	})
	c := openWith(t, url, rev11, `{}`)
	empty(t, c.post(subscription("subscribe", "desk://")))
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nMcp-Session-Id: %s\r\nAccept: text/event-stream\r\n\r\n", strings.TrimPrefix(url, "http://"), c.id); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReaderSize(conn, 16)
	for range 5 { // status and headers: it has begun
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	// More than any buffer on the way holds, while the client reads nothing.
	const changes = 1000
	for n := range changes {
		tell(t, rig, changed(fmt.Sprintf("desk://%d/%s", n, strings.Repeat("x", 8000))))
	}
	<-dropped
	get := c.stream(http.MethodGet, "")
	// What went before was written, at least to the socket.
	for want := -1; want < changes; want++ {
		m := get.next().message(t)
		text, _, _ := strings.Cut(strings.TrimPrefix(string(m.Params), `{"uri":"desk://`), "/")
		n, err := strconv.Atoi(text)
		if err != nil || want >= 0 && n != want || n >= changes {
			t.Fatalf("change %q came in place of %d", text, want)
		}
		if want = n; n == changes-1 {
			break
		}
	}
}
