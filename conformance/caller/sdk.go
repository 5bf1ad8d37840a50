// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// Protocol revisions. The SDK opens with the first two; the last is the one that
// has batches.
const (
	ModernVersion = "2026-07-28"
	LegacyVersion = "2025-11-25"
	OldestVersion = "2025-03-26"
)

func sdkEdges() []Edge {
	edge := func(name, version string, process bool) Edge {
		return Edge{Name: name, Process: process, Dial: func(tb testing.TB, t Target) Agent {
			tb.Helper()
			return DialSDK(tb, t, version, process)
		}}
	}
	return []Edge{
		edge("sdk-modern-http", ModernVersion, false),
		edge("sdk-legacy-http", LegacyVersion, false),
		edge("sdk-modern-stdio", ModernVersion, true),
		edge("sdk-legacy-stdio", LegacyVersion, true),
	}
}

// SDKAgent is a session of the MCP Go SDK.
type SDKAgent struct {
	Session *mcp.ClientSession
	version string
	client  *http.Client
}

// DialSDK opens a session, over stdio or HTTP, and checks that the revision
// asked for is the one in use.
func DialSDK(tb testing.TB, t Target, version string, stdio bool) *SDKAgent {
	tb.Helper()
	a := &SDKAgent{version: version, client: Client(false)}
	var transport mcp.Transport = &mcp.StreamableClientTransport{
		Endpoint: "http://" + t.Addr + "/mcp", HTTPClient: a.client, MaxRetries: -1,
	}
	if stdio {
		transport = &mcp.CommandTransport{Command: sidecar.StdioCommand(tb, t.Binary, t.Args...)}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "conformance", Version: "1"}, nil)
	session, err := client.Connect(tb.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		tb.Fatalf("connect as %s: %v", version, err)
	}
	a.Session = session
	if got := session.InitializeResult().ProtocolVersion; got != version {
		tb.Fatalf("the session speaks %s, want %s", got, version)
	}
	return a
}

// Close ends the session.
func (a *SDKAgent) Close() {
	_ = a.Session.Close()
	a.client.CloseIdleConnections()
}

// CallAll implements [Agent].
func (a *SDKAgent) CallAll(ctx context.Context, calls []Call) []Answer {
	return each(calls, func(c Call) Answer {
		res, err := a.Session.CallTool(ctx, &mcp.CallToolParams{
			Name: Modern.Name(c.Tool), Arguments: json.RawMessage(c.Args),
		})
		var wire *jsonrpc.Error
		if errors.As(err, &wire) {
			return Answer{Fault: &Fault{Code: CodeOf(wire.Data), Number: wire.Code, Message: wire.Message, Data: wire.Data}}
		}
		if err != nil {
			return failed(err)
		}
		return sdkAnswer(res)
	})
}

func sdkAnswer(res *mcp.CallToolResult) Answer {
	if len(res.Content) == 0 {
		return failed(errors.New("a result without content"))
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		return failed(fmt.Errorf("content is %T", res.Content[0]))
	}
	if !res.IsError {
		return Answer{Data: json.RawMessage(text.Text)}
	}
	data, err := json.Marshal(res.Meta[errorMeta])
	if err != nil {
		return failed(err)
	}
	return Answer{Fault: &Fault{Code: CodeOf(data), Message: text.Text, Data: data}}
}
