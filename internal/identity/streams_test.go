// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// lasting is a request whose answer lasts until one side ends it.
type lasting struct {
	name, method, path, body string
	header                   map[string]string
	http2                    bool
}

const subscribe = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{}}}}`

func streams() []lasting {
	grpc := map[string]string{"Content-Type": asGRPC, "TE": "trailers"}
	return []lasting{
		{"mcp legacy", "GET", "/mcp", "", map[string]string{"Accept": "text/event-stream", "MCP-Protocol-Version": "2025-06-18"}, false},
		{"mcp modern", "POST", "/mcp", subscribe, map[string]string{
			"Content-Type": asJSON, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
		}, false},
		{"watch", "POST", "/outrigger.v1.ToolService/WatchTools", noBytes, grpc, true},
		{"subscribe", "POST", "/outrigger.v1.ToolService/Subscribe", "\x00\x00\x00\x00\x02\x0a\x00", grpc, true},
		{"subscribe, connect", "POST", "/outrigger.v1.ToolService/Subscribe", "\x00\x00\x00\x00\x0d{\"events\":{}}", map[string]string{
			"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1",
		}, false},
		{"typed, one way", "POST", "/outrigger.demo.v1.Fleet/WatchVehicles", framed(`{"vehicleIds":["101"],"rounds":100,"interval":"1s"}`), map[string]string{
			"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1",
		}, false},
		{"typed, both ways", "POST", "/outrigger.demo.v1.Lab/Relay", "", grpc, true}, // its caller sends nothing, and does not end
	}
}

// framed is a message of a stream.
func framed(message string) string { return "\x00\x00\x00\x00" + string(rune(len(message))) + message }

// TestStreamsEndWithTheirToken on every edge that has some, and not before.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	base := withOAuth(t, s)
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		base(c)
		c.Access.Oauth.Leeway = durationpb.New(0)
	}})
	a := newAsker(t, rig.Serve(t))
	for _, one := range streams() {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			session := ""
			if one.name == "mcp legacy" {
				session = a.session(t, s.issuer.Token(resource, func(c map[string]any) { c["sub"] = "joe" }))
			}
			for life := 3 * time.Second; ; life *= 2 { // on a busy machine a token may end before its stream begins
				ends := time.Now().Add(life).Truncate(time.Second)
				token := s.issuer.Token(resource, func(c map[string]any) { c["exp"], c["sub"] = ends.Unix(), "joe" })
				status, began := a.listen(t, &one, token, session)
				if status == http.StatusUnauthorized && !began.Before(ends) && life < time.Minute {
					continue
				}
				if left := time.Until(ends); status != http.StatusOK || left > 50*time.Millisecond { // which the clock may be set by meanwhile
					t.Errorf("status %d, ended %v before its token, began %v before", status, left, ends.Sub(began))
				}
				return
			}
		})
	}
}

// session begins a legacy session.
func (a *asker) session(t *testing.T, token string) string {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url+"/mcp", strings.NewReader(edges()[1].body))
	for name, value := range edges()[1].header {
		r.Header.Set(name, value)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	got, err := a.one.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, _ := io.ReadAll(got.Body)
	if !json.Valid(text) || got.Header.Get("Mcp-Session-Id") == "" {
		t.Fatalf("no session: %d %s", got.StatusCode, bytes.TrimSpace(text))
	}
	return got.Header.Get("Mcp-Session-Id")
}

// listen reads a stream to its end.
func (a *asker) listen(t *testing.T, one *lasting, token, session string) (status int, began time.Time) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute+testkit.Limit())
	defer stop()
	body := io.Reader(strings.NewReader(one.body))
	if one.body == "" && one.method == http.MethodPost {
		open, end := io.Pipe()
		defer func() { _ = end.Close() }()
		body = open
	}
	r, _ := http.NewRequestWithContext(ctx, one.method, a.url+one.path, body)
	for name, value := range one.header {
		r.Header.Set(name, value)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	client := a.one
	if one.http2 {
		client = a.two
	}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	began = time.Now()
	_, _ = io.Copy(io.Discard, got.Body)
	if ctx.Err() != nil {
		t.Error("the stream goes on")
	}
	return got.StatusCode, began
}
