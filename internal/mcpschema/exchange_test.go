// SPDX-License-Identifier: Apache-2.0

package mcpschema_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
)

// What a client may declare.
const (
	none      = `{}`
	everybody = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

func TestModernExchanges(t *testing.T) {
	t.Parallel()
	const (
		cached = `"ttlMs":0,"cacheScope":"private"`
		task   = `"taskId":"t","status":"working","createdAt":"2026-11-20T10:00:00Z","lastUpdatedAt":"2026-11-20T10:00:00.5Z","ttlMs":3600000,"pollIntervalMs":1000`
		form   = `{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`
		url    = `{"method":"elicitation/create","params":{"mode":"url","message":"?","url":"https://a.example/"}}`
		sample = `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
		use    = `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}`
		roots  = `{"method":"roots/list"}`
	)
	ask := func(request string) string {
		return `{"resultType":"input_required","inputRequests":{"k":` + request + `}}`
	}
	status := func(status, more string) string {
		return `{"resultType":"complete",` + strings.Replace(task, "working", status, 1) + more + `}`
	}
	tests := []struct {
		name, method, params, capabilities, result string
		want                                       string // in the error; empty: it is valid
	}{
		{"a call", "tools/call", `"name":"a"`, none, `{"resultType":"complete","content":[]}`, ""},
		{"a call's value", "tools/call", `"name":"a"`, none, `{"resultType":"complete","content":[],"structuredContent":7}`, ""},
		{"no content", "tools/call", `"name":"a"`, none, `{"resultType":"complete"}`, "missing property 'content'"},
		{"content null", "tools/call", `"name":"a"`, none, `{"resultType":"complete","content":null}`, "content"},
		{"content of no type", "tools/call", `"name":"a"`, none, `{"resultType":"complete","content":[{"type":"video","data":""}]}`, "content"},
		{"bytes that are no base64", "tools/call", `"name":"a"`, none, `{"resultType":"complete","content":[{"type":"image","mimeType":"image/png","data":"a-_="}]}`, "byte"},
		{"base64 in lines", "tools/call", `"name":"a"`, none, `{"resultType":"complete","content":[{"type":"image","mimeType":"image/png","data":"aa\naa"}]}`, "line breaks"},
		{"bytes", "tools/call", `"name":"a"`, none, `{"resultType":"complete","content":[{"type":"image","mimeType":"image/png","data":"aGk="}]}`, ""},
		{"no resultType", "tools/call", `"name":"a"`, none, `{"content":[]}`, "missing property 'resultType'"},
		{"isError of no type", "tools/call", `"name":"a"`, none, `{"resultType":"complete","content":[],"isError":"no"}`, "isError"},
		{"an unnamed server", "tools/call", `"name":"a"`, none, `{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"a"}}}`, "missing property 'version'"},

		{"tools", "tools/list", ``, none, `{"resultType":"complete","tools":[{"name":"a","inputSchema":{"type":"object"}}],` + cached + `}`, ""},
		{"tools without lifetime", "tools/list", ``, none, `{"resultType":"complete","tools":[],"cacheScope":"public"}`, "missing property 'ttlMs'"},
		{"tools without scope", "tools/list", ``, none, `{"resultType":"complete","tools":[],"ttlMs":1}`, "missing property 'cacheScope'"},
		{"a scope that is none", "tools/list", ``, none, `{"resultType":"complete","tools":[],"ttlMs":1,"cacheScope":"shared"}`, "cacheScope"},
		{"a lifetime in the past", "tools/list", ``, none, `{"resultType":"complete","tools":[],"ttlMs":-1,"cacheScope":"public"}`, "ttlMs"},
		{"half a lifetime", "tools/list", ``, none, `{"resultType":"complete","tools":[],"ttlMs":0.5,"cacheScope":"public"}`, "ttlMs"},
		{"a tool without input", "tools/list", ``, none, `{"resultType":"complete","tools":[{"name":"a"}],` + cached + `}`, "missing property 'inputSchema'"},
		{"a tool whose input is no object", "tools/list", ``, none, `{"resultType":"complete","tools":[{"name":"a","inputSchema":{}}],` + cached + `}`, "missing property 'type'"},
		{"discovery", "server/discover", ``, none, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},` + cached + `}`, ""},
		{"discovery of nothing", "server/discover", ``, none, `{"resultType":"complete","capabilities":{},` + cached + `}`, "missing property 'supportedVersions'"},
		{"resources", "resources/list", ``, none, `{"resultType":"complete","resources":[{"uri":"x:a","name":"a"}],` + cached + `}`, ""},
		{"a resource without URI", "resources/list", ``, none, `{"resultType":"complete","resources":[{"uri":"a b","name":"a"}],` + cached + `}`, "uri"},
		{"templates", "resources/templates/list", ``, none, `{"resultType":"complete","resourceTemplates":[{"uriTemplate":"x:{a}","name":"a"}],` + cached + `}`, ""},
		{"a template that is none", "resources/templates/list", ``, none, `{"resultType":"complete","resourceTemplates":[{"uriTemplate":"x:{a","name":"a"}],` + cached + `}`, "uriTemplate"},
		{"bytes with a rest", "tools/call", `"name":"a"`, none, `{"resultType":"complete","content":[{"type":"image","mimeType":"image/png","data":"aaa="}]}`, "byte"},
		{"a resource", "resources/read", `"uri":"x:a"`, none, `{"resultType":"complete","contents":[{"uri":"x:a","text":""}],` + cached + `}`, ""},
		{"a resource without lifetime", "resources/read", `"uri":"x:a"`, none, `{"resultType":"complete","contents":[]}`, "ttlMs"},
		{"prompts", "prompts/list", ``, none, `{"resultType":"complete","prompts":[{"name":"a"}],` + cached + `}`, ""},
		{"a prompt", "prompts/get", `"name":"a"`, none, `{"resultType":"complete","messages":[{"role":"user","content":{"type":"text","text":""}}]}`, ""},
		{"a prompt's message of many blocks", "prompts/get", `"name":"a"`, none, `{"resultType":"complete","messages":[{"role":"user","content":[]}]}`, "content"},
		{"completion", "completion/complete", `"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"b","value":""}`, none, `{"resultType":"complete","completion":{"values":["c"]}}`, ""},
		{"much completion", "completion/complete", `"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"b","value":""}`, none, `{"resultType":"complete","completion":{"values":[""` + strings.Repeat(`,""`, 100) + `]}}`, "maxItems"},

		{"the end of a subscription", "subscriptions/listen", `"notifications":{}`, none, `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":7}}`, ""},
		{"of another one", "subscriptions/listen", `"notifications":{}`, none, `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"7"}}`, `the result's subscription is "7", the request's id 7`},
		{"of none", "subscriptions/listen", `"notifications":{}`, none, `{"resultType":"complete","_meta":{}}`, "subscriptionId"},

		{"a question", "tools/call", `"name":"a"`, everybody, ask(form), ""},
		{"only state", "tools/call", `"name":"a"`, none, `{"resultType":"input_required","requestState":""}`, ""},
		{"neither", "tools/call", `"name":"a"`, everybody, `{"resultType":"input_required"}`, "inputRequests, requestState or both"},
		{"a question and content", "tools/call", `"name":"a"`, everybody, `{"resultType":"input_required","requestState":"s","content":[]}`, "has no content"},
		{"a question with a lifetime", "resources/read", `"uri":"x:a"`, everybody, `{"resultType":"input_required","requestState":"s","ttlMs":0}`, "has no ttlMs"},
		{"a question of the wrong method", "tools/list", ``, everybody, ask(form), "tools/list may not be answered with input_required"},
		{"a question of no kind", "prompts/get", `"name":"a"`, everybody, ask(`{"method":"ping"}`), "inputRequests"},
		{"a form", "prompts/get", `"name":"a"`, `{"elicitation":{}}`, ask(form), ""},
		{"a form where only URLs are", "prompts/get", `"name":"a"`, `{"elicitation":{"url":{}}}`, ask(form), "asks for elicitation/create"},
		{"an undeclared form", "prompts/get", `"name":"a"`, none, ask(form), "do not declare"},
		{"a URL", "prompts/get", `"name":"a"`, `{"elicitation":{"url":{}}}`, ask(url), ""},
		{"a URL where only forms are", "prompts/get", `"name":"a"`, `{"elicitation":{}}`, ask(url), "asks for elicitation/create"},
		{"sampling", "prompts/get", `"name":"a"`, `{"sampling":{}}`, ask(sample), ""},
		{"undeclared sampling", "prompts/get", `"name":"a"`, none, ask(sample), "asks for sampling/createMessage"},
		{"sampling with tools", "prompts/get", `"name":"a"`, everybody, ask(use), ""},
		{"undeclared sampling with tools", "prompts/get", `"name":"a"`, `{"sampling":{}}`, ask(use), "asks for sampling/createMessage"},
		{"roots", "prompts/get", `"name":"a"`, everybody, ask(roots), ""},
		{"undeclared roots", "prompts/get", `"name":"a"`, `{"elicitation":{}}`, ask(roots), "asks for roots/list"},

		{"a task", "tools/call", `"name":"a"`, everybody, `{"resultType":"task",` + task + `}`, ""},
		{"a task for ever", "tools/call", `"name":"a"`, everybody, `{"resultType":"task",` + strings.Replace(task, "3600000", "null", 1) + `}`, ""},
		{"a task for who knows none", "tools/call", `"name":"a"`, none, `{"resultType":"task",` + task + `}`, "does not declare io.modelcontextprotocol/tasks"},
		{"a task of the wrong method", "prompts/get", `"name":"a"`, everybody, `{"resultType":"task",` + task + `}`, "only tools/call may become a task"},
		{"a task in a wrapper", "tools/call", `"name":"a"`, everybody, `{"resultType":"task","task":{` + task + `}}`, "missing properties"},
		{"a task with a result", "tools/call", `"name":"a"`, everybody, `{"resultType":"task",` + task + `,"result":{}}`, "/result"},
		{"a task with earlier names", "tools/call", `"name":"a"`, everybody, `{"resultType":"task",` + task + `,"pollInterval":1}`, "pollInterval"},
		{"a task without lifetime", "tools/call", `"name":"a"`, everybody, `{"resultType":"task",` + strings.Replace(task, "ttlMs", "ttl", 1) + `}`, "missing property 'ttlMs'"},
		{"a task of no time", "tools/call", `"name":"a"`, everybody, `{"resultType":"task",` + strings.Replace(task, "T10", " 10", 1) + `}`, "createdAt"},
		{"a task of no status", "tools/call", `"name":"a"`, everybody, `{"resultType":"task",` + strings.Replace(task, "working", "running", 1) + `}`, "status"},
		{"a look at a task", "tasks/get", `"taskId":"t"`, everybody, status("working", ``), ""},
		{"a look that calls itself a task", "tasks/get", `"taskId":"t"`, everybody, `{"resultType":"task",` + task + `}`, "only tools/call may become a task"},
		{"a look at a completed task", "tasks/get", `"taskId":"t"`, everybody, status("completed", `,"result":{"resultType":"complete","content":[],"isError":true}`), ""},
		{"without its result", "tasks/get", `"taskId":"t"`, everybody, status("completed", ``), "missing property 'result'"},
		{"with half a result", "tasks/get", `"taskId":"t"`, everybody, status("completed", `,"result":{"resultType":"complete"}`), "missing property 'content'"},
		{"with a result that asks", "tasks/get", `"taskId":"t"`, everybody, status("completed", `,"result":{"resultType":"input_required","content":[]}`), "resultType"},
		{"a result too early", "tasks/get", `"taskId":"t"`, everybody, status("working", `,"result":{"resultType":"complete","content":[]}`), "/result"},
		{"a look at a failed task", "tasks/get", `"taskId":"t"`, everybody, status("failed", `,"error":{"code":-32603,"message":"no"}`), ""},
		{"without its error", "tasks/get", `"taskId":"t"`, everybody, status("failed", ``), "missing property 'error'"},
		{"a look at a task that asks", "tasks/get", `"taskId":"t"`, everybody, status("input_required", `,"inputRequests":{"k":`+form+`}`), ""},
		{"without its questions", "tasks/get", `"taskId":"t"`, everybody, status("input_required", `,"inputRequests":{}`), "minProperties"},
		{"questions at its end", "tasks/get", `"taskId":"t"`, everybody, status("cancelled", `,"inputRequests":{"k":`+form+`}`), "/inputRequests"},
		{"a cancelled task", "tasks/cancel", `"taskId":"t"`, everybody, `{"resultType":"complete","_meta":{}}`, ""},
		{"a cancelled task shown", "tasks/cancel", `"taskId":"t"`, everybody, status("cancelled", ``), "additional properties"},
		{"an updated task", "tasks/update", `"taskId":"t","inputResponses":{}`, everybody, `{"resultType":"complete"}`, ""},
	}
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			params := meta(tt.capabilities)
			if tt.params != "" {
				params = tt.params + "," + params
			}
			request := `{"jsonrpc":"2.0","id":7,"method":"` + tt.method + `","params":{` + params + `}}`
			reply := `{"jsonrpc":"2.0","id":7,"result":` + tt.result + `}`
			checkText(t, schema.CheckExchange([]byte(request), []byte(reply)), tt.want)
		})
	}
}

func TestExchanges(t *testing.T) {
	t.Parallel()
	const modern, legacy = mcpschema.Revision20260728, mcpschema.Revision20251125
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta(none) + `}}`
	tests := []struct {
		name, revision, request, reply string
		want                           string // in the error; empty: it is valid
	}{
		{"another id", modern, list, `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"no"}}`, "the reply's id is 2, the request's 1"},
		{"an id of another type", modern, list, `{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"no"}}`, `the reply's id is "1", the request's 1`},
		{"no id", modern, list, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"no"}}`, "the reply's id is absent, the request's 1"},
		{"an error", modern, list, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`, ""},
		{"a wrong request", modern, strings.Replace(list, "tools", "tool", 1), `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`, `unknown method "tool/list"`},
		{"a notification", modern, list, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`, "the reply's id"},

		{"the handshake", legacy, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"x","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, ""},
		{"the handshake without a server", legacy, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"x","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`, "missing property 'serverInfo'"},
		{"a ping", legacy, `{"jsonrpc":"2.0","id":"","method":"ping"}`, `{"jsonrpc":"2.0","id":"","result":{ }}`, ""},
		{"a ping with more", legacy, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{"pong":1}}`, "the result of ping is to be {}"},
		{"a level", legacy, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, ""},
		{"a call", legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, ""},
		{"a call's value", legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":[]}}`, "structuredContent"},
		{"a call without content", legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, "missing property 'content'"},
		{"tools", legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"b":{}}}}]}}`, ""},
		{"a tool with a boolean schema", legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"b":true}}}]}}`, "inputSchema"},
		{"tools of another era", legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"result":{"tools":[],"cacheScope":"public"}}`, "has cacheScope"},
		{"a question of the server's", legacy, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`, `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, ""},
		{"answered with something else", legacy, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`, `{"jsonrpc":"2.0","id":1,"result":{"action":"maybe"}}`, "action"},
		{"roots of 2024-11-05", mcpschema.Revision20241105, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, `{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///a"}]}}`, ""},
		{"a call of 2025-06-18", mcpschema.Revision20250618, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link","uri":"x:a","name":"a"}]}}`, ""},
		{"a link before there were links", mcpschema.Revision20250326, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link","uri":"x:a","name":"a"}]}}`, "content"},
	}
	schemas := map[string]*mcpschema.Schema{}
	for _, revision := range mcpschema.Revisions() {
		schemas[revision] = mcpschema.Load(t, revision)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkText(t, schemas[tt.revision].CheckExchange([]byte(tt.request), []byte(tt.reply)), tt.want)
		})
	}
}

// TestRepliesToWrongRequests may be errors, and nothing else.
func TestRepliesToWrongRequests(t *testing.T) {
	t.Parallel()
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	const done = `"result":{"resultType":"complete"}}`
	tests := []struct{ name, request, reply, want string }{
		{"not JSON", `{`, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}`, ""},
		{"not JSON, with an id", `{`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"no"}}`, "the reply's id"},
		{"no id that counts", `{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}`, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}`, ""},
		{"an id, but no request", `{"jsonrpc":"2.0","id":1,"method":7}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}`, ""},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}`, ""},
		{"a response, with its id", `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}`, "the reply's id is 1, the request's absent"},
		{"a result for it", `{"jsonrpc":"2.0","id":1,"method":7}`, `{"jsonrpc":"2.0","id":1,` + done, "no valid request"},
		{"a result for an unknown method", `{"jsonrpc":"2.0","id":1,"method":"a"}`, `{"jsonrpc":"2.0","id":1,` + done, `unknown method "a": this revision has no result for it`},
		{"a wrong error", `{`, `{"jsonrpc":"2.0","error":{"code":-32002,"message":"no"}}`, "-32002"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkText(t, schema.CheckReply([]byte(tt.request), []byte(tt.reply)), tt.want)
		})
	}
}
