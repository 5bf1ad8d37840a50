// SPDX-License-Identifier: Apache-2.0

// Package path holds the ways that lead to the backend's Echo: straight, through the empty proxy, and through every
// edge of the sidecar. A path opens connections and makes callers; each caller makes its calls with as little work as
// net/http and grpc-go admit, and checks that every answer is its own. To measure another server, add a path.
package path

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"

	"github.com/outrigger-mcp/outrigger/bench/internal/load"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// Names of the processes whose CPU time can stand for a path.
const (
	Sidecar = "sidecar"
	Proxy   = "proxy"
	Backend = "backend"
)

// Path is one way to the backend.
type Path struct {
	// Name is for tables and for -paths.
	Name string
	// Title says in a few words what happens on the way.
	Title string
	// Middle names the process between caller and backend, "" where there is none.
	Middle string
	// open makes a session's callers.
	open func(context.Context, *Session) error
}

// Addrs are where the processes listen, host:port.
type Addrs struct {
	Backend, Proxy, Sidecar string
}

// Session is a path with its connections open.
type Session struct {
	// Callers are ready to call.
	Callers []load.Caller

	addrs   Addrs
	payload []byte
	count   int
	closers []func()
}

// Open makes callers, which together have one set of connections. payload is what every call sends and gets back.
func (p *Path) Open(ctx context.Context, addrs Addrs, callers int, payload []byte) (*Session, error) {
	s := &Session{addrs: addrs, payload: payload, count: callers}
	if err := p.open(ctx, s); err != nil {
		s.Close()
		return nil, fmt.Errorf("path %s: %w", p.Name, err)
	}
	return s, nil
}

// Close closes the connections. No call may be in flight.
func (s *Session) Close() {
	for _, closer := range s.closers {
		closer()
	}
}

// All returns every path in the order of the tables.
func All() []*Path {
	return []*Path{
		{Name: "direct", Title: "grpc-go to the backend, nothing between", open: openDirect},
		{Name: "proxy", Title: "empty net/http to grpc-go proxy, bytes untouched", Middle: Proxy, open: openProxy},
		{Name: "mcp", Title: "`/mcp`, MCP 2026-07-28", Middle: Sidecar, open: openModern},
		{Name: "mcp-legacy", Title: "`/mcp`, MCP 2025-11-25", Middle: Sidecar, open: openLegacy},
		{Name: "rpc", Title: "`/rpc`, canonical JSON-RPC", Middle: Sidecar, open: openCanonical},
		{Name: "calltool-connect", Title: "`ToolService.CallTool`, Connect over HTTP/1.1", Middle: Sidecar, open: openToolConnect},
		{Name: "calltool-grpc", Title: "`ToolService.CallTool`, gRPC", Middle: Sidecar, open: openToolGRPC},
		{Name: "typed-grpc", Title: "typed pass-through, gRPC", Middle: Sidecar, open: openTyped},
	}
}

// The 64-bit numbers of every call. Doubles cannot hold them, so that an answer that went through doubles is found out.
const (
	signed   = math.MinInt64 + 1
	unsigned = math.MaxUint64
)

// counter gives a caller its ids and nonces. Ids count from one for every caller, so that all callers use the same ones
// on purpose; nonces differ between all calls of a session.
type counter struct {
	caller int
	calls  uint64
	nonce  []byte
}

// next returns the number of the call and its nonce, which is valid until the next call.
func (c *counter) next() (uint64, []byte) {
	c.calls++
	c.nonce = append(c.nonce[:0], "caller-"...)
	c.nonce = strconv.AppendUint(c.nonce, uint64(c.caller)+1000, 10) // of one length, whoever calls
	c.nonce = append(c.nonce, "-call-"...)
	c.nonce = strconv.AppendUint(c.nonce, c.calls+1_000_000_000, 10)
	return c.calls, c.nonce
}

// arguments cuts the JSON of Echo's arguments at the nonce: what stands before it and what stands after it.
func arguments(payload []byte) (before, after []byte) {
	before = []byte(`{"nonce":"`)
	after = []byte(`"`)
	after = append(after, `,"signed":"`...)
	after = strconv.AppendInt(after, signed, 10)
	after = append(after, `","unsigned":"`...)
	after = strconv.AppendUint(after, unsigned, 10)
	after = append(after, `","payload":"`...)
	after = base64.StdEncoding.AppendEncode(after, payload)
	return before, append(after, `"}`...)
}

// ArgumentsSize is how many bytes of JSON the arguments of a call are.
func ArgumentsSize(payload []byte) int {
	_, nonce := new(counter).next()
	before, after := arguments(payload)
	return len(before) + len(nonce) + len(after)
}

// message is the same as a message.
func message(nonce, payload []byte) *demov1.EchoRequest {
	return &demov1.EchoRequest{Nonce: string(nonce), Signed: signed, Unsigned: unsigned, Payload: payload}
}

// WrongAnswerError tells that an answer was not the caller's own or not what was asked for.
type WrongAnswerError struct {
	// Want and Got are for people; Got is cut.
	Want, Got string
}

func (e *WrongAnswerError) Error() string { return "wrong answer: want " + e.Want + ", got " + e.Got }

func wrongAnswer(want string, got []byte) error {
	const most = 400 // bytes that fit a terminal
	if len(got) > most {
		got = append(got[:most:most], "..."...)
	}
	return &WrongAnswerError{Want: want, Got: string(got)}
}

// checkMessage compares a typed answer with what was sent, whole.
func checkMessage(nonce, payload []byte, got *demov1.EchoResponse) error {
	if got.GetNonce() == string(nonce) && got.GetSigned() == signed && got.GetUnsigned() == unsigned && bytes.Equal(got.GetPayload(), payload) {
		return nil
	}
	return wrongAnswer("nonce "+string(nonce)+" and all that was sent with it", []byte(got.String()))
}
