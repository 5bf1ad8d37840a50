// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

func exchangeEdges() []Edge {
	edge := func(name string, options ...connect.ClientOption) Edge {
		return Edge{Name: name, IDs: AnyIDs, Dial: func(tb testing.TB, t Target) Agent {
			tb.Helper()
			return dialExchange(tb, t.Addr, options...)
		}}
	}
	return []Edge{
		edge("exchange-connect"),
		edge("exchange-grpc", connect.WithGRPC()),
		edge("exchange-grpcweb", connect.WithGRPCWeb()),
	}
}

// exchangeAgent carries all its calls over one stream.
type exchangeAgent struct {
	client  *http.Client
	stream  *connect.BidiStreamForClient[outriggerv1.Envelope, outriggerv1.Envelope]
	cancel  context.CancelFunc
	reading sync.WaitGroup
	sending sync.Mutex

	mu      sync.Mutex
	waiting map[string]chan Reply
	strays  []string
	broken  error
	ended   chan struct{}
}

func dialExchange(tb testing.TB, addr string, options ...connect.ClientOption) *exchangeAgent {
	tb.Helper()
	client := Client(true)
	ctx, cancel := context.WithCancel(tb.Context())
	a := &exchangeAgent{
		client: client, cancel: cancel, waiting: map[string]chan Reply{}, ended: make(chan struct{}),
		stream: outriggerv1connect.NewToolServiceClient(client, "http://"+addr, options...).Exchange(ctx),
	}
	a.reading.Go(a.read)
	return a
}

func (a *exchangeAgent) read() {
	defer close(a.ended)
	for {
		envelope, err := a.stream.Receive()
		if err != nil {
			a.mu.Lock()
			a.broken = err
			a.mu.Unlock()
			return
		}
		reply := replyOf(envelope)
		a.mu.Lock()
		waiter := a.waiting[string(reply.ID)]
		delete(a.waiting, string(reply.ID))
		if waiter == nil {
			a.strays = append(a.strays, envelope.String())
		}
		a.mu.Unlock()
		if waiter != nil {
			waiter <- reply
		}
	}
}

// Strays implements [Strayer].
func (a *exchangeAgent) Strays() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.strays)
}

// Close half-closes the stream and waits for its end.
func (a *exchangeAgent) Close() {
	_ = a.stream.CloseRequest()
	a.reading.Wait()
	_ = a.stream.CloseResponse()
	a.cancel()
	a.client.CloseIdleConnections()
}

func (a *exchangeAgent) CallAll(ctx context.Context, calls []Call) []Answer {
	return each(calls, func(c Call) Answer {
		waiter := make(chan Reply, 1)
		a.mu.Lock()
		a.waiting[c.ID] = waiter
		a.mu.Unlock()
		params := fmt.Sprintf(`{"name":%q,"arguments":%s}`, c.Tool, c.Args)
		a.sending.Lock()
		err := a.stream.Send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
			Id: protoID(c.ID), Method: "tools/call",
			ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(params)},
		}}})
		a.sending.Unlock()
		if err != nil && !errors.Is(err, io.EOF) { // EOF: the reader knows why
			return failed(err)
		}
		select {
		case reply := <-waiter:
			return Canonical.answer(reply, 0)
		case <-a.ended:
			a.mu.Lock()
			defer a.mu.Unlock()
			return failed(fmt.Errorf("the stream ended: %w", a.broken))
		case <-ctx.Done():
			return failed(ctx.Err())
		}
	})
}

// protoID turns the JSON text of an id into its message.
func protoID(raw string) *outriggerv1.Id {
	if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return &outriggerv1.Id{Kind: &outriggerv1.Id_Integer{Integer: n}}
	}
	var text string
	if json.Unmarshal([]byte(raw), &text) == nil {
		return &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: text}}
	}
	return &outriggerv1.Id{Kind: &outriggerv1.Id_BigInteger{BigInteger: raw}}
}

// idText is the way back.
func idText(id *outriggerv1.Id) json.RawMessage {
	switch k := id.GetKind().(type) {
	case *outriggerv1.Id_Integer:
		return strconv.AppendInt(nil, k.Integer, 10)
	case *outriggerv1.Id_BigInteger:
		return json.RawMessage(k.BigInteger)
	case *outriggerv1.Id_Text:
		out, err := protojson.Marshal(structpb.NewStringValue(k.Text))
		if err != nil {
			return nil // no id matches it
		}
		return out
	}
	return nil
}

// replyOf turns an envelope into the JSON form that the other edges have.
func replyOf(e *outriggerv1.Envelope) Reply {
	reply := Reply{Version: "2.0"}
	if ok := e.GetSuccessResponse(); ok != nil {
		reply.ID, reply.Result = idText(ok.GetId()), ok.GetResultJson()
		return reply
	}
	failure := e.GetErrorResponse()
	reply.ID = idText(failure.GetId())
	reply.Error = &struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}{int64(failure.GetError().GetCode()), failure.GetError().GetMessage(), failure.GetError().GetDataJson()}
	return reply
}
