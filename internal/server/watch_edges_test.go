// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const vehicles = "outrigger://watches/fleet.watch_vehicles"

// traffic is a fleet whose stream has no end. A stream begins with the newest update.
type traffic struct {
	demov1connect.UnimplementedFleetHandler

	mu      sync.Mutex
	round   int32
	streams map[chan int32]string // to who opened it
	opened  []string
	broken  bool
}

// WatchVehicles implements [demov1connect.FleetHandler]. Its rounds say what is watched.
func (f *traffic) WatchVehicles(ctx context.Context, req *connect.Request[demov1.WatchVehiclesRequest], out *connect.ServerStream[demov1.VehicleUpdate]) error {
	updates := make(chan int32, 100)
	f.mu.Lock()
	name := fmt.Sprint(req.Msg.GetRounds()) + req.Header().Get("X-Tenant")
	f.opened = append(f.opened, name)
	if f.streams == nil {
		f.streams = map[chan int32]string{}
	}
	isBroken := f.broken
	f.streams[updates] = name
	updates <- f.round
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, updates)
	}()
	if isBroken {
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("no vehicles today"))
	}
	for {
		select {
		case n, ok := <-updates:
			if !ok {
				return nil
			}
			if err := out.Send(&demov1.VehicleUpdate{Round: n, VehicleId: int64(req.Msg.GetRounds())}); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// move sends the next round to all streams.
func (f *traffic) move() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.round++
	for s := range f.streams {
		s <- f.round
	}
}

func (f *traffic) isOpen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.streams)
}

func (f *traffic) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.opened))
}

// serve starts the service, with reflection.
func (f *traffic) serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(demov1connect.NewFleetHandler(f))
	reflector := grpcreflect.NewStaticReflector(demov1connect.FleetName)
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	url := mcptest.Serve(t, mux)
	return "grpc" + strings.TrimPrefix(url, "http")
}

// watching starts a sidecar before the service, with the stream as a watch.
func watching(t *testing.T, f *traffic, who identity.Authenticator, configure func(*configv1.Config)) (rig *mcptest.Rig, url string) {
	t.Helper()
	rig = mcptest.Start(t, mcptest.Options{
		Behind: f.serve(t), Change: func(o *server.Options) { o.Authenticator = who }, Configure: func(c *configv1.Config) {
			c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Fleet/WatchVehicles", Tool: &configv1.ToolOptions{Watch: proto.Bool(true)}})
			if configure != nil {
				configure(c)
			}
		},
	})
	return rig, rig.Serve(t)
}

// lines reads a stream of text by line; next waits for one that has a text in it.
type lines struct {
	t    *testing.T
	read chan string
}

func newLines(t *testing.T, r io.Reader) *lines {
	t.Helper()
	l := &lines{t, make(chan string, 1000)}
	go func() {
		defer close(l.read)
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			l.read <- scanner.Text()
		}
	}()
	return l
}

func (l *lines) next(text string) string {
	l.t.Helper()
	return testkit.Find(l.t, "a line with "+text, l.read, func(line string) bool { return strings.Contains(line, text) })
}

// subscriber is a client of one era that is subscribed to a URI.
type subscriber struct {
	updated func()        // waits for a notification about the URI
	read    func() string // reads the URI
	leave   func()
}

func modernSubscriber(t *testing.T, client *http.Client, url, uri string, headers ...string) subscriber {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	body, more := modernMessage("subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+uri+`"]}`)
	resp := open(ctx, t, client, http.MethodPost, url+"/mcp", body, append(more, headers...)...)
	t.Cleanup(func() { _ = resp.Body.Close() })
	stream := newLines(t, resp.Body)
	if got := stream.next("data:"); !strings.Contains(got, "acknowledged") || !strings.Contains(got, uri) {
		t.Fatalf("acknowledged: %s", got)
	}
	return subscriber{
		updated: func() { t.Helper(); stream.next(`notifications/resources/updated","params":{"uri":"` + uri) },
		read:    func() string { t.Helper(); return modernRead(t, client, url, uri, headers...) },
		leave:   leave,
	}
}

func modernRead(t *testing.T, client *http.Client, url, uri string, headers ...string) string {
	t.Helper()
	body, more := modernMessage("resources/read", `"uri":"`+uri+`"`)
	return post(t, client, url+"/mcp", body, append(append(more, "Mcp-Name: "+uri), headers...)...)
}

func legacySubscriber(t *testing.T, url, uri string) subscriber {
	t.Helper()
	client := mcptest.Client(t, 1)
	s := openSession(t, client, url, "2025-11-25")
	ctx, leave := context.WithCancel(t.Context())
	headers := []string{"Mcp-Session-Id: " + s.id, "MCP-Protocol-Version: " + s.revision}
	resp := open(ctx, t, client, http.MethodGet, url+"/mcp", "", headers...)
	t.Cleanup(func() { _ = resp.Body.Close() })
	stream := newLines(t, resp.Body)
	if got := s.send(t, client, "resources/subscribe", `"uri":"`+uri+`"`); got.status != http.StatusOK || !strings.Contains(got.body, `"result":{}`) {
		t.Fatalf("subscribe: %+v", got)
	}
	return subscriber{
		updated: func() { t.Helper(); stream.next(`notifications/resources/updated","params":{"uri":"` + uri) },
		read:    func() string { t.Helper(); return s.send(t, client, "resources/read", `"uri":"`+uri+`"`).body },
		leave: func() {
			s.send(t, client, "resources/unsubscribe", `"uri":"`+uri+`"`)
			leave()
		},
	}
}

func stdioSubscriber(t *testing.T, rig *mcptest.Rig, uri string) subscriber {
	t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := rig.App().Stdio(context.Background(), stdio.ModeMCP, in, out)
		_ = out.Close()
		ended <- err
	}()
	stream := newLines(t, read)
	send := func(id int, method, params string) string {
		t.Helper()
		message := `{"jsonrpc":"2.0","method":"` + method + `","params":{` + params + `}`
		if id > 0 {
			message += fmt.Sprintf(`,"id":%d`, id)
		}
		if _, err := io.WriteString(write, message+"}\n"); err != nil {
			t.Fatal(err)
		}
		if id == 0 {
			return ""
		}
		return stream.next(fmt.Sprintf(`"id":%d`, id))
	}
	send(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)
	send(0, "notifications/initialized", "")
	if got := send(2, "resources/subscribe", `"uri":"`+uri+`"`); !strings.Contains(got, `"result":{}`) {
		t.Fatalf("subscribe: %s", got)
	}
	leave := sync.OnceFunc(func() {
		_ = write.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(leave)
	return subscriber{
		updated: func() { t.Helper(); stream.next(`notifications/resources/updated","params":{"uri":"` + uri) },
		read:    func() string { t.Helper(); return send(3, "resources/read", `"uri":"`+uri+`"`) },
		leave:   leave,
	}
}

func apiSubscriber(t *testing.T, url, uri string) subscriber {
	t.Helper()
	api := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), url)
	ctx, leave := context.WithCancel(t.Context())
	stream, err := api.Subscribe(ctx, connect.NewRequest(&outriggerv1.SubscribeRequest{
		Filter: &outriggerv1.SubscribeRequest_Changes{Changes: &outriggerv1.ChangeFilter{ResourceUris: []string{uri}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() || len(stream.Msg().GetAcknowledged().GetResourceUris()) != 1 {
		t.Fatalf("acknowledged: %v %v", stream.Msg(), stream.Err())
	}
	return subscriber{
		updated: func() {
			t.Helper()
			if !stream.Receive() || stream.Msg().GetMethod() != "notifications/resources/updated" {
				t.Fatalf("%v %v", stream.Msg(), stream.Err())
			}
		},
		read: func() string {
			t.Helper()
			got, err := api.ReadResource(t.Context(), connect.NewRequest(&outriggerv1.ReadResourceRequest{Uri: uri}))
			if err != nil {
				return err.Error()
			}
			return strings.ReplaceAll(got.Msg.GetResult().GetContents()[0].GetText(), `"`, `\"`)
		},
		leave: func() {
			leave()
			_ = stream.Close()
		},
	}
}

// TestAWatchInEachEra has clients of every era follow one resource, over one stream of the backend.
func TestAWatchInEachEra(t *testing.T) {
	t.Parallel()
	backend := &traffic{}
	rig, url := watching(t, backend, nil, nil)
	all := map[string]subscriber{
		"modern": modernSubscriber(t, mcptest.Client(t, 1), url, vehicles), "legacy": legacySubscriber(t, url, vehicles),
		"stdio": stdioSubscriber(t, rig, vehicles), "tool API": apiSubscriber(t, url, vehicles),
	}
	all["modern"].updated() // of the first value, which it was there for
	for round := 1; round <= 3; round++ {
		backend.move()
		for name, s := range all {
			s.updated()
			testkit.Until(t, name, func() bool { return strings.Contains(s.read(), fmt.Sprintf(`\"round\":%d`, round)) })
		}
	}
	if got := backend.names(); len(got) != 1 {
		t.Errorf("%d streams were opened", len(got))
	}
	for _, name := range []string{"modern", "legacy", "tool API", "stdio"} { // the end of stdin is a drain
		all[name].leave()
	}
	testkit.Until(t, "the end of the stream", func() bool { return backend.isOpen() == 0 })
}

// TestWatchesAreListedAndRead: a watch is a resource, a template and still a tool.
func TestWatchesAreListedAndRead(t *testing.T) {
	t.Parallel()
	backend := &traffic{}
	_, url := watching(t, backend, nil, func(c *configv1.Config) { c.Catalog.Exclude = []string{"outrigger.demo.v1.Fleet/ListVehicles"} })
	client := mcptest.Client(t, 1)
	ask := func(method, params string, headers ...string) string {
		body, more := modernMessage(method, params)
		return post(t, client, url+"/mcp", body, append(more, headers...)...)
	}
	for _, tt := range []struct{ got, want string }{
		{ask("resources/list", ""), `"uri":"` + vehicles + `"`},
		{ask("resources/templates/list", ""), `"uriTemplate":"` + vehicles + `{?rounds}"`},
		{ask("tools/list", ""), `resource that can be subscribed to: ` + vehicles + `{?rounds}`},
		{ask("server/discover", ""), `"subscribe":true`},
		{modernRead(t, client, url, vehicles), `"mimeType":"application/json"`},
		{modernRead(t, client, url, vehicles+"?rounds=7"), `\"vehicleId\":\"7\"`},
		{modernRead(t, client, url, vehicles+"?rounds=2000"), `less than or equal to 1000`},
		{modernRead(t, client, url, vehicles+"?rounds=x"), `-32602`},
		{modernRead(t, client, url, vehicles+"?round=1"), `no query parameter`},
		{modernRead(t, client, url, vehicles+"?rounds=1&rounds=1"), `twice`},
		{modernRead(t, client, url, vehicles+"/7"), `not found`},
	} {
		if !strings.Contains(tt.got, tt.want) {
			t.Errorf("no %s in %s", tt.want, tt.got)
		}
	}
}

// TestAWatchOfSomethingThatFails: readers get the status, and a subscription stays.
func TestAWatchOfSomethingThatFails(t *testing.T) {
	t.Parallel()
	backend := &traffic{broken: true}
	_, url := watching(t, backend, nil, nil)
	s := modernSubscriber(t, mcptest.Client(t, 1), url, vehicles)
	s.updated()
	if got := s.read(); !strings.Contains(got, "no vehicles today") || len(backend.names()) != 1 {
		t.Errorf("read %s, %d streams", got, len(backend.names()))
	}
}

// TestCallersDoNotShareStreamsOfTheirOwn: where the backend gets headers of callers, it may answer by them.
func TestCallersDoNotShareStreamsOfTheirOwn(t *testing.T) {
	t.Parallel()
	backend := &traffic{}
	_, url := watching(t, backend, nil, func(c *configv1.Config) { c.Backend.Metadata.Inbound = []string{"x-tenant", "traceparent"} })
	for _, tenant := range []string{"a", "b", "a"} {
		client := mcptest.Client(t, 1)
		trace := "Traceparent: 00-" + strings.Repeat("1"+tenant, 16) + "-" + strings.Repeat("1"+tenant, 8) + "-01"
		s := modernSubscriber(t, client, url, vehicles, "X-Tenant: "+tenant, trace)
		if got := s.read(); !strings.Contains(got, "round") {
			t.Errorf("%s: %s", tenant, got)
		}
	}
	if got := strings.Join(backend.names(), " "); got != "0a 0b" {
		t.Errorf("opened %s", got)
	}
}

// TestAWatchNeedsThePermissionOfItsTool: reads and subscriptions are checked as calls are, and end with the permission.
func TestAWatchNeedsThePermissionOfItsTool(t *testing.T) {
	t.Parallel()
	entry := func(name string, tools ...string) identity.Entry {
		return identity.Entry{Grant: identity.Grant{Name: name, Tools: tools, Resources: []string{"*"}}, Tokens: []identity.Digest{sha256.Sum256([]byte(token(name)))}}
	}
	book := identity.NewBook([]identity.Entry{entry("ann", "fleet.*"), entry("bob", "fleet.get_vehicle")})
	backend := &traffic{}
	_, url := watching(t, backend, book, nil)
	as := func(name string) string { return "Authorization: Bearer " + token(name) }
	client := mcptest.Client(t, 1)
	if got := modernRead(t, client, url, vehicles, as("bob")); !strings.Contains(got, "PERMISSION_DENIED") {
		t.Errorf("read %s", got)
	}
	body, more := modernMessage("subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+vehicles+`"]}`)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	resp := open(ctx, t, client, http.MethodPost, url+"/mcp", body, append(more, as("bob"))...)
	defer func() { _ = resp.Body.Close() }()
	if got := newLines(t, resp.Body).next("data:"); strings.Contains(got, vehicles) {
		t.Errorf("acknowledged to bob: %s", got)
	}
	if len(backend.names()) != 0 {
		t.Errorf("opened %v", backend.names())
	}
	s := modernSubscriber(t, client, url, vehicles, as("ann"))
	s.updated()
	book.Replace([]identity.Entry{entry("ann", "fleet.get_vehicle")})
	testkit.Until(t, "the end of the stream", func() bool { return backend.isOpen() == 0 })
}

// TestADrainEndsWatches, although a session still listens.
func TestADrainEndsWatches(t *testing.T) {
	t.Parallel()
	backend := &traffic{}
	rig, url := watching(t, backend, nil, nil)
	s := legacySubscriber(t, url, vehicles)
	s.updated()
	rig.End()
	testkit.Until(t, "the end of the stream", func() bool { return backend.isOpen() == 0 })
}

// TestWatchesAreBoundedAndAudited: one stream too many is refused for now, and each read and subscription leaves a line.
func TestWatchesAreBoundedAndAudited(t *testing.T) {
	t.Parallel()
	backend, path := &traffic{}, filepath.Join(t.TempDir(), "audit.jsonl")
	_, url := watching(t, backend, nil, func(c *configv1.Config) {
		withTrail(path)(c)
		c.Limits.MaxWatches = proto.Int32(1)
	})
	client := mcptest.Client(t, 1)
	modernSubscriber(t, client, url, vehicles).updated()
	if got := modernRead(t, client, url, vehicles); !strings.Contains(got, "round") {
		t.Errorf("a stream that runs: %s", got)
	}
	if got := modernRead(t, client, url, vehicles+"?rounds=7"); !strings.Contains(got, "--max-watches") {
		t.Errorf("one too many: %s", got)
	}
	body, more := modernMessage("subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+vehicles+`?rounds=8"]}`)
	if got := post(t, client, url+"/mcp", body, more...); !strings.Contains(got, "--max-watches") {
		t.Errorf("one too many: %s", got)
	}
	testkit.Until(t, "the lines", func() bool {
		trail, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for line := range strings.Lines(string(trail)) {
			isOurs := strings.Contains(line, `"fleet.watch_vehicles"`) && strings.Contains(line, vehicles)
			if isOurs && (strings.Contains(line, `"listen"`) || strings.Contains(line, `"read_resource"`)) {
				found++
			}
		}
		return found >= 4
	})
}
