// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// gated is every edge of a sidecar in front of the demo service, with a count of
// how often the one destructive RPC reached it.
type gated struct {
	bridge    *dialect.Handler
	url       string
	operators string
	one, two  *http.Client
	cancelled atomic.Int64
	end       func()
}

func newGated(t *testing.T, configure func(*configv1.Config)) *gated {
	t.Helper()
	return newGatedBy(t, mcptest.Options{Configure: configure})
}

// newGatedBy is newGated with another sidecar.
func newGatedBy(t *testing.T, o mcptest.Options) *gated {
	t.Helper()
	g := &gated{one: mcptest.Client(t, 1), two: mcptest.Client(t, 2)}
	// A path that is not clean is answered with a redirect to the clean one,
	// which would be another request.
	g.one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.Adjust = server.Adjust{Upstream: func(next bridge.Upstream) bridge.Upstream {
		return mcptest.Upstream(func(ctx context.Context, m *catalog.Method, in []byte, h http.Header) (*bridge.Answer, *errmap.Error) {
			if m.Procedure == demov1connect.FleetCancelOrderProcedure {
				g.cancelled.Add(1)
			}
			return next.Call(ctx, m, in, h)
		})
	}}
	rig := mcptest.Start(t, o)
	g.bridge, g.end = rig.Bridge, rig.End
	g.url, g.operators = rig.Serve(t), rig.Operators(t)
	// A second name for the RPC that claims to be harmless.
	no := false
	if _, _, err := rig.Live.Register(t.Context(), catalog.Registration{
		Name: "desk.tidy", Description: "Tidy up.", InputSchema: json.RawMessage(`{"type":"object"}`),
		Binding:     catalog.Binding{Service: "outrigger.demo.v1.Fleet", Method: "CancelOrder"},
		Annotations: catalog.Annotations{Destructive: &no},
	}); err != nil {
		t.Fatal(err)
	}
	return g
}

// allEdges is what the main listener serves.
func allEdges(b *dialect.Handler) http.Handler {
	api := connectapi.New(b, connectapi.Options{})
	mux := http.NewServeMux()
	mux.Handle(mcphttp.Path, mcphttp.New(b, mcphttp.Options{}))
	mux.Handle(rpchttp.Path, rpchttp.New(b, rpchttp.Options{}))
	api.Mount(mux)
	mux.Handle("/", api.PassThrough(api.NotFound()))
	return mux
}

// trust has an operator say whether callers are trusted.
func (g *gated) trust(t *testing.T, to policy.Trust) {
	t.Helper()
	if status, body := send(t, g.one, http.MethodPost, g.operators+"/trust", `{"trust":"`+to.String()+`"}`); status != http.StatusOK {
		t.Fatalf("/trust: %d %s", status, body)
	}
}

// order places an order that can be cancelled.
func (g *gated) order(t *testing.T) uint64 {
	t.Helper()
	resp := g.bridge.Handle(t.Context(), toolCall(g.bridge, "fleet.place_order",
		`{"customer":"Ann","destination":{"stopId":"1"},"parcels":[{"contents":"a coconut","weightKg":1}]}`))
	if resp.Err != nil {
		t.Fatalf("place an order: %v %+v", resp.Err, resp.Err.Violations)
	}
	var placed struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(resp.Result.Bytes, &placed); err != nil {
		t.Fatal(err)
	}
	id, err := strconv.ParseUint(placed.ID, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// send sends a request and returns status and body.
func send(t *testing.T, client *http.Client, method, url, body string, headers ...string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, raw
}

// codeOfReply is the canonical code in a JSON-RPC reply, empty on success.
func codeOfReply(t *testing.T, raw []byte) errmap.Code {
	t.Helper()
	if _, event, ok := bytes.Cut(raw, []byte("data: ")); ok {
		raw = event
	}
	m := decode(t, dialect.NewReply(bytes.TrimSpace(raw)))
	if m.Error == nil && m.Result == nil {
		t.Errorf("this is no reply: %s", raw)
	}
	return m.code()
}

// codeOfRPC is the canonical code of an RPC's error, empty on success.
func codeOfRPC(t *testing.T, err error) errmap.Code {
	t.Helper()
	if err == nil {
		return ""
	}
	var failed *connect.Error
	if !errors.As(err, &failed) {
		t.Fatalf("no RPC error: %v", err)
	}
	for _, d := range failed.Details() {
		if value, _ := d.Value(); value != nil {
			if info, ok := value.(*errdetails.ErrorInfo); ok {
				return errmap.Code(info.GetReason())
			}
		}
	}
	return errmap.Code("no ErrorInfo: " + failed.Error())
}

// way is one way to ask for the destructive tool. It returns the canonical code
// of the refusal, empty on success.
type way struct {
	name string
	ask  func(t *testing.T, g *gated, order uint64) errmap.Code
}

func TestNothingGetsAroundTheGate(t *testing.T) {
	t.Parallel()
	g := newGated(t, nil)
	for _, phase := range []struct {
		trust policy.Trust
		want  errmap.Code
		calls int64
	}{
		{policy.Untrusted, errmap.DestructiveBlocked, 0},
		{policy.Trusted, "", 1},
		{policy.Untrusted, errmap.DestructiveBlocked, 0}, // and it closes again
	} {
		g.trust(t, phase.trust)
		for _, w := range waysIn() {
			before := g.cancelled.Load()
			if got := w.ask(t, g, g.order(t)); got != phase.want {
				t.Errorf("%v, %s: got %q, want %q", phase.trust, w.name, got, phase.want)
			}
			if calls := g.cancelled.Load() - before; calls != phase.calls {
				t.Errorf("%v, %s: the backend was called %d times, want %d", phase.trust, w.name, calls, phase.calls)
			}
		}
		for _, w := range noWays() {
			before := g.cancelled.Load()
			if got := w.ask(t, g, g.order(t)); got == "" {
				t.Errorf("%v, %s: succeeds", phase.trust, w.name)
			}
			if calls := g.cancelled.Load() - before; calls != 0 {
				t.Errorf("%v, %s: the backend was called", phase.trust, w.name)
			}
		}
	}
}
