// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// hostileTime is what one of these calls may take. On an idle machine it takes some milliseconds; what were not linear would
// take minutes.
func hostileTime() time.Duration { return testkit.Limit() }

// maxHostileMemory bounds the sidecar's memory while and after many megabytes of this went through it. It is near 100 MB. The race
// detector, with which the sidecar is built where no binary is given, keeps several bytes more for each.
func maxHostileMemory() int64 {
	const plain, withDetector = 400 << 20, 4 * 400 << 20
	if os.Getenv("OUTRIGGER_TEST_BINARY") == "" {
		return withDetector
	}
	return plain
}

// TestMegabytesOfNonsense sends a megabyte of what costs careless readers most over every edge: each gets a clear error in
// bounded time, the process stays small, and the next call is served.
func TestMegabytesOfNonsense(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	var unknown strings.Builder
	for i := range size / 12 {
		fmt.Fprintf(&unknown, `"x%07d":1,`, i)
	}
	server := serve(t, "--demo", "--admin", "127.0.0.1:0")
	rows := []struct {
		name, tool, args, path string
		codes                  []string
	}{
		{"digits", toolEcho, `{"signed":` + strings.Repeat("9", size) + `}`, "/signed", []string{"INVALID_TOOL_INPUT"}},
		{"digits in a string", toolEcho, `{"signed":"` + strings.Repeat("9", size) + `"}`, "/signed", []string{"INVALID_TOOL_INPUT"}},
		{"zeros behind a point", toolEcho, `{"signed":1.` + strings.Repeat("0", size) + `}`, "/signed", []string{"INVALID_TOOL_INPUT"}},
		{"one huge string", toolEcho, `{"nonce":"` + strings.Repeat("a", size) + `"}`, "/nonce", []string{"INVALID_TOOL_INPUT"}},
		{"escapes", toolEcho, `{"nonce":"` + strings.Repeat(`\u0041`, size/6) + `"}`, "/nonce", []string{"INVALID_TOOL_INPUT"}},
		{"unknown fields", toolEcho, `{` + unknown.String() + `"nonce":"a"}`, "/x", []string{"INVALID_TOOL_INPUT"}},
		{"an array of numbers", toolEcho, `{"nonce":[` + strings.Repeat("1,", size/2) + `1]}`, "", []string{"INVALID_TOOL_INPUT"}},
		{"an int32 that is none", "fleet.list_vehicles", `{"pageSize":2147483648}`, "/pageSize", []string{"INVALID_TOOL_INPUT"}},
		{"nested as deep as may be", toolEcho, `{"nonce":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`, "/nonce", []string{"INVALID_TOOL_INPUT"}},
	}
	for _, edge := range caller.Edges() {
		if !neutral(edge) || edge.Variant {
			continue
		}
		t.Run(edge.Name, func(t *testing.T) {
			t.Parallel()
			agent := edge.Dial(t, target(server, "--demo"))
			defer agent.Close()
			for _, row := range rows {
				start := time.Now()
				got := caller.One(t.Context(), agent, caller.Call{ID: fmt.Sprintf("%q", row.name), Tool: row.tool, Args: row.args})
				if took := time.Since(start); took > hostileTime() {
					t.Errorf("%s: took %v", row.name, took)
				}
				if got.Fault == nil || !slices.Contains(row.codes, got.Fault.Code) {
					t.Errorf("%s: %v; %v %.100s", row.name, got.Err, got.Fault, got.Data)
				} else if path := firstPath(t, got.Fault); !strings.HasPrefix(path, row.path) {
					t.Errorf("%s: the error points at %q, want %q", row.name, path, row.path)
				}
			}
			if got := caller.One(t.Context(), agent, caller.Call{ID: `"after"`, Tool: toolEcho, Args: `{"nonce":"a"}`}); got.Err != nil || got.Fault != nil {
				t.Errorf("afterwards: %v; %v", got.Err, got.Fault)
			}
		})
	}
	t.Cleanup(func() {
		if rss := resident(t, server.AdminURL("/metrics")); rss > maxHostileMemory() {
			t.Errorf("the sidecar holds %d MiB", rss>>20)
		}
	})
}

// TestMegabytesOfBrackets: what is nested too deep is no JSON for an envelope, from any sender.
func TestMegabytesOfBrackets(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	for _, opening := range []string{"[", `{"a":`} {
		nested := strings.Repeat(opening, 1<<20/len(opening))
		for path, body := range map[string]string{
			"/mcp": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_echo","arguments":{"nonce":` + nested,
			"/rpc": `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"lab.echo","arguments":{"nonce":` + nested,
		} {
			start := time.Now()
			got := send(t, request(t, http.MethodPost, server.URL(path), strings.NewReader(body)))
			r := reply(t, got.body)
			if got.status != http.StatusBadRequest || r.Error == nil || r.Error.Code != -32700 || time.Since(start) > hostileTime() {
				t.Errorf("%s, %s: %d %.200s after %v", path, opening, got.status, got.body, time.Since(start))
			}
		}
	}
}

// resident is the sidecar's memory as its metrics have it.
func resident(t *testing.T, url string) int64 {
	t.Helper()
	resp, err := http.Get(url) //nolint:noctx // a test of a process of our own
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "process_resident_memory_bytes "); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int64(n)
		}
	}
	t.Fatal("the page does not say how much memory there is")
	return 0
}
