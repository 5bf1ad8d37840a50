// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// trySubscribe has a client of each era subscribe to a URI, and returns what it hears.
func trySubscribe(t *testing.T, url, uri string, headers ...string) map[string]string {
	t.Helper()
	client := mcptest.Client(t, 1)
	body, more := modernMessage("subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+uri+`"]}`)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	resp := open(ctx, t, client, http.MethodPost, url+"/mcp", body, append(more, headers...)...)
	defer func() { _ = resp.Body.Close() }()
	out := map[string]string{}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		out["modern"] = newLines(t, resp.Body).next("data:")
	} else {
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		out["modern"] = string(text) + resp.Header.Get("Www-Authenticate")
	}

	initialize := open(t.Context(), t, client, http.MethodPost, url+"/mcp",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, headers...)
	_, _ = io.Copy(io.Discard, initialize.Body)
	_ = initialize.Body.Close()
	session := append([]string{"Mcp-Session-Id: " + initialize.Header.Get("Mcp-Session-Id"), "MCP-Protocol-Version: 2025-11-25"}, headers...)
	legacy := open(t.Context(), t, client, http.MethodPost, url+"/mcp", `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`, session...)
	text, err := io.ReadAll(legacy.Body)
	_ = legacy.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	out["legacy"] = string(text) + legacy.Header.Get("Www-Authenticate")

	api := outriggerv1connect.NewToolServiceClient(&http.Client{Transport: &withHeaders{mcptest.Client(t, 2).Transport, headers}}, url)
	stream, err := api.Subscribe(ctx, connect.NewRequest(&outriggerv1.SubscribeRequest{
		Filter: &outriggerv1.SubscribeRequest_Changes{Changes: &outriggerv1.ChangeFilter{ResourceUris: []string{uri}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		leave()
		_ = stream.Close()
	}()
	if stream.Receive() {
		out["tool API"] = strings.Join(stream.Msg().GetAcknowledged().GetResourceUris(), " ")
	} else {
		out["tool API"] = stream.Err().Error()
	}
	return out
}

// withHeaders adds "Name: value" headers to requests.
type withHeaders struct {
	next    http.RoundTripper
	headers []string
}

// RoundTrip implements [http.RoundTripper].
func (w *withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for _, h := range w.headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return w.next.RoundTrip(r)
}

// isSubscribed reports whether what a client was told is that it is subscribed to a URI.
func isSubscribed(era, told, uri string) bool {
	if era == "legacy" {
		return strings.Contains(told, `"result":{}`)
	}
	return strings.Contains(told, uri) && !strings.Contains(told, "error")
}

// TestAWatchTakesTheStepsOfACall: rules, rates and scopes decide about reads and subscriptions, and what they refuse never
// reaches the backend.
func TestAWatchTakesTheStepsOfACall(t *testing.T) {
	t.Parallel()
	reading := "Authorization: Bearer " + withTokens([]who{{name: "reading"}})[0].token
	for name, row := range map[string]struct {
		configure func(*configv1.Config)
		callers   []who
		uri       string
		first     bool // the first read is allowed
		want      string
	}{
		"a rule about the caller": {
			configure: func(c *configv1.Config) {
				c.Access.Policy = &configv1.Policy{Rules: []*configv1.PolicyRule{{Name: "ashore", Effect: "deny", When: `caller.name != "x"`, Tools: []string{"fleet.watch_vehicles"}}}}
			},
			uri: vehicles, want: "ermission",
		},
		"a rule about arguments": {
			configure: func(c *configv1.Config) {
				c.Access.Policy = &configv1.Policy{Rules: []*configv1.PolicyRule{{Name: "few", Effect: "deny", When: "args.rounds > 5", Tools: []string{"fleet.watch_vehicles"}}}}
			},
			uri: vehicles + "?rounds=7", want: "ermission",
		},
		"a rate": {
			configure: func(c *configv1.Config) {
				c.Limits.ToolRate = &configv1.Rate{PerSecond: 0.001, Burst: proto.Int32(1)}
			},
			uri: vehicles, first: true, want: "ate limit",
		},
		"a scope": {
			configure: func(c *configv1.Config) {
				withOAuth(c)
				c.Access.Oauth.OperationScopes = nil
			},
			callers: []who{{name: "reading", issuer: issuerA, scopes: []string{"prompts"}}},
			uri:     vehicles, want: "cope",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := &traffic{}
			var known identity.Authenticator
			var headers []string
			if row.callers != nil {
				known, headers = newDirectory(t, withTokens(row.callers)), []string{reading}
			}
			_, url := watching(t, backend, known, row.configure)
			client := mcptest.Client(t, 1)
			if row.first {
				if got := modernRead(t, client, url, row.uri, headers...); !strings.Contains(got, `\"round\"`) {
					t.Errorf("the first read: %s", got)
				}
			}
			opened := len(backend.names())
			if got := modernRead(t, client, url, row.uri, headers...); !strings.Contains(got, row.want) || !strings.Contains(got, `"error"`) {
				t.Errorf("read: %s", got)
			}
			for era, told := range trySubscribe(t, url, row.uri, headers...) {
				if isSubscribed(era, told, row.uri) {
					t.Errorf("%s subscribes: %s", era, told)
				}
			}
			if got := len(backend.names()); got != opened {
				t.Errorf("%d streams were opened", got-opened)
			}
		})
	}
}

// TestAWatchBehindRules: what the rules allow is read and subscribed to as without them.
func TestAWatchBehindRules(t *testing.T) {
	t.Parallel()
	_, url := watching(t, &traffic{}, nil, func(c *configv1.Config) {
		c.Access.Policy = &configv1.Policy{Rules: []*configv1.PolicyRule{{Name: "few", Effect: "deny", When: "args.rounds > 5", Tools: []string{"fleet.watch_vehicles"}}}}
	})
	const uri = vehicles + "?rounds=5"
	if got := modernRead(t, mcptest.Client(t, 1), url, uri); !strings.Contains(got, `\"vehicleId\":\"5\"`) {
		t.Errorf("read: %s", got)
	}
	for era, told := range trySubscribe(t, url, uri) {
		if !isSubscribed(era, told, uri) {
			t.Errorf("%s does not subscribe: %s", era, told)
		}
	}
}

// named is a fleet that notes by what token, or in which name, its stream is opened.
type named struct {
	traffic

	tokens chan string
}

// WatchVehicles implements [demov1connect.FleetHandler].
func (n *named) WatchVehicles(ctx context.Context, req *connect.Request[demov1.WatchVehiclesRequest], out *connect.ServerStream[demov1.VehicleUpdate]) error {
	n.tokens <- strings.TrimPrefix(req.Header().Get("Authorization"), "Bearer ") + req.Header().Get("X-Outrigger-Subject")
	return n.traffic.WatchVehicles(ctx, req, out)
}

// TestAWatchOnBehalfOfItsCaller: where the backend is called in the name of callers, so is a watch, with a stream for each.
func TestAWatchOnBehalfOfItsCaller(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"header", "exchange", "signed"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			backend := &named{tokens: make(chan string, 100)}
			mux := http.NewServeMux()
			mux.Handle(demov1connect.NewFleetHandler(backend))
			mux.Handle(grpcreflect.NewHandlerV1(grpcreflect.NewStaticReflector(demov1connect.FleetName)))
			tokenURL, _ := authorizationServer(t)
			rig := mcptest.Start(t, mcptest.Options{
				Behind: "grpc" + strings.TrimPrefix(mcptest.Serve(t, mux), "http"),
				Change: func(o *server.Options) { o.Authenticator = bearers{} },
				Configure: func(c *configv1.Config) {
					c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Fleet/WatchVehicles", Tool: &configv1.ToolOptions{Watch: proto.Bool(true)}})
					i := c.Backend.Identity
					i.Mode = proto.String(mode)
					i.Exchange.TokenUrl, i.Exchange.Audience = tokenURL, []string{"fleet"}
					i.Signed.KeyFile, i.Signed.Issuer, i.Signed.Audience = signingKey(t), "https://sidecar.example.com", "fleet"
				},
			})
			url := rig.Serve(t)
			shown := map[string]bool{}
			for _, caller := range []string{"ann", "bob"} {
				bearer := canary(caller)
				s := modernSubscriber(t, mcptest.Client(t, 1), url, vehicles, "Authorization: Bearer "+bearer)
				s.updated()
				if got := s.read(); !strings.Contains(got, `\"round\"`) {
					t.Errorf("%s reads %s", caller, got)
				}
				got := <-backend.tokens
				switch {
				case mode == "header" && got != issuer+"#"+caller, mode == "exchange" && got != exchangedFor(bearer), mode == "signed" && strings.Count(got, ".") != 2:
					t.Errorf("%s: the backend gets %q", caller, got)
				case shown[got]:
					t.Errorf("%s: the stream is in the name of another", caller)
				}
				shown[got] = true
			}
			if got := len(backend.names()); got != 2 || len(backend.tokens) != 0 {
				t.Errorf("%d streams were opened", got)
			}
		})
	}
}

// TestAWatchFollowsTheCatalog: a method that is gone ends its stream, and one that comes back starts it again, for the
// same subscribers.
func TestAWatchFollowsTheCatalog(t *testing.T) {
	t.Parallel()
	backend := &traffic{}
	var isGone atomic.Bool
	mux := http.NewServeMux()
	mux.Handle(demov1connect.NewFleetHandler(backend))
	mux.Handle(demov1connect.NewLabHandler(demov1connect.UnimplementedLabHandler{}))
	reflector := grpcreflect.NewReflector(grpcreflect.NamerFunc(func() []string {
		if isGone.Load() {
			return []string{demov1connect.LabName}
		}
		return []string{demov1connect.LabName, demov1connect.FleetName}
	}))
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	rig := mcptest.Start(t, mcptest.Options{
		Behind: "grpc" + strings.TrimPrefix(mcptest.Serve(t, mux), "http"),
		Configure: func(c *configv1.Config) {
			c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Fleet/*", Tool: &configv1.ToolOptions{}},
				&configv1.ToolOverlay{Method: "outrigger.demo.v1.*/WatchVehicles", Tool: &configv1.ToolOptions{Watch: proto.Bool(true)}})
		},
	})
	url := rig.Serve(t)
	all := map[string]subscriber{
		"modern": modernSubscriber(t, mcptest.Client(t, 1), url, vehicles), "legacy": legacySubscriber(t, url, vehicles), "tool API": apiSubscriber(t, url, vehicles),
	}
	backend.move()
	for _, s := range all {
		s.updated()
	}
	client := mcptest.Client(t, 1)
	other := openSession(t, client, url, "2025-06-18") // a session that was told of resources, and is subscribed to one
	heard := open(t.Context(), t, client, http.MethodGet, url+"/mcp", "", "Mcp-Session-Id: "+other.id, "MCP-Protocol-Version: "+other.revision)
	defer func() { _ = heard.Body.Close() }()
	if got := other.send(t, client, "resources/subscribe", `"uri":"`+vehicles+`?rounds=3"`); !strings.Contains(got.body, `"result":{}`) {
		t.Fatalf("subscribe: %s", got.body)
	}
	isGone.Store(true)
	if err := rig.Live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the end of the stream", func() bool { return backend.isOpen() == 0 })
	for era, s := range all {
		s.updated()
		testkit.Until(t, era+" reads that it is gone", func() bool { return strings.Contains(strings.ToLower(s.read()), "not found") })
	}
	newLines(t, heard.Body).next("notifications/resources/list_changed")
	if got := other.send(t, client, "resources/unsubscribe", `"uri":"`+vehicles+`?rounds=3"`); !strings.Contains(got.body, `"result":{}`) {
		t.Errorf("unsubscribe from what is gone: %s", got.body)
	}
	opened := len(backend.names())
	isGone.Store(false)
	backend.move()
	if err := rig.Live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for era, s := range all {
		s.updated()
		testkit.Until(t, era+" reads again", func() bool { return strings.Contains(s.read(), `\"round\":2`) })
	}
	if got := len(backend.names()) - opened; got != 1 {
		t.Errorf("%d streams were opened again", got)
	}
}
