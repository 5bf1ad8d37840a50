// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// callOf is a call as a client of MCP 2026-07-28 sends it.
func callOf(host string) []byte {
	body := `{"jsonrpc":"2.0","id":"0000000001","method":"tools/call","params":{"name":"lab_echo","arguments":{"nonce":"n","signed":"-1"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`
	return fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: lab_echo\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body)
}

// BenchmarkCall is a call over a socket, with everything that is before the edge, by how it ends. The client costs
// no memory, so that allocations are those of the server.
func BenchmarkCall(b *testing.B) {
	b.Run("result", func(b *testing.B) { benchmarkCall(b, bridge.Options{}, `"structuredContent"`) })
	b.Run("rejected", func(b *testing.B) {
		limiter := policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 0.001, Burst: new(int32(1))}})
		benchmarkCall(b, bridge.Options{Limiter: limiter}, `"isError":true`)
	})
	b.Run("empty 503", func(b *testing.B) {
		benchmarkServer(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusServiceUnavailable)
		}), "", func(listener net.Listener, server *http.Server) func() {
			go func() { _ = server.Serve(listener) }()
			return func() { _ = server.Close() }
		})
	})
}

func benchmarkCall(b *testing.B, o bridge.Options, want string) {
	cfg := config.Defaults(config.Serve)
	var slow front.Slow
	slow.Open(cfg.GetLimits(), &front.Memory{})
	calls := bridge.New(mcptest.Memory(b), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), o)
	pipeline := dialect.New(calls, dialect.Options{})
	all, err := front.New(front.Options{
		Config: cfg, Log: zap.NewNop(), Milestones: zap.NewNop(), Slow: &slow, Stats: telemetry.NewStats(10), Bridge: calls, RPC: pipeline,
	})
	if err != nil {
		b.Fatal(err)
	}
	handler := slow.Named(mcphttp.New(pipeline, mcphttp.Options{}))
	if err := all.OpenOne(b.Context(), front.Main, "127.0.0.1:0", handler); err != nil {
		b.Fatal(err)
	}
	defer all.Close()
	exchange(b, all.All()[0].Addr().String(), want)
}

func benchmarkServer(b *testing.B, h http.Handler, want string, serve func(net.Listener, *http.Server) func()) {
	var lc net.ListenConfig
	listener, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer serve(listener, &http.Server{Handler: h})()
	exchange(b, listener.Addr().String(), want)
}

// exchange sends one call after the other on one connection. All answers but the first have the same length.
func exchange(b *testing.B, addr, want string) {
	client, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	call, buf := callOf(addr), make([]byte, 8<<10)
	once := func() []byte {
		if _, err := client.Write(call); err != nil {
			b.Fatal(err)
		}
		n, err := client.Read(buf)
		if err != nil {
			b.Fatal(err)
		}
		return buf[:n]
	}
	once()
	answer := bytes.Clone(once())
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(text), want) {
		b.Fatal(err, string(answer))
	}
	_ = response.Body.Close()
	b.ReportMetric(float64(len(answer)), "answer-bytes")
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}
