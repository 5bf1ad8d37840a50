// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// ask is one call of a tool as a test wants it, right or wrong. What an honest
// client could not write is written all the same.
type ask struct {
	// tool is the canonical name, procedure the RPC behind it.
	tool, procedure string
	// args stand where the arguments do: JSON, or the encoded message where an entry point
	// takes that. absent leaves them out.
	args   string
	absent bool
	// verbatim keeps the tool's name as it is, also where MCP has another form.
	verbatim bool
}

// entryPoint is one way to send an ask: an edge in one dialect and encoding. It takes one ask at a time.
type entryPoint struct {
	edge edge
	// name tells the entry points of one edge apart.
	name string
	ask  func(t *testing.T, a ask) caller.Answer
	// metrics is where the process behind the entry point counts.
	metrics string
	// large: the entry point takes the inputs of a megabyte as well.
	large bool
}

// Names of entry points that the tables tell apart.
const (
	asStruct  = "as a Struct"
	inForm    = "message form"
	inSession = "in a session"
)

// member is the arguments as a member of an object, with a comma before it.
func (a ask) member(name string) string {
	if a.absent {
		return ""
	}
	return `,"` + name + `":` + a.args
}

func (a ask) name(d caller.Dialect) string {
	if a.verbatim {
		return a.tool
	}
	return d.Name(a.tool)
}

// request writes the call as one JSON-RPC message.
func (a ask) request(d caller.Dialect) string {
	name, _ := json.Marshal(a.name(d))
	params := fmt.Sprintf(`"name":%s%s`, name, a.member("arguments"))
	switch d {
	case caller.Modern:
		params += "," + caller.ModernMeta
	case caller.MessageForm:
		params = fmt.Sprintf(`"tool_name":%s%s`, name, a.member("arguments"))
	case caller.Legacy, caller.Oldest, caller.Canonical:
	}
	return `{"jsonrpc":"2.0","id":"ask","method":"tools/call","params":{` + params + `}}`
}

// entryPoints opens every entry point: those of a server, and processes on stdio with the same
// arguments, which listen on an admin port of their own.
func entryPoints(t *testing.T, server *sidecar.Server, args ...string) []entryPoint {
	t.Helper()
	all := append(jsonEntryPoints(t, server), stdioEntryPoints(t, args...)...)
	all = append(all, toolEntryPoints(t, server)...)
	all = append(all, typedJSONEntryPoints(t, server)...)
	for i, d := range all {
		all[i].large = d.edge == mcpOldest && d.name == inSession || d.edge == stdio && d.name == inForm || d.edge == toolJSON && d.name != asStruct ||
			d.edge == toolBinary && d.name == "gRPC" || d.edge == typedJSON && d.name == "Connect"
	}
	return all
}

// jsonEntryPoints are those of JSON-RPC over HTTP.
func jsonEntryPoints(t *testing.T, server *sidecar.Server) []entryPoint {
	t.Helper()
	plain := func(text string) string { return text }
	batch := func(text string) string { return "[" + text + "]" }
	over := func(e edge, name, path string, d caller.Dialect, wrap func(string) string, header map[string]string) entryPoint {
		return entryPoint{edge: e, name: name, metrics: server.AdminURL("/metrics"), ask: func(t *testing.T, a ask) caller.Answer {
			t.Helper()
			req := request(t, http.MethodPost, server.URL(path), strings.NewReader(wrap(a.request(d))))
			for key, value := range header {
				req.Header.Set(key, value)
			}
			if d == caller.Modern {
				req.Header.Set("Mcp-Method", "tools/call")
				req.Header.Set("Mcp-Name", "=?base64?"+base64.StdEncoding.EncodeToString([]byte(a.name(d)))+"?=")
			}
			got := send(t, req)
			var one []json.RawMessage
			if json.Unmarshal(got.body, &one) == nil && len(one) == 1 {
				got.body = one[0]
			}
			return d.Parse(got.body, got.status)
		}}
	}
	version := func(v string) map[string]string { return map[string]string{"Mcp-Protocol-Version": v} }
	return []entryPoint{
		over(mcpModern, "alone", "/mcp", caller.Modern, plain, version(caller.ModernVersion)),
		over(mcpLegacy, "alone", "/mcp", caller.Legacy, plain, version(caller.LegacyVersion)),
		over(mcpOldest, inSession, "/mcp", caller.Oldest, plain, map[string]string{"Mcp-Session-Id": openOldest(t, server)}),
		over(mcpOldest, "in a batch", "/mcp", caller.Oldest, batch, map[string]string{"Mcp-Session-Id": openOldest(t, server)}),
		over(rpcCanonical, "alone", "/rpc", caller.Canonical, plain, nil),
		over(rpcCanonical, "in a batch", "/rpc", caller.Canonical, batch, nil),
		over(rpcMessage, "alone", "/rpc", caller.MessageForm, plain, nil),
		over(rpcMessage, "in a batch", "/rpc", caller.MessageForm, batch, nil),
	}
}

// openOldest begins a session of the revision that has batches.
func openOldest(t *testing.T, server *sidecar.Server) string {
	t.Helper()
	got := send(t, request(t, http.MethodPost, server.URL("/mcp"),
		strings.NewReader(strings.Replace(caller.Initialize, caller.LegacyVersion, caller.OldestVersion, 1))))
	id := got.header.Get("Mcp-Session-Id")
	if got.status != http.StatusOK || id == "" {
		t.Fatalf("initialize: %d %s", got.status, got.body)
	}
	req := request(t, http.MethodPost, server.URL("/mcp"), strings.NewReader(caller.Initialized))
	req.Header.Set("Mcp-Session-Id", id)
	if got := send(t, req); got.status != http.StatusAccepted {
		t.Fatalf("initialized: %d %s", got.status, got.body)
	}
	return id
}

// stdioEntryPoints start two processes: one is legacy from its first message to its end,
// the other takes every dialect that needs no opening.
func stdioEntryPoints(t *testing.T, args ...string) []entryPoint {
	t.Helper()
	args = append([]string{"--admin", "127.0.0.1:0"}, args...)
	open, legacy := sidecar.Pipe(t, built.binary, args...), sidecar.Pipe(t, built.binary, args...)
	legacy.MustSend(t, caller.Initialize)
	legacy.Next(t)
	legacy.MustSend(t, caller.Initialized)
	return slices.Concat(
		pipeEntryPoints(t, open, map[string]caller.Dialect{"canonical": caller.Canonical, inForm: caller.MessageForm, "modern": caller.Modern}),
		pipeEntryPoints(t, legacy, map[string]caller.Dialect{"legacy": caller.Legacy}))
}

// pipeEntryPoints are entry points of one process, which takes one ask at a time.
func pipeEntryPoints(t *testing.T, pipe *sidecar.Stdio, dialects map[string]caller.Dialect) []entryPoint {
	t.Helper()
	listening := pipe.Log(t, "its admin listener", func(e sidecar.Entry) bool {
		return e.Message == "listening" && e.Fields["listener"] == "admin"
	})
	var asking sync.Mutex
	var all []entryPoint
	for name, d := range dialects {
		all = append(all, entryPoint{
			edge: stdio, name: name, metrics: fmt.Sprintf("http://%s/metrics", listening.Fields["addr"]),
			ask: func(t *testing.T, a ask) caller.Answer {
				t.Helper()
				asking.Lock()
				defer asking.Unlock()
				pipe.MustSend(t, a.request(d))
				return d.Parse([]byte(pipe.Next(t)), 0)
			},
		})
	}
	return all
}

// rpcProtocol is one of the protocols of connect-go.
type rpcProtocol struct {
	name    string
	h2      bool
	options []connect.ClientOption
}

func rpcProtocols() []rpcProtocol {
	return []rpcProtocol{
		{name: "Connect"},
		{name: "gRPC", h2: true, options: []connect.ClientOption{connect.WithGRPC()}},
		{name: "gRPC-Web", options: []connect.ClientOption{connect.WithGRPCWeb()}},
	}
}

// rawEntryPoint is one for bytes, which written makes of an ask.
func rawEntryPoint(t *testing.T, server *sidecar.Server, e edge, name, procedure string, encoding caller.Encoding, p rpcProtocol, written func(ask) []byte) entryPoint {
	t.Helper()
	clients := map[string]*caller.Raw{}
	client := func(procedure string) *caller.Raw {
		if clients[procedure] == nil {
			raw := caller.NewRaw(server.Addr(), procedure, encoding, p.h2, p.options...)
			clients[procedure] = raw
			t.Cleanup(raw.Close)
		}
		return clients[procedure]
	}
	return entryPoint{edge: e, name: name, metrics: server.AdminURL("/metrics"), ask: func(t *testing.T, a ask) caller.Answer {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
		defer cancel()
		where := procedure
		if where == "" {
			where = a.procedure
		}
		return client(where).Call(ctx, written(a))
	}}
}

// toolEntryPoints are those of ToolService. In Protobuf the arguments are JSON in bytes;
// in JSON they are that in base64, or stand there as they are.
func toolEntryPoints(t *testing.T, server *sidecar.Server) []entryPoint {
	t.Helper()
	inBytes := func(a ask) []byte {
		call := &outriggerv1.ToolCall{ToolName: a.tool}
		if !a.absent {
			call.ArgumentsForm = &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(a.args)}
		}
		raw, err := proto.Marshal(call)
		if err != nil {
			t.Error(err)
		}
		return raw
	}
	inBase64 := func(a ask) []byte {
		member := ""
		if !a.absent {
			coded, _ := json.Marshal([]byte(a.args))
			member = `,"arguments_json":` + string(coded)
		}
		name, _ := json.Marshal(a.tool)
		return []byte(`{"tool_name":` + string(name) + member + `}`)
	}
	inPlain := func(a ask) []byte {
		name, _ := json.Marshal(a.tool)
		return []byte(`{"tool_name":` + string(name) + a.member("arguments") + `}`)
	}
	const procedure = outriggerv1connect.ToolServiceCallToolProcedure
	var all []entryPoint
	for _, p := range rpcProtocols() {
		all = append(all, rawEntryPoint(t, server, toolBinary, p.name, procedure, caller.Proto, p, inBytes))
	}
	all = append(all, rawEntryPoint(t, server, toolJSON, "in bytes", procedure, caller.JSON, rpcProtocols()[0], inBase64))
	return append(all, rawEntryPoint(t, server, toolJSON, asStruct, procedure, caller.JSON, rpcProtocols()[0], inPlain))
}

// typedJSONEntryPoints are those of the backend's own methods, in JSON.
func typedJSONEntryPoints(t *testing.T, server *sidecar.Server) []entryPoint {
	t.Helper()
	var all []entryPoint
	for _, p := range rpcProtocols() {
		all = append(all, rawEntryPoint(t, server, typedJSON, p.name, "", caller.JSON, p, func(a ask) []byte { return []byte(a.args) }))
	}
	return all
}

// typedWireEntryPoints are the same in Protobuf.
func typedWireEntryPoints(t *testing.T, server *sidecar.Server) []entryPoint {
	t.Helper()
	var all []entryPoint
	for _, p := range rpcProtocols() {
		all = append(all, rawEntryPoint(t, server, typedWire, p.name, "", caller.Proto, p, func(a ask) []byte { return bytes.Clone([]byte(a.args)) }))
	}
	return all
}
