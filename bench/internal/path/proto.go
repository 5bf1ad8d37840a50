// SPDX-License-Identifier: Apache-2.0

package path

import (
	"context"
	"fmt"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

const callTool = "/outrigger.v1.ToolService/CallTool"

// callersPerConn keeps the streams of one connection well below the 250 that net/http's server admits at a time, so
// that no caller waits for another's stream to end.
const callersPerConn = 64

// maxMessage admits the large payload with room to spare.
const maxMessage = 32 << 20

func openDirect(_ context.Context, s *Session) error { return s.openTypedAt(s.addrs.Backend) }
func openTyped(_ context.Context, s *Session) error  { return s.openTypedAt(s.addrs.Sidecar) }

func (s *Session) openTypedAt(addr string) error {
	return s.dial(addr, func(caller int, conn *grpc.ClientConn) {
		s.Callers = append(s.Callers, &typedCaller{counter: counter{caller: caller}, conn: conn, work: s.work})
	})
}

func openToolGRPC(_ context.Context, s *Session) error {
	return s.dial(s.addrs.Sidecar, func(caller int, conn *grpc.ClientConn) {
		c := newToolCaller(caller, s.work)
		c.call = func(ctx context.Context, in *outriggerv1.ToolCall) (*outriggerv1.ToolOutcome, error) {
			out := new(outriggerv1.ToolOutcome)
			return out, conn.Invoke(ctx, callTool, in, out)
		}
		s.Callers = append(s.Callers, c)
	})
}

// openToolConnect speaks the unary form of the Connect protocol, which is a POST of the message.
func openToolConnect(_ context.Context, s *Session) error {
	header := http.Header{"Content-Type": {"application/proto"}, "Connect-Protocol-Version": {"1"}}
	transport := s.newTransport()
	for i := range s.count {
		c := newToolCaller(i, s.work)
		wire := &wirePost{post: post{transport: transport, url: httpURL(s.addrs.Sidecar, callTool), header: header}}
		c.call = func(ctx context.Context, in *outriggerv1.ToolCall) (*outriggerv1.ToolOutcome, error) {
			out := new(outriggerv1.ToolOutcome)
			return out, wire.call(ctx, in, out)
		}
		s.Callers = append(s.Callers, c)
	}
	return nil
}

func openProxy(_ context.Context, s *Session) error {
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	transport := s.newTransport()
	for i := range s.count {
		s.Callers = append(s.Callers, &proxyCaller{
			counter: counter{caller: i}, work: s.work,
			wire: wirePost{post: post{transport: transport, url: httpURL(s.addrs.Proxy, "/"), header: header}},
		})
	}
	return nil
}

// dial opens as many connections as that many callers need, and shares them out.
func (s *Session) dial(addr string, add func(caller int, conn *grpc.ClientConn)) error {
	var conn *grpc.ClientConn
	for i := range s.count {
		if i%callersPerConn == 0 {
			var err error
			conn, err = grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
			if err != nil {
				return fmt.Errorf("dial %s: %w", addr, err)
			}
			closing := conn
			s.closers = append(s.closers, func() { _ = closing.Close() })
		}
		add(i, conn)
	}
	return nil
}

// typedCaller calls the RPC itself, at the backend or through the sidecar.
type typedCaller struct {
	counter

	conn *grpc.ClientConn
	work Work
}

// Call makes one call and checks its answer.
func (c *typedCaller) Call(ctx context.Context) error {
	call, nonce := c.next()
	got := c.work.Response()
	if err := c.conn.Invoke(ctx, c.work.Method(), c.work.Request(nonce), got); err != nil {
		return err
	}
	return checkMessage(c.work, call, nonce, got)
}

// proxyCaller calls the RPC through the empty proxy.
type proxyCaller struct {
	counter

	wire wirePost
	work Work
}

// Call makes one call and checks its answer.
func (c *proxyCaller) Call(ctx context.Context) error {
	call, nonce := c.next()
	got := c.work.Response()
	if err := c.wire.call(ctx, c.work.Request(nonce), got); err != nil {
		return err
	}
	return checkMessage(c.work, call, nonce, got)
}

// wirePost posts messages.
type wirePost struct {
	post

	body []byte
}

func (p *wirePost) call(ctx context.Context, in, out proto.Message) (err error) {
	if p.body, err = (proto.MarshalOptions{}).MarshalAppend(p.body[:0], in); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, answer, err := p.do(ctx, p.body)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// toolCaller makes CallTool calls, whose arguments and data are JSON text.
type toolCaller struct {
	counter
	expectation

	call          func(context.Context, *outriggerv1.ToolCall) (*outriggerv1.ToolOutcome, error)
	tool          string
	before, after []byte
}

func newToolCaller(caller int, work Work) *toolCaller {
	c := &toolCaller{counter: counter{caller: caller}, expectation: expectation{work: work}}
	c.tool, _ = work.Tool()
	c.before, c.after = work.Arguments()
	return c
}

// Call makes one call and checks its answer.
func (c *toolCaller) Call(ctx context.Context) error {
	call, nonce := c.next()
	args := make([]byte, 0, len(c.before)+len(nonce)+len(c.after))
	args = append(append(append(args, c.before...), nonce...), c.after...)
	out, err := c.call(ctx, &outriggerv1.ToolCall{
		ToolName: c.tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: args},
	})
	if err != nil {
		return err
	}
	if status := out.GetResult().GetStatus(); status != "success" {
		return wrongAnswer("status success", []byte(out.String()))
	}
	return c.checkData(call, nonce, out.GetResult().GetDataJson())
}
