// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/fixture"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// startFixture serves the fixture in this process until the test ends.
func startFixture(t *testing.T) string {
	t.Helper()
	server, err := fixture.Start(t.Context(), fixture.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Limit())
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Errorf("close the fixture: %v", err)
		}
	})
	return server.URL()
}

// unsupported skips a check that the SDK cannot do, after it was shown that it
// cannot; absent one of something that the revision or the transport lacks. The
// words are those that cmd/suite reads.
func unsupported(t *testing.T, reason string) {
	t.Helper()
	t.Skip("unsupported: " + reason)
}

func absent(t *testing.T, reason string) {
	t.Helper()
	t.Skip("absent: " + reason)
}

// sdkClient is the Go SDK's client for a fixture, in one revision and over one
// transport.
type sdkClient struct {
	version string
	stdio   bool
	backend string
	addr    string // the sidecar's, over HTTP
	http    *http.Client
	retries int // of streams whose connection ended
}

// everyTransport runs every check over HTTP and stdio. Those of own come in
// addition to the common ones, or in their place.
func everyTransport(t *testing.T, version string, own map[string]func(*testing.T, *sdkClient)) {
	t.Helper()
	for _, stdio := range []bool{false, true} {
		t.Run(map[bool]string{false: "http", true: "stdio"}[stdio], func(t *testing.T) {
			t.Parallel()
			c := &sdkClient{version: version, stdio: stdio, backend: startFixture(t), http: caller.Client(false), retries: -1}
			t.Cleanup(c.http.CloseIdleConnections)
			if !stdio {
				c.addr = serve(t, "--backend", c.backend).Addr()
			}
			c.checks(t, own)
		})
	}
}

// dial opens a session that ends with the test.
func (c *sdkClient) dial(t *testing.T, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	var transport mcp.Transport = &mcp.StreamableClientTransport{
		Endpoint: "http://" + c.addr + "/mcp", HTTPClient: c.http, MaxRetries: c.retries,
	}
	if c.stdio {
		transport = &mcp.CommandTransport{Command: sidecar.StdioCommand(t, built.binary, "--backend", c.backend)}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "conformance", Version: "1"}, opts)
	client.AddRoots(&mcp.Root{URI: "file:///tmp", Name: "tmp"}) //nolint:staticcheck // MCP deprecates roots, and clients have them
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: c.version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// plain opens a session that can do nothing.
func (c *sdkClient) plain(t *testing.T) *mcp.ClientSession {
	t.Helper()
	return c.dial(t, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
}

// open opens a session that can do everything and hears everything.
func (c *sdkClient) open(t *testing.T) *sdkSession {
	t.Helper()
	s := &sdkSession{progress: map[string][]float64{}}
	s.ClientSession = c.dial(t, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{}}, //nolint:staticcheck // see AddRoots
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return s.fillIn(req.Params.RequestedSchema)
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) { //nolint:staticcheck // MCP deprecates sampling, and clients have it
			return &mcp.CreateMessageResult{Model: "none", Role: "assistant", Content: &mcp.TextContent{Text: "Paris."}}, nil //nolint:staticcheck // the same
		},
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			s.heard(fmt.Sprint(req.Params.ProgressToken), req.Params.Progress)
		},
		LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) { //nolint:staticcheck // MCP deprecates logging, and clients have it
			s.mu.Lock()
			defer s.mu.Unlock()
			s.logs = append(s.logs, fmt.Sprint(req.Params.Level, ": ", req.Params.Data))
		},
		ToolListChangedHandler:   func(context.Context, *mcp.ToolListChangedRequest) { s.tools.Add(1) },
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) { s.prompts.Add(1) },
		ResourceUpdatedHandler:   func(context.Context, *mcp.ResourceUpdatedNotificationRequest) { s.updated.Add(1) },
	})
	return s
}

// sdkSession is a session and what it heard.
type sdkSession struct {
	*mcp.ClientSession

	// declines: the user says no to every form.
	declines atomic.Bool

	mu       sync.Mutex
	progress map[string][]float64 // by token
	logs     []string

	tools, prompts, updated atomic.Int64
}

// fillIn answers a form as its schema asks.
func (s *sdkSession) fillIn(schema any) (*mcp.ElicitResult, error) {
	if s.declines.Load() {
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	var form struct {
		Properties map[string]struct{ Type string }
	}
	if err := json.Unmarshal(raw, &form); err != nil {
		return nil, err
	}
	words := map[string]string{"name": "Alice", "color": "blue", "context": "tests"}
	content := map[string]any{}
	for name, property := range form.Properties {
		content[name] = words[name]
		if property.Type == "boolean" {
			content[name] = true
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

func (s *sdkSession) heard(token string, progress float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress[token] = append(s.progress[token], progress)
}

func (s *sdkSession) steps(token string) []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.progress[token])
}

// hasLogs waits for the three messages that one call at the level info logs.
func (s *sdkSession) hasLogs(t *testing.T) {
	t.Helper()
	var logs []string
	testkit.Until(t, "three messages were logged", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		logs = slices.Clone(s.logs)
		return len(logs) >= 3
	})
	if want := []string{"info: It begins.", "info: It goes on.", "info: It ends."}; !slices.Equal(logs, want) {
		t.Errorf("logs %q, want %q", logs, want)
	}
}

// text calls a tool that must succeed with one block of text.
func (s *sdkSession) text(t *testing.T, name, args string) string {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if res.IsError || len(res.Content) != 1 {
		t.Fatalf("%s: %+v", name, res)
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("%s: content is %T", name, res.Content[0])
	}
	return text.Text
}

// wireCode is the JSON-RPC code of an error, 0 where it has none.
func wireCode(err error) int64 {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return wire.Code
	}
	return 0
}
