// SPDX-License-Identifier: Apache-2.0

package mcpschema_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
)

// note is a notification.
func note(method, params string) string {
	return `{"jsonrpc":"2.0","method":"notifications/` + method + `","params":{` + params + `}}`
}

func TestStreams(t *testing.T) {
	t.Parallel()
	progress := func(token, n string) string {
		return note("progress", `"progressToken":`+token+`,"progress":`+n)
	}
	log := func(level string) string { return note("message", `"level":"`+level+`","data":1`) }
	call := func(more string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",` + strings.Replace(meta(none), `{"io`, `{`+more+`"io`, 1) + `}}`
	}
	const done = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`
	const failed = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`
	token, text, level := call(`"progressToken":7,`), call(`"progressToken":"7",`), call(`"io.modelcontextprotocol/logLevel":"warning",`)
	listen := func(filter string) string {
		return `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{` + filter + `},` + meta(everybody) + `}}`
	}
	const tag = `"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}`
	ack := func(filter string) string {
		return note("subscriptions/acknowledged", `"notifications":{`+filter+`},`+tag)
	}
	const all = `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:a","x:b"],"taskIds":["t"]`
	const over = `{"jsonrpc":"2.0","id":"l","result":{"resultType":"complete",` + tag + `}}`
	const task = `"status":"working","createdAt":"2026-11-20T10:00:00Z","lastUpdatedAt":"2026-11-20T10:00:00Z","ttlMs":null,` + tag
	tests := []struct {
		name, request string
		messages      []string
		want          string // in the error; empty: it is valid
	}{
		{"a reply", call(``), []string{done}, ""},
		{"an error", token, []string{progress(`7`, `1`), failed}, ""},
		{"nothing", call(``), nil, "no reply"},
		{"a wrong request", strings.Replace(done, "result", "results", 1), nil, "MCP 2026-07-28"},
		{"two replies", call(``), []string{done, done}, "1 messages behind the reply"},
		{"progress behind the reply", token, []string{done, progress(`7`, `1`)}, "1 messages behind the reply"},
		{"progress", token, []string{progress(`7`, `0`), progress(`7`, `0.5`), progress(`7`, `1e1`), done}, ""},
		{"progress of a text", text, []string{progress(`"7"`, `0`), done}, ""},
		{"progress without a token", call(``), []string{progress(`7`, `0`), done}, "the request has no progressToken"},
		{"progress of another type", token, []string{progress(`"7"`, `0`), done}, `the progressToken is "7", the request's 7`},
		{"progress that stays", token, []string{progress(`7`, `1`), progress(`7`, `1`), done}, "progress 1 is not beyond"},
		{"progress that is none", token, []string{progress(`7`, `"1"`), done}, "progress"},
		{"logs", level, []string{log("warning"), log("emergency"), done}, ""},
		{"a log without a level", call(``), []string{log("emergency"), done}, "the request has no logLevel"},
		{"a log below", level, []string{log("notice"), done}, `a log of level "notice", below "warning"`},
		{"a change beside a call", call(``), []string{note("tools/list_changed", tag), done}, "has no place beside tools/call"},

		{"a subscription", listen(all), []string{
			ack(all), note("tools/list_changed", tag), note("prompts/list_changed", tag), note("resources/list_changed", tag),
			note("resources/updated", `"uri":"x:a",`+tag), note("resources/updated", `"uri":"x:b/1",`+tag), note("tasks", `"taskId":"t",`+task), over,
		}, ""},
		{"without an end", listen(all), []string{ack(``)}, ""},
		{"without an acknowledgement", listen(all), nil, "no reply"},
		{"refused", listen(all), []string{strings.Replace(failed, `1`, `"l"`, 1)}, ""},
		{"a part of it", listen(all), []string{ack(`"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["x:b"]`), note("tools/list_changed", tag)}, ""},
		{"more than asked for", listen(``), []string{ack(`"toolsListChanged":true`)}, "toolsListChanged is promised true"},
		{"more URIs than asked for", listen(all), []string{ack(`"resourceSubscriptions":["x:b","x:c"]`)}, "resourceSubscriptions is promised"},
		{"a change too early", listen(all), []string{note("tools/list_changed", tag), ack(all)}, "the acknowledgement comes first"},
		{"two acknowledgements", listen(all), []string{ack(all), ack(all)}, "and once"},
		{"a list that was not promised", listen(all), []string{ack(``), note("prompts/list_changed", tag)}, "was not promised"},
		{"another list", listen(all), []string{ack(`"toolsListChanged":true`), note("resources/list_changed", tag)}, "was not promised"},
		{"another resource", listen(all), []string{ack(all), note("resources/updated", `"uri":"x:c",`+tag)}, "was not promised"},
		{"another task", listen(all), []string{ack(all), note("tasks", `"taskId":"u",`+task)}, "was not promised"},
		{"progress of a subscription", listen(all), []string{ack(all), note("progress", `"progressToken":7,"progress":1,`+tag)}, "was not promised"},
		{"a log of a subscription", listen(all), []string{ack(all), log("info")}, "the subscription is"},
		{"another subscription's", listen(all), []string{ack(all), note("tools/list_changed", strings.Replace(tag, `"l"`, `"L"`, 1))}, `the subscription is "L", the request's id "l"`},
	}
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkText(t, schema.CheckStream([]byte(tt.request), raw(tt.messages)...), tt.want)
		})
	}
}

func raw(messages []string) [][]byte {
	out := make([][]byte, len(messages))
	for i, message := range messages {
		out[i] = []byte(message)
	}
	return out
}

// TestLegacyStreams carry what belongs to other requests, too, and questions.
func TestLegacyStreams(t *testing.T) {
	t.Parallel()
	schema := mcpschema.Load(t, mcpschema.Revision20251125)
	const request = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"p"}}}`
	const done = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
	const ask = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
	checkText(t, schema.CheckStream([]byte(request), raw([]string{
		note("message", `"level":"debug","data":1`), ask, note("progress", `"progressToken":"p","progress":1`), note("tools/list_changed", ``), done,
	})...), "")
	checkText(t, schema.CheckStream([]byte(request), raw([]string{note("progress", `"progressToken":"q","progress":1`), done})...), "the progressToken is")
	checkText(t, schema.CheckStream([]byte(request), raw([]string{note("tasks", ``), done})...), "unknown method")
}
