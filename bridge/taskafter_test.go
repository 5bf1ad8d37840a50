// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// TestAnySlowCallBecomesATask: after the configured time, where the client
// supports tasks and the tool says nothing about them.
func TestAnySlowCallBecomesATask(t *testing.T) {
	t.Parallel()
	const capable = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` +
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	for _, tc := range []struct {
		name  string
		meta  string
		after time.Duration
		want  string
		taken time.Duration
	}{
		{"a client with tasks", capable, time.Second, `"resultType":"task"`, time.Second},
		{"one that is quick enough", capable, 10 * time.Second, `"resultType":"complete"`, 5 * time.Second},
		{"a client without tasks", modernMeta, time.Second, `"resultType":"complete"`, 5 * time.Second},
		{"without the setting", capable, 0, `"resultType":"complete"`, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			live := mcptest.Memory(t)
			synctest.Test(t, func(t *testing.T) {
				slow := func(ctx context.Context, m *catalog.Method, in []byte, h http.Header) (*bridge.Answer, *errmap.Error) {
					time.Sleep(5 * time.Second) // of the bubble's own clock
					return mcptest.Echo(ctx, m, in, h)
				}
				tasks := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
				b := dialect.New(bridge.New(live, mcptest.Upstream(slow), correlate.New(correlate.Options{}), bridge.Options{Tasks: tasks, TaskAfter: tc.after}), dialect.Options{})
				start := time.Now()
				reply := b.HandleMessage(t.Context(), inbound(t, 1, dialect.Modern,
					`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_echo",`+tc.meta+`}}`))
				if !strings.Contains(string(reply.Bytes()), tc.want) || time.Since(start) != tc.taken {
					t.Errorf("after %v: %s", time.Since(start), reply.Bytes())
				}
				if !strings.Contains(tc.want, "task") {
					return
				}
				result, _ := jsontext.Lookup(reply.Bytes(), "result")
				id, _ := jsontext.Lookup(result, "taskId")
				time.Sleep(10 * time.Second)
				done := b.HandleMessage(t.Context(), inbound(t, 2, dialect.Modern,
					`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":`+string(id)+`,`+capable+`}}`))
				if !strings.Contains(string(done.Bytes()), `"status":"completed"`) || !strings.Contains(string(done.Bytes()), `"nonce":""`) {
					t.Errorf("the task: %s", done.Bytes())
				}
				tasks.Drain(t.Context())
			})
		})
	}
}
