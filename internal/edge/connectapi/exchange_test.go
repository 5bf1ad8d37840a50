// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func bridgeInMemory(t *testing.T, call mcptest.Upstream) front {
	t.Helper()
	return inFront(bridge.New(mcptest.Memory(t), call, correlate.New(correlate.Options{}), bridge.Options{}))
}

// gated is a backend in which each call waits for its nonce to be let go.
type gated struct {
	entered chan struct{}
	release map[string]chan struct{}
}

func newGated(nonces ...string) *gated {
	g := &gated{entered: make(chan struct{}, 256), release: map[string]chan struct{}{}}
	for _, n := range nonces {
		g.release[n] = make(chan struct{})
	}
	return g
}

func (g *gated) call(ctx context.Context, _ *catalog.Method, in []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	g.entered <- struct{}{}
	for nonce, release := range g.release {
		if !strings.Contains(string(in), nonce) {
			continue
		}
		select {
		case <-release:
		case <-ctx.Done():
			return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
		}
	}
	return &bridge.Answer{Body: bytes.Clone(in)}, nil
}

type calls = connect.BidiStreamForClient[outriggerv1.Envelope, outriggerv1.Envelope]

func open(t *testing.T, url string, options ...connect.ClientOption) *calls {
	t.Helper()
	stream := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), url, options...).Exchange(t.Context())
	t.Cleanup(func() { _ = stream.CloseRequest(); _ = stream.CloseResponse() })
	return stream
}

func text(id string) *outriggerv1.Id { return &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: id}} }
func integer(id int64) *outriggerv1.Id {
	return &outriggerv1.Id{Kind: &outriggerv1.Id_Integer{Integer: id}}
}

func big(id string) *outriggerv1.Id {
	return &outriggerv1.Id{Kind: &outriggerv1.Id_BigInteger{BigInteger: id}}
}

func request(id *outriggerv1.Id, method, params string) *outriggerv1.Envelope {
	r := &outriggerv1.Request{Id: id, Method: method}
	if params != "" {
		r.ParamsForm = &outriggerv1.Request_ParamsJson{ParamsJson: []byte(params)}
	}
	return &outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: r}}
}

func echo(id *outriggerv1.Id, nonce string) *outriggerv1.Envelope {
	return request(id, "tools/call", `{"name":"lab.echo","arguments":{"nonce":"`+nonce+`"}}`)
}

func notification(method, params string) *outriggerv1.Envelope {
	return &outriggerv1.Envelope{Message: &outriggerv1.Envelope_Notification{Notification: &outriggerv1.Notification{
		Method: method, ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(params)},
	}}}
}

func send(t *testing.T, s *calls, envelopes ...*outriggerv1.Envelope) {
	t.Helper()
	for _, e := range envelopes {
		if err := s.Send(e); err != nil {
			t.Fatalf("send: %v", err)
		}
	}
}

// nextReply is the next reply: its id and its canonical code, empty on success.
func nextReply(t *testing.T, s *calls) (*outriggerv1.Id, string, string) {
	t.Helper()
	e, err := s.Receive()
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	if ok := e.GetSuccessResponse(); ok != nil {
		return ok.GetId(), "", string(ok.GetResultJson())
	}
	failed := e.GetErrorResponse()
	if failed.GetError().GetCode() == 0 {
		t.Errorf("the code 0 has left: %v", e)
	}
	data := string(failed.GetError().GetDataJson())
	_, code, _ := strings.Cut(data, `"code":"`)
	code, _, _ = strings.Cut(code, `"`)
	return failed.GetId(), code, data
}

func sameID(a, b *outriggerv1.Id) bool { return proto.Equal(a, b) }

func TestExchangeAnswersOutOfOrder(t *testing.T) {
	t.Parallel()
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			backend := newGated("first", "second")
			s := open(t, mount(t, bridgeInMemory(t, backend.call), connectapi.Options{}), p.options...)
			send(t, s, echo(text("1"), "first"), echo(text("2"), "second"), echo(integer(1), "third"))
			for _, want := range []struct {
				id    *outriggerv1.Id
				nonce string
			}{{integer(1), "third"}, {text("2"), "second"}, {text("1"), "first"}} {
				if release := backend.release[want.nonce]; release != nil {
					close(release)
				}
				if id, code, body := nextReply(t, s); !sameID(id, want.id) || code != "" || !strings.Contains(body, want.nonce) {
					t.Errorf("got %v %s %s, want %v", id, code, body, want)
				}
			}
			if err := s.CloseRequest(); err != nil {
				t.Fatal(err)
			}
			if e, err := s.Receive(); !errors.Is(err, io.EOF) {
				t.Errorf("after the half-close: %v, %v", e, err)
			}
		})
	}
}

func TestExchangeAnswersWhatIsInFlightAfterTheHalfClose(t *testing.T) {
	t.Parallel()
	backend := newGated("late")
	s := open(t, mount(t, bridgeInMemory(t, backend.call), connectapi.Options{}))
	send(t, s, echo(text("1"), "late"))
	<-backend.entered
	if err := s.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	close(backend.release["late"])
	if id, code, _ := nextReply(t, s); !sameID(id, text("1")) || code != "" {
		t.Errorf("got %v %s", id, code)
	}
	if _, err := s.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
}

func TestExchangeEchoesIDsWithTheirType(t *testing.T) {
	t.Parallel()
	s := open(t, mount(t, bridgeInMemory(t, mcptest.Echo), connectapi.Options{}))
	for _, id := range []*outriggerv1.Id{
		text("a"), text(""), text("7"), text("é\n\"/"), integer(7), integer(0), integer(-9223372036854775808), integer(9223372036854775807),
		big("9223372036854775808"), big("-123456789012345678901234567890"),
	} {
		send(t, s, request(id, "ping", ""))
		got, code, _ := nextReply(t, s)
		if diff := cmp.Diff(id, got, protocmp.Transform()); diff != "" || code != "" {
			t.Errorf("%v: %s (-want +got):\n%s", id, code, diff)
		}
	}
}

func TestFaultsOfOneMessageDoNotEndTheStream(t *testing.T) {
	t.Parallel()
	s := open(t, mount(t, bridgeInMemory(t, mcptest.Echo), connectapi.Options{}))
	number, err := structpb.NewStruct(map[string]any{"name": "lab.echo"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		envelope *outriggerv1.Envelope
		id       *outriggerv1.Id
		want     errmap.Code
	}{
		{"nothing", &outriggerv1.Envelope{}, nil, errmap.InvalidEnvelope},
		{"no id", request(nil, "ping", ""), nil, errmap.InvalidEnvelope},
		{"an empty id", request(&outriggerv1.Id{}, "ping", ""), nil, errmap.InvalidEnvelope},
		{"an id that is too long", request(text(strings.Repeat("x", 1025)), "ping", ""), nil, errmap.InvalidEnvelope},
		{"a big integer that is no number", request(big("x"), "ping", ""), nil, errmap.InvalidEnvelope},
		{"a big integer that is a string", request(big(`"x"`), "ping", ""), nil, errmap.InvalidEnvelope},
		{"a big integer that is small", request(big("7"), "ping", ""), nil, errmap.InvalidEnvelope},
		{"a big integer with a fraction", request(big("9223372036854775808.5"), "ping", ""), nil, errmap.InvalidEnvelope},
		{"no method", request(text("a"), "", "{}"), text("a"), errmap.InvalidEnvelope},
		{"params are an array", request(text("a"), "ping", "[]"), text("a"), errmap.InvalidEnvelope},
		{"params are no JSON", request(text("a"), "ping", "{"), text("a"), errmap.ParseError},
		{"an unknown method", request(text("a"), "tools/run", "{}"), text("a"), errmap.MethodNotFound},
		{"an unknown tool", request(integer(5), "tools/call", `{"name":"lab.ecko"}`), integer(5), errmap.ToolNotFound},
		{"bad input", request(text("a"), "tools/call", `{"name":"lab.echo","arguments":{"signed":5.5}}`), text("a"), errmap.InvalidToolInput},
		{"a response", &outriggerv1.Envelope{Message: &outriggerv1.Envelope_SuccessResponse{
			SuccessResponse: &outriggerv1.SuccessResponse{Id: text("a")},
		}}, nil, errmap.InvalidEnvelope},
		{"an error", &outriggerv1.Envelope{Message: &outriggerv1.Envelope_ErrorResponse{
			ErrorResponse: &outriggerv1.ErrorResponse{Id: text("a")},
		}}, nil, errmap.InvalidEnvelope},
		{"a notification without a method", notification("", "{}"), nil, errmap.InvalidEnvelope},
		{"a notification whose params are no JSON", notification("n", "{"), nil, errmap.ParseError},
		{"params as a Struct", &outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
			Id: text("s"), Method: "tools/call", ParamsForm: &outriggerv1.Request_Params{Params: number},
		}}}, text("s"), ""},
	} {
		send(t, s, tc.envelope)
		if id, code, body := nextReply(t, s); !sameID(id, tc.id) || code != string(tc.want) {
			t.Errorf("%s: got %v %s %s, want %v %s", tc.name, id, code, body, tc.id, tc.want)
		}
		send(t, s, notification("notifications/anything", "{}"), request(text("alive"), "ping", ""))
		if id, code, _ := nextReply(t, s); !sameID(id, text("alive")) || code != "" {
			t.Fatalf("after %s: got %v %s", tc.name, id, code)
		}
	}
}

func TestExchangeKeepsIDsApartAndCancels(t *testing.T) {
	t.Parallel()
	backend := newGated("held", "gone")
	s := open(t, mount(t, bridgeInMemory(t, backend.call), connectapi.Options{}))
	send(t, s, echo(text("a"), "held"), echo(text("b"), "gone"))
	<-backend.entered
	<-backend.entered
	send(t, s, echo(text("a"), "second"))
	if id, code, _ := nextReply(t, s); !sameID(id, text("a")) || code != string(errmap.DuplicateRequestID) {
		t.Errorf("the second: %v %s", id, code)
	}
	send(t, s, notification("notifications/cancelled", `{"requestId":"b"}`), request(text("p"), "ping", ""))
	if id, code, _ := nextReply(t, s); !sameID(id, text("p")) || code != "" {
		t.Errorf("got %v %s, want silence about what was cancelled", id, code)
	}
	close(backend.release["held"])
	if id, code, body := nextReply(t, s); !sameID(id, text("a")) || code != "" || !strings.Contains(body, "held") {
		t.Errorf("the first is disturbed: %v %s %s", id, code, body)
	}
	if err := s.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, %v, want the end", e, err)
	}
}

func TestExchangeIsBounded(t *testing.T) {
	t.Parallel()
	backend := newGated("held")
	s := open(t, mount(t, bridgeInMemory(t, backend.call), connectapi.Options{MaxConcurrent: 1}))
	send(t, s, echo(text("1"), "held"))
	<-backend.entered
	send(t, s, echo(text("2"), "more"))
	if id, code, _ := nextReply(t, s); !sameID(id, text("2")) || code != string(errmap.Unavailable) {
		t.Errorf("got %v %s, want UNAVAILABLE", id, code)
	}
	close(backend.release["held"])
	if id, code, _ := nextReply(t, s); !sameID(id, text("1")) || code != "" {
		t.Errorf("got %v %s", id, code)
	}
}

func TestABrokenStreamCancelsItsCalls(t *testing.T) {
	t.Parallel()
	backend := newGated("held")
	b := bridgeInMemory(t, backend.call)
	ctx, hangUp := context.WithCancel(t.Context())
	s := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), mount(t, b, connectapi.Options{})).Exchange(ctx)
	send(t, s, echo(text("1"), "held"))
	<-backend.entered
	hangUp()
	_ = s.CloseRequest()
	_ = s.CloseResponse()
	if err := b.bridge.Flights().Drain(t.Context()); err != nil { // returns when the last call has ended
		t.Errorf("drain: %v", err)
	}
}

func TestFiftyCallersWithTheSameIDsNeverMeet(t *testing.T) {
	t.Parallel()
	const callers = 50
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{})
	for caller := range callers {
		t.Run(fmt.Sprint(caller), func(t *testing.T) {
			t.Parallel()
			s := open(t, url)
			for id := range callers {
				send(t, s, echo(integer(int64(id)), fmt.Sprintf("%d-%d", caller, id)))
			}
			for range callers {
				id, code, body := nextReply(t, s)
				if want := fmt.Sprintf(`"nonce":"%d-%d"`, caller, id.GetInteger()); code != "" || !strings.Contains(body, want) {
					t.Errorf("id %v: got %s %s, want %s", id, code, body, want)
				}
			}
		})
	}
}
