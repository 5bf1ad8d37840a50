// SPDX-License-Identifier: Apache-2.0

// Package path holds the ways that lead to an RPC of the backend: straight, through the empty proxy, and through every
// edge of the sidecar. A path opens connections and makes callers; each caller makes its calls with as little work as
// net/http and grpc-go admit, and checks that every answer is its own. To measure another server, add a path.
package path

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bench/internal/load"
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
	work    Work
	count   int
	closers []func()
}

// Open makes callers, which together have one set of connections. work is what every call asks for.
func (p *Path) Open(ctx context.Context, addrs Addrs, callers int, work Work) (*Session, error) {
	s := &Session{addrs: addrs, work: work, count: callers}
	if err := p.open(ctx, s); err != nil {
		s.Close()
		return nil, fmt.Errorf("path %s: %w", p.Name, err)
	}
	return s, nil
}

// Close ends what was opened, the last first: sessions, then connections. No call may be in flight.
func (s *Session) Close() {
	for _, closer := range slices.Backward(s.closers) {
		closer()
	}
}

// All returns every path in the order of the tables.
func All() []*Path {
	return []*Path{
		{Name: "direct", Title: "grpc-go directly to the backend", open: openDirect},
		{Name: "proxy", Title: "empty net/http to grpc-go proxy, bytes untouched", Middle: Proxy, open: openProxy},
		{Name: "mcp", Title: "`/mcp`, MCP 2026-07-28", Middle: Sidecar, open: openModern},
		{Name: "mcp-legacy", Title: "`/mcp`, MCP 2025-11-25", Middle: Sidecar, open: openLegacy},
		{Name: "rpc", Title: "`/rpc`, canonical JSON-RPC", Middle: Sidecar, open: openCanonical},
		{Name: "calltool-connect", Title: "`ToolService.CallTool`, Connect over HTTP/1.1", Middle: Sidecar, open: openToolConnect},
		{Name: "calltool-grpc", Title: "`ToolService.CallTool`, gRPC", Middle: Sidecar, open: openToolGRPC},
		{Name: "typed-grpc", Title: "typed pass-through, gRPC", Middle: Sidecar, open: openTyped},
	}
}

// ToolJSON is a path that is not among those of the tables.
const ToolJSON = "calltool-json"

// others are the paths that are not in All.
func others() []*Path {
	return []*Path{{Name: ToolJSON, Title: "`ToolService.CallTool`, Connect with JSON over HTTP/1.1", Middle: Sidecar, open: openToolJSON}}
}

// ErrNoPath tells that there is no path of that name.
var ErrNoPath = errors.New("no such path")

// Named returns the path of that name.
func Named(name string) (*Path, error) {
	for _, p := range append(All(), others()...) {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoPath, name)
}

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
	c.nonce = strconv.AppendUint(c.nonce, uint64(c.caller)+1000, 10) // of one length for every caller
	c.nonce = append(c.nonce, "-call-"...)
	c.nonce = strconv.AppendUint(c.nonce, c.calls+1_000_000_000, 10)
	return c.calls, c.nonce
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

// checkMessage checks a typed answer; a caller's first one is compared whole.
func checkMessage(work Work, call uint64, nonce []byte, got proto.Message) error {
	if work.Check(nonce, got, call == 1) {
		return nil
	}
	return wrongAnswer("nonce "+string(nonce)+" and all that was sent with it", []byte(prototext.Format(got)))
}
