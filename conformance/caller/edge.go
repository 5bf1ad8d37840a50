// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"
)

// Target is what agents call.
type Target struct {
	// Addr is the host:port of the main listener, for all edges but stdio.
	Addr string
	// Binary and Args start `sidecar stdio`, where each agent has a process of
	// its own.
	Binary string
	Args   []string
}

// Call is one call of a tool of outrigger.demo.v1.Lab or any other service.
type Call struct {
	// ID is the JSON text of the request id. Edges without ids ignore it.
	ID string
	// Tool is the canonical name, Procedure the RPC behind it ("/pkg.S/M"),
	// which typed callers use.
	Tool, Procedure string
	// Args is the JSON text of the arguments.
	Args string
}

// Answer is what came back for one call.
type Answer struct {
	// ID is the JSON text of the id of the answer, "" where there is none.
	ID string
	// Data is the tool's result as JSON, nil on failure.
	Data json.RawMessage
	// Fault is the failure, nil on success.
	Fault *Fault
	// Header and Trailer are metadata, where the edge has them.
	Header, Trailer http.Header
	// Err is set where there was no answer that the edge's protocol knows.
	Err error
}

// Fault is a failure as an edge shows it.
type Fault struct {
	// Code is the canonical code.
	Code string
	// Number is the JSON-RPC code, 0 where the failure is a result.
	Number int64
	// RPC is the code of the RPC protocol in snake case, "" elsewhere.
	RPC string
	// Status is the HTTP status, 0 where it says nothing (stdio, gRPC).
	Status int
	// Message is the text for people.
	Message string
	// Data is the canonical error's data object; nil on RPC edges.
	Data json.RawMessage
	// Details are the error details of RPC edges.
	Details []*anypb.Any
}

// String is what a failed test prints.
func (f *Fault) String() string {
	if f == nil {
		return "no fault"
	}
	return fmt.Sprintf("%s (JSON-RPC %d, RPC %q, HTTP %d) %.200q %.300s", f.Code, f.Number, f.RPC, f.Status, f.Message, f.Data)
}

// Agent is one caller. Close is called once, after all calls.
type Agent interface {
	// CallAll makes all calls at once and returns the answers in their order.
	CallAll(ctx context.Context, calls []Call) []Answer
	Close()
}

// Strayer is an agent to whom unexpected answers can come: a second
// one to a call, or one to no call at all.
type Strayer interface {
	Strays() []string
}

// Edge is one way to call.
type Edge struct {
	Name string
	// IDs says which request ids a caller can choose.
	IDs IDs
	// Variant says that another edge of the list goes the same way through the
	// sidecar and differs in the client or the HTTP version only.
	Variant bool
	// Process says that each agent is its own process.
	Process bool
	// Dial makes an agent.
	Dial func(tb testing.TB, t Target) Agent
}

// IDs says which request ids an edge takes.
type IDs uint8

// NoIDs: the protocol has none, or the client chooses them. StringIDs: strings
// by default, integers where the sidecar admits them. AnyIDs: both, always.
const (
	NoIDs IDs = iota
	StringIDs
	AnyIDs
)

// Edges lists every way to call a tool.
func Edges() []Edge {
	edges := httpEdges()
	edges = append(edges, stdioEdges()...)
	edges = append(edges, sdkEdges()...)
	edges = append(edges, connectEdges()...)
	edges = append(edges, typedEdges()...)
	edges = append(edges, exchangeEdges()...)
	for i, e := range edges {
		edges[i].Variant = slices.Contains(variants(), e.Name)
	}
	return edges
}

// variants names the edges that are variants of another one.
func variants() []string {
	return []string{
		"mcp-modern", "rpc", "sdk-modern-http", "sdk-legacy-http", "tool-connect-json", "tool-grpc", "typed-grpc",
		"exchange-connect", "exchange-grpcweb",
	}
}

// Find returns the edge of that name and fails the test where there is none.
func Find(tb testing.TB, name string) Edge {
	tb.Helper()
	for _, e := range Edges() {
		if e.Name == name {
			return e
		}
	}
	tb.Fatalf("no edge is called %q", name)
	return Edge{}
}

// One makes one call.
func One(ctx context.Context, a Agent, c Call) Answer {
	return a.CallAll(ctx, []Call{c})[0]
}

// each runs one function for all calls at once.
func each(calls []Call, run func(c Call) Answer) []Answer {
	answers := make([]Answer, len(calls))
	var running sync.WaitGroup
	for i, c := range calls {
		running.Go(func() { answers[i] = run(c) })
	}
	running.Wait()
	return answers
}

// failed is an answer that never came.
func failed(err error) Answer { return Answer{Err: err} }
