// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// Flow is one stream as its caller wrote it down.
type Flow struct {
	// Nonce is unique. Client is the library and protocol, Kind the method.
	Nonce, Client, Kind string
	// Sent is how many messages the caller sent.
	Sent int
	// Got are the messages that came back.
	Got []string
	// Code is what the stream ended with, "" for success.
	Code, Message string

	passed *atomic.Int64   // messages that were sent or came back
	enough <-chan struct{} // closed when the stream is to end
}

// flowPause is the time between two messages of a stream.
const flowPause = 25 * time.Millisecond

// enoughFile tells the backend to end its server streams.
func enoughFile(journal string) string { return journal + ".enough" }

// Flows holds streams of every kind open on clients of every protocol. at is called when
// messages have passed on all of them, or nil; then they are to end. It returns what callers
// and backend wrote down when all have.
func (r *Rig) Flows(each int, at func()) ([]Flow, []Execution) {
	r.tb.Helper()
	file := enoughFile(r.Backend.journal)
	_ = os.Remove(file) // of the streams before, if there were some
	begun := len(r.Backend.Executions())
	ctx, cancel := context.WithTimeout(r.tb.Context(), 4*r.limit())
	defer cancel()
	var flows []*Flow
	var running sync.WaitGroup
	var open atomic.Int64
	enough := make(chan struct{})
	clients := r.flowClients()
	for _, c := range clients {
		for kind, run := range c.kinds {
			for range each {
				f := &Flow{Nonce: fmt.Sprintf("s%d", r.serial.Add(1)), Client: c.name, Kind: kind, passed: new(atomic.Int64), enough: enough}
				flows = append(flows, f)
				open.Add(1)
				running.Go(func() {
					f.ended(run(ctx, f))
					open.Add(-1)
				})
			}
		}
	}
	r.Await("messages have passed on every stream", func() bool {
		return open.Load() == 0 || !slices.ContainsFunc(flows, func(f *Flow) bool { return f.passed.Load() < 3 })
	})
	if at != nil {
		at()
	}
	close(enough)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		r.tb.Error(err)
	}
	running.Wait()
	for _, c := range clients {
		c.hangUp()
	}
	out := make([]Flow, len(flows))
	for i, f := range flows {
		out[i] = *f
	}
	return out, r.Backend.Executions()[begun:]
}

func (f *Flow) ended(err error) {
	failed := new(connect.Error)
	switch {
	case err == nil:
		return
	case errors.As(err, &failed):
		f.Code = failed.Code().String()
	default:
		f.Code = connect.Code(status.Code(err)).String() // they have the same numbers
	}
	f.Message = err.Error()
}

// flowClient makes streams with one library and protocol.
type flowClient struct {
	name   string
	kinds  map[string]func(context.Context, *Flow) error
	hangUp func()
}

func (r *Rig) flowClients() []flowClient {
	conn := caller.DialGRPC(r.tb, r.Server.Addr())
	lab := grpc_testing.NewTestServiceClient(conn)
	out := []flowClient{{
		name: "grpc-go", hangUp: func() { _ = conn.Close() },
		kinds: map[string]func(context.Context, *Flow) error{
			ClientStream: func(ctx context.Context, f *Flow) error {
				stream, err := lab.StreamingInputCall(ctx)
				if err != nil {
					return err
				}
				return f.client(stream.Send, stream.CloseAndRecv)
			},
			ServerStream: func(ctx context.Context, f *Flow) error {
				stream, err := lab.StreamingOutputCall(ctx, f.request())
				if err != nil {
					return err
				}
				return f.receive(stream.Recv)
			},
			BidiStream: func(ctx context.Context, f *Flow) error {
				stream, err := lab.FullDuplexCall(ctx)
				if err != nil {
					return err
				}
				return f.duplex(stream.Send, stream.CloseSend, stream.Recv)
			},
		},
	}}
	for name, options := range map[string][]connect.ClientOption{
		"Connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		out = append(out, r.connectFlows(name, options))
	}
	return out
}

func (r *Rig) connectFlows(name string, options []connect.ClientOption) flowClient {
	client := caller.Client(true)
	url := func(method string) string { return r.Server.URL("/grpc.testing.TestService/" + method) }
	clients := connect.NewClient[grpc_testing.StreamingInputCallRequest, grpc_testing.StreamingInputCallResponse](client, url(ClientStream), options...)
	servers := connect.NewClient[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse](client, url(ServerStream), options...)
	bidis := connect.NewClient[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse](client, url(BidiStream), options...)
	return flowClient{name: name, hangUp: client.CloseIdleConnections, kinds: map[string]func(context.Context, *Flow) error{
		ClientStream: func(ctx context.Context, f *Flow) error {
			stream := clients.CallClientStream(ctx)
			return f.client(stream.Send, func() (*grpc_testing.StreamingInputCallResponse, error) {
				resp, err := stream.CloseAndReceive()
				if err != nil {
					return nil, err
				}
				return resp.Msg, nil
			})
		},
		ServerStream: func(ctx context.Context, f *Flow) error {
			stream, err := servers.CallServerStream(ctx, connect.NewRequest(f.request()))
			if err != nil {
				return err
			}
			defer func() { _ = stream.Close() }()
			return f.receive(func() (*grpc_testing.StreamingOutputCallResponse, error) {
				if stream.Receive() {
					return stream.Msg(), nil
				}
				if err := stream.Err(); err != nil {
					return nil, err
				}
				return nil, io.EOF
			})
		},
		BidiStream: func(ctx context.Context, f *Flow) error {
			stream := bidis.CallBidiStream(ctx)
			defer func() { _ = stream.CloseResponse() }()
			return f.duplex(stream.Send, stream.CloseRequest, stream.Receive)
		},
	}}
}

// payload is the next message of a stream.
func (f *Flow) payload() *grpc_testing.Payload {
	return &grpc_testing.Payload{Body: []byte(messageOf(f.Nonce, f.Sent))}
}

// client sends all messages, and wants their number back. A stream that has ended says
// how when its answer is read.
func (f *Flow) client(send func(*grpc_testing.StreamingInputCallRequest) error, end func() (*grpc_testing.StreamingInputCallResponse, error)) error {
	for !f.isEnough() {
		err := send(&grpc_testing.StreamingInputCallRequest{Payload: f.payload()})
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		f.Sent++
		f.passed.Add(1)
	}
	got, err := end()
	if err != nil {
		return err
	}
	for i := range int(got.GetAggregatedPayloadSize()) {
		f.Got = append(f.Got, messageOf(f.Nonce, i)) // the service says so
	}
	return nil
}

// request asks for a server's stream.
func (f *Flow) request() *grpc_testing.StreamingOutputCallRequest {
	return &grpc_testing.StreamingOutputCallRequest{Payload: &grpc_testing.Payload{Body: []byte(f.Nonce)}}
}

// isEnough waits before the next message and reports whether there is to be none.
func (f *Flow) isEnough() bool {
	if f.Sent == 0 {
		return false
	}
	select {
	case <-f.enough:
		return true
	case <-time.After(flowPause):
		return false
	}
}

// receive reads to the end.
func (f *Flow) receive(next func() (*grpc_testing.StreamingOutputCallResponse, error)) error {
	for {
		m, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f.Got = append(f.Got, string(m.GetPayload().GetBody()))
		f.passed.Add(1)
	}
}

// duplex sends and receives at the same time.
func (f *Flow) duplex(send func(*grpc_testing.StreamingOutputCallRequest) error, end func() error, next func() (*grpc_testing.StreamingOutputCallResponse, error)) error {
	var sending sync.WaitGroup
	sending.Go(func() {
		for !f.isEnough() {
			if send(&grpc_testing.StreamingOutputCallRequest{Payload: f.payload()}) != nil {
				return // receive tells why
			}
			f.Sent++
		}
		_ = end()
	})
	err := f.receive(next)
	sending.Wait()
	return err
}

// The rules that streams can break besides those of calls.
const (
	// Lost: a stream succeeded, or a message was acknowledged, and the other side has not
	// all of it.
	Lost Rule = "lost"
	// Disordered: messages are not those of the stream from the first on, each once.
	Disordered Rule = "out of order or repeated"
)

// AuditFlows compares what callers and backend wrote down of streams, message by message.
// codes are those with which a stream may fail; none lets no stream fail.
func AuditFlows(flows []Flow, executions []Execution, codes []string) []Finding {
	arrived := map[string][]string{}
	for _, x := range executions {
		nonce, _, _ := strings.Cut(x.Nonce, "/")
		arrived[nonce] = append(arrived[nonce], x.Nonce)
	}
	var found []Finding
	for _, f := range flows {
		say := func(r Rule, format string, args ...any) {
			found = append(found, Finding{r, f.Nonce, f.Client + " " + f.Kind + ": " + fmt.Sprintf(format, args...)})
		}
		here := arrived[f.Nonce]
		delete(arrived, f.Nonce)
		auditOrder(f.Nonce, "backend", here, say)
		auditOrder(f.Nonce, "caller", f.Got, say)
		sent := f.Sent
		if f.Code == "" {
			if len(f.Got) != len(here) || f.Kind != ServerStream && len(here) != f.Sent {
				say(Lost, "a success with %d messages sent, %d at the backend, %d back", f.Sent, len(here), len(f.Got))
			}
		} else {
			sent++ // the message whose sending failed may have arrived
			if !slices.Contains(codes, f.Code) {
				say(WrongCode, "%s: %s; allowed are %v", f.Code, f.Message, codes)
			}
		}
		if f.Kind != ServerStream && len(here) > sent {
			say(Invented, "%d messages arrived, %d were sent", len(here), sent)
		}
		if len(f.Got) > len(here) {
			say(Lost, "%d messages came back, the backend has %d", len(f.Got), len(here))
		}
	}
	for nonce, messages := range arrived {
		found = append(found, Finding{Unasked, nonce, fmt.Sprintf("%d messages of no stream", len(messages))})
	}
	return found
}

// auditOrder wants the messages of a stream from the first on, each once.
func auditOrder(nonce, where string, messages []string, say sayer) {
	for i, m := range messages {
		of, number, _ := strings.Cut(m, "/")
		switch {
		case of != nonce:
			say(Crossed, "message %d at the %s is %s", i, where, m)
			return
		case number != strconv.Itoa(i):
			say(Disordered, "message %d at the %s is %s", i, where, m)
			return
		}
	}
}
