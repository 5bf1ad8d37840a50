// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/conformance/telemetry/collector"
	"github.com/outrigger-mcp/outrigger/conformance/telemetry/service"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// agentName is the service.name of agents.
const agentName = "agent"

// TestOneTraceOfAnAgent: an agent that traces its work, the sidecar, and the service: one trace, each under the other.
func TestOneTraceOfAnAgent(t *testing.T) {
	for _, version := range []string{caller.ModernVersion, caller.LegacyVersion} {
		for _, transport := range []string{"http", "stdio"} {
			t.Run(version+"/"+transport, func(t *testing.T) {
				r := newRig(t)
				agent := service.Provider(t, agentName, r.URL())
				session := r.session(t, version, transport == "stdio", r.args()...)
				traceID := callInSpan(t, agent, session)
				r.oneTrace(t, traceID, "agent step", "tools/call lab_echo", "outrigger.demo.v1.Lab/Echo", "outrigger.demo.v1.Lab/Echo")
			})
		}
	}
}

// TestOneTraceThroughAFront: a sidecar in front of the sidecar is one more pair of spans between the agent and the service.
func TestOneTraceThroughAFront(t *testing.T) {
	for version, between := range map[string]string{
		caller.ModernVersion: "outrigger.v1.ToolService/CallTool",
		// A session may be asked a question, or sent a message, while a call runs.
		caller.LegacyVersion: "outrigger.v1.ToolService/CallToolStream",
	} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t)
			agent := service.Provider(t, agentName, r.URL())
			session := r.session(t, version, false, "--backend", r.serve(t).URL(""))
			traceID := callInSpan(t, agent, session)
			r.oneTrace(t, traceID, "agent step", "tools/call lab_echo", between, between+" lab.echo", "outrigger.demo.v1.Lab/Echo", "outrigger.demo.v1.Lab/Echo")
		})
	}
}

// session opens one with the Go SDK, with a sidecar that has these arguments.
func (r *rig) session(t *testing.T, version string, stdio bool, args ...string) *mcp.ClientSession {
	t.Helper()
	var transport mcp.Transport
	if stdio {
		transport = &mcp.CommandTransport{Command: sidecar.StdioCommand(t, built.binary, args...)}
	} else {
		client := caller.Client(false)
		t.Cleanup(client.CloseIdleConnections)
		transport = &mcp.StreamableClientTransport{Endpoint: sidecar.ServeReady(t, built.binary, args...).URL("/mcp"), HTTPClient: client, MaxRetries: -1}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "telemetry", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the session speaks %s, want %s", got, version)
	}
	return session
}

// callInSpan calls a tool from within a span of the agent, whose context goes into _meta.
func callInSpan(t *testing.T, agent *sdktrace.TracerProvider, session *mcp.ClientSession) (traceID string) {
	t.Helper()
	ctx, span := agent.Tracer("agent").Start(t.Context(), "agent step", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	carrier := propagation.MapCarrier{}
	service.Propagator().Inject(ctx, carrier)
	meta := mcp.Meta{}
	for name, value := range carrier {
		meta[name] = value
	}
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "lab_echo", Arguments: json.RawMessage(`{"nonce":"one"}`), Meta: meta})
	if err != nil || res.IsError {
		t.Fatalf("%v, %v", res, err)
	}
	return span.SpanContext().TraceID().String()
}

// TestOneTraceOfAProgram: a program with otelgrpc that calls the service through the sidecar.
func TestOneTraceOfAProgram(t *testing.T) {
	r := newRig(t)
	program := service.Provider(t, agentName, r.URL())
	conn, err := grpc.NewClient("passthrough:///"+r.serve(t).Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(program), otelgrpc.WithPropagators(service.Propagator()))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, span := program.Tracer("program").Start(t.Context(), "program step")
	if err := conn.Invoke(ctx, "/outrigger.demo.v1.Lab/Echo", &demov1.EchoRequest{Nonce: "one"}, &demov1.EchoResponse{}); err != nil {
		t.Fatal(err)
	}
	span.End()
	const rpc = "outrigger.demo.v1.Lab/Echo"
	r.oneTrace(t, span.SpanContext().TraceID().String(), "program step", rpc, rpc+" lab.echo", rpc, rpc)
}

// TestHeadersOfAnHTTPClientAreLinked: they are not the parent where the message has its own context.
func TestHeadersOfAnHTTPClientAreLinked(t *testing.T) {
	r := newRig(t)
	agent := service.Provider(t, agentName, r.URL())
	w := dialHTTP(t, r.serve(t), "/mcp", caller.Modern)
	_, span := agent.Tracer("agent").Start(t.Context(), "agent step")
	span.End()
	o := origin{message: span.SpanContext().TraceID().String(), connection: originOf("link", "connection").connection}
	message := ask{id: "1", tool: "lab.echo", args: `{}`, origin: o}
	if got := w.send(t.Context(), t, message); !strings.Contains(got, "nonce") {
		t.Fatal(got)
	}
	var server collector.Span
	r.Wait(t, "the span", func() bool {
		for _, s := range r.Spans() {
			if s.TraceID == o.message && s.Service == serviceName && s.Kind == "Server" {
				server = s
				return true
			}
		}
		return false
	})
	if want := (collector.Link{TraceID: o.connection, ID: connectionSpan}); !slices.Contains(server.Links, want) {
		t.Errorf("links %v, want %v", server.Links, want)
	}
}

// oneTrace waits for a trace with spans of these names, each the child of the one before, from the agent to the service.
func (r *rig) oneTrace(t *testing.T, traceID string, names ...string) {
	t.Helper()
	var chain []collector.Span
	defer func() {
		if t.Failed() {
			t.Logf("the trace:\n%s", newForest(r.Spans()).of(origin{message: traceID}))
		}
	}()
	r.Wait(t, "the trace "+traceID, func() bool {
		chain = chainOf(r.Spans(), traceID)
		return len(chain) >= len(names)
	})
	var got, services []string
	for _, s := range chain {
		got = append(got, s.Name)
		services = append(services, s.Service)
	}
	if !slices.Equal(got, names) {
		t.Errorf("the trace is %v, want %v", got, names)
	}
	if services = slices.Compact(services); !slices.Equal(services, []string{agentName, serviceName, service.Name}) {
		t.Errorf("it goes through %v", services)
	}
}

// chainOf follows a trace from the root to a leaf. Steps of the sidecar stand beside the call that it makes.
func chainOf(spans []collector.Span, traceID string) (chain []collector.Span) {
	parent := ""
	for {
		i := slices.IndexFunc(spans, func(s collector.Span) bool {
			return s.TraceID == traceID && s.Parent == parent && (s.Service != serviceName || s.Kind != "Internal")
		})
		if i < 0 {
			return chain
		}
		chain = append(chain, spans[i])
		parent = spans[i].ID
	}
}

// TestOneTraceOfATypeScriptAgent does as TestOneTraceOfAnAgent, with the official TypeScript clients and OpenTelemetry's SDK
// for Node.
func TestOneTraceOfATypeScriptAgent(t *testing.T) {
	node := nodeOf(t)
	for _, row := range []struct{ client, version, transport string }{
		{"client", caller.ModernVersion, "http"},
		{"client", caller.LegacyVersion, "http"},
		{"sdk", caller.LegacyVersion, "http"},
		{"client", caller.ModernVersion, "stdio"},
		{"client", caller.LegacyVersion, "stdio"},
		{"sdk", caller.LegacyVersion, "stdio"},
	} {
		t.Run(row.client+"/"+row.version+"/"+row.transport, func(t *testing.T) {
			r := newRig(t)
			args := []string{"--client", row.client, "--version", row.version, "--collector", r.URL(), "--service", agentName}
			if row.transport == "http" {
				args = append(args, "--url", r.serve(t).URL("/mcp"))
			} else {
				args = append(append(args, "--", built.binary, "stdio"), r.args()...)
			}
			traceID := node.run(t, "tracing.mjs", args...)
			r.oneTrace(t, traceID, "agent step", "tools/call lab_echo", "outrigger.demo.v1.Lab/Echo", "outrigger.demo.v1.Lab/Echo")
		})
	}
}
