// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

const (
	sleepCall = `{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"20s"}}}`
	echoCall  = `{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"name":"lab.echo","arguments":{"payload":"AAAA"}}}`
)

// post sends a call as a caller whose token is its name.
func post(ctx context.Context, client *http.Client, url, caller, body string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token(caller))
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	return res.StatusCode, string(page), err
}

func token(caller string) string { return strings.Repeat(caller, 6) }

// callersFile has a file with callers.
func callersFile(t *testing.T, callers ...string) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("callers:\n")
	for _, name := range callers {
		fmt.Fprintf(&text, "- {name: %s, token_sha256: [%x], tools: ['*']}\n", name, sha256.Sum256([]byte(token(name))))
	}
	path := filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReservedCallsBesideAFlood: calls of one caller to a slow tool take every slot that they can have. Another call gets one
// where slots are reserved for its tool or its caller, and else none in time.
func TestReservedCallsBesideAFlood(t *testing.T) {
	t.Parallel()
	tools := []*configv1.ToolClass{{Name: "quick", Tools: []string{"lab.ec*"}, ReservedCalls: proto.Int32(2)}}
	callers := []*configv1.CallerClass{{Name: "agents", Callers: []string{"caller:planner"}, ReservedCalls: proto.Int32(3), Weight: proto.Int32(2)}}
	for name, row := range map[string]struct {
		limits       *configv1.Limits
		running      int
		caller, body string
		status       int
		metric       string
	}{
		"nothing reserved": {&configv1.Limits{}, 8, "planner", echoCall, http.StatusServiceUnavailable, `outrigger_queue_rejected_total{limit="max_queue_wait",tool="lab.echo"} 1`},
		"a tool": {
			&configv1.Limits{ToolClasses: tools}, 6, "flooder", echoCall, http.StatusOK,
			`outrigger_class_reserved{class="quick",of="tools"} 2`,
		},
		"a caller": {
			&configv1.Limits{CallerClasses: callers}, 5, "planner", echoCall, http.StatusOK,
			`outrigger_class_reserved{class="agents",of="callers"} 3`,
		},
		"another tool of the caller that floods": {
			&configv1.Limits{CallerClasses: callers}, 5, "flooder", echoCall, http.StatusServiceUnavailable,
			`outrigger_class_rejected_total{class="agents",limit="max_queue_wait",of="callers"} 0`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
				c.Limits.ToolClasses, c.Limits.CallerClasses = row.limits.GetToolClasses(), row.limits.GetCallerClasses()
				c.Limits.MaxConcurrentCalls, c.Limits.MaxQueueWait = proto.Int32(8), durationpb.New(time.Second)
				c.Access.TokensFile = callersFile(t, "flooder", "planner")
			}})
			url, operators, client := rig.Serve(t), rig.Operators(t), mcptest.Client(t, 1)
			ctx, stop := context.WithCancel(t.Context())
			flooding := make(chan struct{})
			const flood = 40
			for range flood {
				go func() {
					_, _, _ = post(ctx, client, url+"/rpc", "flooder", sleepCall)
					flooding <- struct{}{}
				}()
			}
			defer func() {
				stop()
				for range flood {
					<-flooding
				}
			}()
			running := fmt.Sprintf("outrigger_limit_used{limit=\"max_concurrent_calls\"} %d\n", row.running)
			await(t, client, operators, running, `outrigger_queue_tool_waiting{tool="lab.sleep"}`)
			if status, text, err := post(t.Context(), client, url+"/rpc", row.caller, row.body); err != nil || status != row.status {
				t.Errorf("%d %s, %v; want %d", status, text, err, row.status)
			}
			await(t, client, operators, running, row.metric)
		})
	}
}

// await waits until the metrics have some lines.
func await(t *testing.T, client *http.Client, operators string, lines ...string) {
	t.Helper()
	var page string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, operators+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		page = string(text)
		missing := false
		for _, line := range lines {
			missing = missing || !strings.Contains(page, line)
		}
		if !missing {
			return
		}
	}
	t.Fatalf("the metrics do not have %q:\n%s", lines, page)
}
