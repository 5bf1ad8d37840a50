// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// experimental is the URL of a sidecar with some experiments.
func experimental(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "alpha"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "alpha", "SKILL.md"), []byte("---\nname: alpha\ndescription: The first.\n---\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Experimental, c.Catalog.Skills = names, []string{dir}
	}}).Serve(t)
}

// modernAt sends a request of a revision of MCP and returns the status and the message.
func modernAt(t *testing.T, url, revision, method, params string) (int, string) {
	t.Helper()
	if params != "" {
		params += ","
	}
	if !strings.Contains(params, `"_meta"`) {
		params += `"_meta":{},`
	}
	params = strings.Replace(params, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/protocolVersion":"`+revision+`","io.modelcontextprotocol/clientCapabilities":{}`+
		map[bool]string{true: "", false: ","}[strings.Contains(params, `"_meta":{}`)], 1)
	header := http.Header{"Mcp-Protocol-Version": {revision}, "Mcp-Method": {method}}
	if _, rest, ok := strings.Cut(params, `"name":"`); ok && method == "tools/call" {
		name, _, _ := strings.Cut(rest, `"`)
		header.Set("Mcp-Name", name)
	}
	return postTo(t, url+"/mcp", `{"jsonrpc":"2.0","id":"1","method":"`+method+`","params":{`+strings.TrimSuffix(params, ",")+`}}`, header)
}

// legacyAt is modernAt for revisions that have their version in a header.
func legacyAt(t *testing.T, url, revision, method, params string) (int, string) {
	t.Helper()
	return postTo(t, url+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`, http.Header{"Mcp-Protocol-Version": {revision}})
}

func postTo(t *testing.T, url, body string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

const (
	today   = "2026-07-28"
	someday = "2026-12-01"
	anOrder = `"name":"fleet_get_order","arguments":{"orderId":"1001"}`
	noHash  = "0000000000000000000000000000000000000000000000000000000000000000"
)

// TestExperimentsThatAreOff: what a client asks for is refused with the flag that turns it on, and the same requests are not refused
// for that where it is on. No request asks for those with a nil ask: the annotations are in descriptors, and the socket is a listener.
func TestExperimentsThatAreOff(t *testing.T) {
	t.Parallel()
	type ask func(t *testing.T, url string) (int, string)
	modern := func(revision, method, params string) ask {
		return func(t *testing.T, url string) (int, string) {
			t.Helper()
			return modernAt(t, url, revision, method, params)
		}
	}
	tests := map[string]map[string]ask{
		config.StructuredDenials: nil,
		config.SkillCache:        nil,
		config.RivalAnnotations:  nil,
		config.UnixSocket:        nil,
		config.ServerCard: {"404": func(t *testing.T, url string) (int, string) {
			t.Helper()
			resp := fetch(t, http.MethodGet, url+"/mcp/server-card", "", "")
			return resp.StatusCode, bodyOf(t, resp)
		}},
		config.ToolManifest: {"404 manifest": modern(today, "tools/manifest", ""), "404 describe": modern(today, "tools/describe", `"names":["fleet_get_order"]`),
			"200 manifest of older revisions": func(t *testing.T, url string) (int, string) {
				t.Helper()
				return legacyAt(t, url, "2025-11-25", "tools/manifest", "")
			}},
		config.ResultVariants: {
			"400 revision": modern(someday, "tools/list", ""),
			"400 call":     modern(someday, "tools/call", anOrder+`,"requestedOutputs":[{"audience":"assistant","format":"content"}]`),
			"200 member":   modern(today, "tools/call", anOrder+`,"requestedOutputs":[{"audience":"assistant","format":"content"}]`),
		},
		config.ToolDigest: {
			"200 modern": modern(today, "tools/call", anOrder+`,"_meta":{"dev.outrigger/digest":"`+noHash+`"}`),
			"200 legacy": func(t *testing.T, url string) (int, string) {
				t.Helper()
				return postTo(t, url+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+anOrder+`,"_meta":{"dev.outrigger/digest":"`+noHash+`"}}}`,
					http.Header{"Mcp-Protocol-Version": {"2025-11-25"}})
			},
			"400 rpc": func(t *testing.T, url string) (int, string) {
				t.Helper()
				return postTo(t, url+"/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fleet.get_order","arguments":{"orderId":"1001"},"_meta":{"dev.outrigger/digest":"`+noHash+`"}}}`, nil)
			},
			"400 connect": func(t *testing.T, url string) (int, string) {
				t.Helper()
				return postTo(t, url+"/outrigger.v1.ToolService/CallTool", `{"tool_name":"fleet.get_order","arguments":{"orderId":"1001"},"meta":{"dev.outrigger/digest":"`+noHash+`"}}`, nil)
			},
		},
	}
	// All but the one that needs a Unix socket; TestProcessesWithoutAnEntry has all of them.
	off, on := experimental(t), experimental(t, slices.DeleteFunc(config.Experiments(), func(name string) bool { return name == config.UnixSocket })...)
	for _, name := range config.Experiments() {
		asks, ok := tests[name]
		if !ok {
			t.Errorf("%s: what is refused where it is off?", name)
		}
		for about, ask := range asks {
			t.Run(name+" "+about, func(t *testing.T) {
				status, text := ask(t, off)
				if !strings.HasPrefix(about, strconv.Itoa(status)) || !strings.Contains(text, "--experimental "+name) {
					t.Errorf("off: %d %s", status, text)
				}
				status, text = ask(t, on)
				if strings.Contains(text, "--experimental") || name == config.ToolDigest && !strings.Contains(text, "has changed since its client read it") {
					t.Errorf("on: %d %s", status, text)
				}
			})
		}
		page, err := os.ReadFile("../../docs/experimental/" + name + ".md")
		table, failed := os.ReadFile("../../docs/experimental.md")
		if err != nil || failed != nil || !strings.Contains(string(page), "`--experimental "+name+"`") || !strings.Contains(string(table), "[`"+name+"`](experimental/"+name+".md)") {
			t.Errorf("%s has no page, or is not in the table: %v, %v", name, err, failed)
		}
	}
}

// TestTheServerCard is public, and says what server/discover says.
func TestTheServerCard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, resource, server, want string
	}{
		{"by its own address", "", "", `"name":"localhost/outrigger.demo.v1"`},
		{"by a configured one", "https://tools.example.com/mcp", "Fleet desk", `"name":"com.example.tools/Fleet-desk","version":"1.2","description":"Tools of Fleet desk","remotes":[{"type":"streamable-http","url":"https://tools.example.com/mcp","supportedProtocolVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"]}]}`},
		{"with a namespace", "https://tools.example.com/mcp", "com.example/shop", `"name":"com.example/shop"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
				c.Experimental = []string{config.ServerCard}
				c.Server = &configv1.Server{Name: tt.server, Version: "1.2"}
				if tt.resource != "" {
					c.Access.Oauth = &configv1.OAuth{Resource: tt.resource, IssuerUrls: []string{"https://login.example"}}
				}
			}}).Serve(t)
			resp := fetch(t, http.MethodGet, url+"/mcp/server-card", "", "https://page.example")
			body := bodyOf(t, resp)
			if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/mcp-server-card+json" || resp.Header.Get("Access-Control-Allow-Origin") != "*" ||
				!strings.HasPrefix(body, `{"$schema":"https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",`) || !strings.Contains(body, tt.want) {
				t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, body)
			}
			if tt.resource == "" && !strings.Contains(body, `"url":"`+url+`/mcp"`) {
				t.Errorf("%s", body)
			}
			if strings.Contains(body, "get_order") {
				t.Errorf("a tool in %s", body)
			}
			for method, want := range map[string]int{http.MethodHead: 200, http.MethodOptions: 204, http.MethodPut: 403} {
				if got := fetch(t, method, url+"/mcp/server-card", "", "https://page.example"); got.StatusCode != want {
					t.Errorf("%s: %d", method, got.StatusCode)
				}
			}
			if got := fetch(t, http.MethodPut, url+"/mcp/server-card", "", ""); got.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("PUT: %d", got.StatusCode)
			}
			if got := fetch(t, http.MethodGet, url+"/mcp/server-card", "rebound.example", ""); got.StatusCode != http.StatusForbidden {
				t.Errorf("another host: %d", got.StatusCode)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/mcp/server-card", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("If-None-Match", resp.Header.Get("ETag"))
			again, err := mcptest.Client(t, 1).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = again.Body.Close()
			if again.StatusCode != http.StatusNotModified {
				t.Errorf("again: %d", again.StatusCode)
			}
		})
	}
}

// TestPublicDocumentsTakeNothingFromCalls: what is read without credentials is read while every slot is taken, and requests for it take no
// slot, no place in the queue and nothing of a rate.
func TestPublicDocumentsTakeNothingFromCalls(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Experimental = []string{config.ServerCard}
		c.Limits.MaxConcurrentCalls = proto.Int32(1)
		c.Limits.CallerRate = &configv1.Rate{PerSecond: 1e-6, Burst: proto.Int32(2)} // one address is one caller here
	}})
	url, operators := rig.Serve(t), rig.Operators(t)
	ctx, stop := context.WithCancel(t.Context())
	taken := make(chan struct{})
	client := mcptest.Client(t, 1)
	go func() {
		defer close(taken)
		_, _, _ = sendAs(ctx, client, url+"/rpc", "", sleepCall)
	}()
	const used = "outrigger_limit_used{limit=\"max_concurrent_calls\"} 1\n"
	await(t, mcptest.Client(t, 1), operators, used)
	for path, status := range map[string]int{
		"/mcp/server-card": 200, "/.well-known/oauth-protected-resource": 404, "/.well-known/oauth-authorization-server": 404,
	} {
		for range 50 {
			resp := fetch(t, http.MethodGet, url+path, "", "")
			if _ = bodyOf(t, resp); resp.StatusCode != status {
				t.Fatalf("%s: %d", path, resp.StatusCode)
			}
		}
	}
	await(t, mcptest.Client(t, 1), operators, used)
	stop()
	<-taken
	// The call that was cancelled and this one are the burst.
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status, text := postTo(t, url+"/rpc", echoCall, nil); status != want {
			t.Errorf("after the flood: %d %s, want %d", status, text, want)
		}
	}
}

// TestSkillsHaveCacheHintsInEveryEra if they are asked for; the newest always has them.
func TestSkillsHaveCacheHintsInEveryEra(t *testing.T) {
	t.Parallel()
	for name, isOn := range map[string]bool{"": false, config.SkillCache: true} {
		var names []string
		if isOn {
			names = []string{name}
		}
		url := experimental(t, names...)
		for method, hint := range map[string]string{"skills/list": `"ttlMs":300000,"cacheScope":"private"`, "skills/get": `"ttlMs":0,"cacheScope":"private"`} {
			params := map[string]string{"skills/get": `"uri":"skill://alpha/SKILL.md"`}[method]
			for _, revision := range []string{today, "2025-11-25", "2025-06-18", "2025-03-26"} {
				_, got := modernAt(t, url, revision, method, params)
				if revision != today {
					_, got = legacyAt(t, url, revision, method, params)
				}
				if want := isOn || revision == today; strings.Contains(got, hint) != want || !strings.Contains(got, `"result"`) {
					t.Errorf("%q, %s %s: %s", name, revision, method, got)
				}
			}
		}
	}
}
