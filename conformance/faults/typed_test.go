// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/faults"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// typedEdges call the backend's own methods through the sidecar, with generated
// clients of each protocol, and of grpc-go.
var typedEdges = []string{"typed-connect", "typed-grpc", "typed-grpcweb", "typed-grpc-go"}

// runsOf counts the executions of each nonce.
func runsOf(executions []faults.Execution) map[string]int {
	runs := map[string]int{}
	for _, x := range executions {
		runs[x.Nonce]++
	}
	return runs
}

// TestTypedCallsAreRepeatedWithinTheBudget breaks the connection under 48 calls of
// an idempotent method and 8 of one that is not. The budget has saved up ten
// repetitions: as many of the first are made again and succeed. All others are
// told that it is unknown.
func TestTypedCallsAreRepeatedWithinTheBudget(t *testing.T) {
	t.Parallel()
	const burst = defaults.RetryBudgetBurst
	rig := faults.NewRig(t, faults.Options{
		Binary: binary, Edges: typedEdges, Timeout: 10 * time.Second, Backoff: 500 * time.Millisecond, Flags: []string{"--breaker", "off"},
	})
	entries, executions := rig.Send(faults.Wave{Echoes: 12, Sleeps: 2, Work: 1500 * time.Millisecond}, rig.Proxy.Reset)
	account(t, rig, entries, executions, faults.TransportError)
	runs, again := runsOf(executions), 0
	for _, e := range entries {
		fault := e.Answers[0].Fault
		switch n := runs[e.Nonce]; {
		case n == 2 && e.Idempotent && fault == nil:
			again++
		case n == 1 && fault != nil && fault.Code == faults.TransportError:
		default:
			t.Errorf("%s %s ran %d times: %v", e.Edge, e.Method, n, fault)
		}
	}
	if again != burst {
		t.Errorf("%d of %d calls were repeated, want %d", again, len(entries), burst)
	}
	rig.AtRest()
}

// sleeper calls Lab/Sleep, which is not idempotent, with a key or none, and returns
// the name of the code that it ended with, "" for a success.
type sleeper func(ctx context.Context, req *demov1.SleepRequest, keys ...string) string

// sleepers are the clients of the typed pass-through.
func sleepers(t *testing.T, rig *faults.Rig) map[string]sleeper {
	t.Helper()
	all := map[string]sleeper{}
	for name, options := range map[string][]connect.ClientOption{
		"Connect": nil, "Connect with JSON": {connect.WithProtoJSON()}, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		client := caller.Client(name == "gRPC")
		t.Cleanup(client.CloseIdleConnections)
		lab := demov1connect.NewLabClient(client, rig.Server.URL(""), options...)
		all[name] = func(ctx context.Context, in *demov1.SleepRequest, keys ...string) string {
			req := connect.NewRequest(in)
			req.Header()[http.CanonicalHeaderKey("Idempotency-Key")] = keys
			if _, err := lab.Sleep(ctx, req); err != nil {
				return connect.CodeOf(err).String()
			}
			return ""
		}
	}
	conn := caller.DialGRPC(t, rig.Server.Addr())
	t.Cleanup(func() { _ = conn.Close() })
	all["grpc-go"] = func(ctx context.Context, in *demov1.SleepRequest, keys ...string) string {
		ctx = metadata.NewOutgoingContext(ctx, metadata.MD{"idempotency-key": keys})
		return grpcCode(conn.Invoke(ctx, "/outrigger.demo.v1.Lab/Sleep", in, new(demov1.SleepResponse), grpc.WaitForReady(false)))
	}
	return all
}

// grpcCode names a code of grpc-go as connect does.
func grpcCode(err error) string {
	if err == nil {
		return ""
	}
	names := map[codes.Code]connect.Code{codes.Unavailable: connect.CodeUnavailable, codes.InvalidArgument: connect.CodeInvalidArgument}
	if code, ok := names[status.Code(err)]; ok {
		return code.String()
	}
	return err.Error()
}

// TestTypedCallsWithAnIdempotencyKey breaks the connection under calls of a method
// that is not idempotent. Those with a key are made again, whatever the protocol;
// those without run once. A key that could not be sent on is refused before anything
// runs.
func TestTypedCallsWithAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	rig := faults.NewRig(t, faults.Options{
		Binary: binary, Edges: []string{"typed-grpc"}, Timeout: 10 * time.Second, Backoff: 500 * time.Millisecond, Flags: []string{"--breaker", "off"},
	})
	before := len(rig.Backend.Executions())
	var calling sync.WaitGroup
	calls := 0
	clients := sleepers(t, rig)
	rig.Backend.Hold()
	for name, call := range clients {
		for _, key := range []string{"", "key-of-" + strings.ReplaceAll(name, " ", "-")} {
			var keys []string
			want := "unavailable"
			if key != "" {
				keys, want = []string{key}, ""
			}
			calls++
			calling.Go(func() {
				nonce := name + "/" + key
				if got := call(t.Context(), &demov1.SleepRequest{Nonce: nonce, Duration: durationpb.New(time.Second)}, keys...); got != want {
					t.Errorf("%s: %q, want %q", nonce, got, want)
				}
			})
		}
	}
	rig.Await("all calls are in the backend", func() bool { return len(rig.Backend.Executions()) == before+calls })
	rig.Proxy.Reset()
	rig.Backend.Release()
	calling.Wait()
	executions := rig.Backend.Executions()[before:]
	for nonce, n := range runsOf(executions) {
		want := 2
		if strings.HasSuffix(nonce, "/") {
			want = 1
		}
		if n != want {
			t.Errorf("%q ran %d times, want %d", nonce, n, want)
		}
	}
	for name, call := range clients {
		for _, keys := range [][]string{{""}, {"a", "b"}, {strings.Repeat("k", 256)}} {
			if got := call(t.Context(), &demov1.SleepRequest{Nonce: "bad"}, keys...); got != "invalid_argument" {
				t.Errorf("%s with the keys %.20q: %q", name, keys, got)
			}
		}
	}
	if n := runsOf(rig.Backend.Executions())["bad"]; n != 0 {
		t.Errorf("%d calls with a bad key ran", n)
	}
}

// TestTypedCallsAndTheBreaker has typed callers alone. What the tool answers does not
// open the breaker, whatever the code; a backend that is gone does, and then calls
// are answered at once and do not reach it.
func TestTypedCallsAndTheBreaker(t *testing.T) {
	t.Parallel()
	rig := faults.NewRig(t, faults.Options{Binary: binary, Edges: typedEdges, Timeout: 10 * time.Second})
	for _, edge := range typedEdges {
		agent := caller.Find(t, edge).Dial(t, caller.Target{Addr: rig.Server.Addr()})
		for i := range 25 { // more than the breaker's least number of calls, of each
			for _, code := range []connect.Code{connect.CodeUnknown, connect.CodeDeadlineExceeded, connect.CodeResourceExhausted, connect.CodeInternal, connect.CodeUnavailable} {
				got := caller.One(t.Context(), agent, caller.Call{Procedure: "/outrigger.demo.v1.Lab/Fail", Args: fmt.Sprintf(`{"code":%d}`, code)})
				if rpc := caller.RPCCode(got); rpc != code.String() { // a backend's status passes as it came
					t.Fatalf("%s, %v, call %d: %v; %v", edge, code, i, got.Err, got.Fault)
				}
			}
		}
		agent.Close()
	}
	if got := readBreaker(t, rig); got != (breaker{state: "closed"}) {
		t.Errorf("after failures of the tool: %+v", got)
	}
	rig.Backend.Kill()
	var entries []faults.Entry
	var executions []faults.Execution
	rig.Await("the breaker answers calls at once, on every edge", func() bool {
		e, x := rig.Send(faults.Wave{Echoes: 1, Sleeps: 3}, nil)
		entries, executions = append(entries, e...), append(executions, x...)
		held := map[string]bool{}
		for _, e := range entries {
			f := e.Answers[0].Fault
			if f != nil && strings.Contains(f.Message, "circuit breaker open after too many failed calls") && e.Took() < time.Second {
				held[e.Edge] = true
			}
		}
		return len(held) == len(typedEdges)
	})
	if got := readBreaker(t, rig); got.opened == 0 || got.held == 0 {
		t.Errorf("after that: %+v", got)
	}
	account(t, rig, entries, executions, onTheWay...)
	if len(executions) > 0 {
		t.Errorf("%d executions of a backend that is gone", len(executions))
	}
	rig.Backend.Start()
	rig.Await("the breaker closes", func() bool { return readBreaker(t, rig).state == "closed" })
	entries, executions = rig.Send(faults.Wave{Echoes: 2, Sleeps: 2}, nil)
	account(t, rig, entries, executions) // no code: every call succeeds
	rig.AtRest()
}
