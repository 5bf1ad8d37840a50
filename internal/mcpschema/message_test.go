// SPDX-License-Identifier: Apache-2.0

package mcpschema_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
)

// meta is the _meta of a modern request; capabilities are filled in.
func meta(capabilities string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
}

// checkText wants no error, or one with a text in it.
func checkText(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want an error with %q", err, want)
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	const modern, legacy = mcpschema.Revision20260728, mcpschema.Revision20251125
	const client, server = mcpschema.FromClient, mcpschema.FromServer
	subscribed := `"_meta":{"io.modelcontextprotocol/subscriptionId":1}`
	tests := []struct {
		name, revision string
		from           mcpschema.Direction
		message        string
		want           string // in the error; empty: it is valid
	}{
		// The envelope.
		{"a request", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta(`{}`) + `}}`, ""},
		{"a text id", modern, client, `{"jsonrpc":"2.0","id":"","method":"tools/list","params":{` + meta(`{}`) + `}}`, ""},
		{"id null", modern, client, `{"jsonrpc":"2.0","id":null,"method":"tools/list","params":{` + meta(`{}`) + `}}`, "not null"},
		{"id with a fraction", modern, client, `{"jsonrpc":"2.0","id":1.5,"method":"tools/list","params":{` + meta(`{}`) + `}}`, "fraction"},
		{"no version", modern, client, `{"id":1,"method":"tools/list","params":{` + meta(`{}`) + `}}`, "jsonrpc"},
		{"a member twice", modern, client, `{"jsonrpc":"2.0","id":1,"id":1,"method":"tools/list","params":{` + meta(`{}`) + `}}`, "appears twice"},
		{"not JSON", modern, client, `{`, "MCP 2026-07-28"},
		{"a batch", modern, client, `[{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta(`{}`) + `}}]`, "array"},
		{"a batch of 2025-11-25", legacy, client, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "array"},
		{"a batch of 2025-03-26", mcpschema.Revision20250326, client, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]`, ""},
		{"a batch with a fault", mcpschema.Revision20250326, client, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"nope"}]`, `unknown method "nope"`},
		{"an empty batch", mcpschema.Revision20250326, client, `[]`, "at least one message"},

		// Requests.
		{"an unknown method", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tools/lists","params":{` + meta(`{}`) + `}}`, `unknown method "tools/lists": this revision has no such request`},
		{"a method of another era", modern, client, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + meta(`{}`) + `}}`, `unknown method "ping"`},
		{"a method of a later era", legacy, client, `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, `unknown method "server/discover"`},
		{"no _meta", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, "missing property '_meta'"},
		{"no params", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "missing property 'params'"},
		{"ill-typed capabilities", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta(`[]`) + `}}`, "clientCapabilities"},
		{"ill-typed elicitation", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta(`{"elicitation":true}`) + `}}`, "elicitation"},
		{"unknown capabilities", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta(`{"roots":{"listChanged":true},"x":1}`) + `}}`, ""},
		{"arguments that are none", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":[],` + meta(`{}`) + `}}`, "arguments"},
		{"a request of the server's", modern, server, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`, `unknown method "elicitation/create"`},
		{"a client's request from the server", modern, server, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta(`{}`) + `}}`, "not for the server to send"},
		{"a ping from both", legacy, server, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, ""},
		{"a legacy request of the server's", legacy, server, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`, ""},
		{"it from the client", legacy, client, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`, "not for the client to send"},
		{"a task's request", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t",` + meta(`{}`) + `}}`, ""},
		{"a task's request without id", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{` + meta(`{}`) + `}}`, "missing property 'taskId'"},
		{"a task's answers", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"t","inputResponses":{"k":{"action":"accept","content":{"a":1}}},` + meta(`{}`) + `}}`, ""},
		{"a task's wrong answers", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"t","inputResponses":{"k":7},` + meta(`{}`) + `}}`, "inputResponses"},
		{"the earlier tasks' request", modern, client, `{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"t",` + meta(`{}`) + `}}`, `unknown method "tasks/result"`},

		// Notifications.
		{"an unknown notification", modern, server, `{"jsonrpc":"2.0","method":"notifications/x","params":{` + subscribed + `}}`, "no such notification"},
		{"a change", modern, server, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{` + subscribed + `}}`, ""},
		{"a change from the client", modern, client, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{` + subscribed + `}}`, "not for the client to send"},
		{"a change without a subscription", modern, server, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, "lacks io.modelcontextprotocol/subscriptionId"},
		{"a legacy change", legacy, server, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, ""},
		{"an update", modern, server, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:a",` + subscribed + `}}`, ""},
		{"an update of no URI", modern, server, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"no URI",` + subscribed + `}}`, "uri"},
		{"an acknowledgement", modern, server, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},` + subscribed + `}}`, ""},
		{"an acknowledgement of nothing", modern, server, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + subscribed + `}}`, "missing property 'notifications'"},
		{"a subscription null", modern, server, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":null}}}`, "subscriptionId"},
		{"progress", modern, server, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":0.5}}`, ""},
		{"progress without token", modern, server, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":0.5}}`, "missing property 'progressToken'"},
		{"a log of no level", modern, server, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"loud","data":1}}`, "level"},
		{"a cancellation", modern, client, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, ""},
		{"a cancellation of nothing", modern, client, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`, "missing property 'requestId'"},
		{"a task's change", modern, server, `{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + subscribed + `,"taskId":"t","status":"working","createdAt":"2026-11-20T10:00:00Z","lastUpdatedAt":"2026-11-20T10:00:00Z","ttlMs":null}}`, ""},
		{"a task's change that is not whole", modern, server, `{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + subscribed + `,"taskId":"t","status":"completed","createdAt":"2026-11-20T10:00:00Z","lastUpdatedAt":"2026-11-20T10:00:00Z","ttlMs":null}}`, "missing property 'result'"},

		// Responses.
		{"any result", modern, server, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","x":1}}`, ""},
		{"a result without type", modern, server, `{"jsonrpc":"2.0","id":1,"result":{}}`, "missing property 'resultType'"},
		{"a result of no type", modern, server, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"done"}}`, `no resultType "done"`},
		{"a result that is none", modern, server, `{"jsonrpc":"2.0","id":1,"result":[]}`, "object"},
		{"a result without id", modern, server, `{"jsonrpc":"2.0","result":{"resultType":"complete"}}`, "needs the id"},
		{"a client's response", modern, client, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`, "a client sends no responses"},
		{"a legacy client's response", legacy, client, `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, ""},
		{"a legacy result", legacy, server, `{"jsonrpc":"2.0","id":1,"result":{}}`, ""},
		{"a legacy result with a type", legacy, server, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`, "has resultType, which belongs to 2026-07-28"},
		{"a legacy result with a lifetime", legacy, server, `{"jsonrpc":"2.0","id":1,"result":{"tools":[],"ttlMs":1}}`, "has ttlMs"},
		{"a result of 2024-11-05", mcpschema.Revision20241105, server, `{"jsonrpc":"2.0","id":1,"result":{}}`, ""},

		// Errors.
		{"an error", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`, ""},
		{"an error without an id", modern, server, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}`, ""},
		{"an error with id null", modern, server, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`, "null"},
		{"an error without message", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601}}`, "message"},
		{"an error with half a code", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"no"}}`, "code"},
		{"an error without code", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"no"}}`, "other than 0"},
		{"a mismatch", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"no"}}`, ""},
		{"a missing capability", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"no","data":{"requiredCapabilities":{"elicitation":{}}}}}`, ""},
		{"missing capabilities as a list", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"no","data":{"requiredCapabilities":["elicitation"]}}}`, "requiredCapabilities"},
		{"a missing capability unnamed", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"no"}}`, "missing property 'data'"},
		{"a version", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"1"}}}`, ""},
		{"a version not repeated", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`, "missing property 'requested'"},
		{"a legacy code", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no"}}`, "no server may send the error code -32002"},
		{"another legacy code", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"no","data":{"elicitations":[]}}}`, "-32042"},
		{"a reserved code", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32099,"message":"no"}}`, "-32099"},
		{"a code of our own", modern, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-31014,"message":"no"}}`, ""},
		{"a legacy code in its era", legacy, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no"}}`, ""},
		{"a URL to be opened", legacy, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"no","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a","message":"?"}]}}}`, ""},
		{"a URL to be opened, not given", legacy, server, `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"no","data":{"elicitations":[{}]}}}`, "elicitations"},
		{"a legacy error without id", mcpschema.Revision20250618, server, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}`, "missing property 'id'"},
	}
	schemas := map[string]*mcpschema.Schema{}
	for _, revision := range mcpschema.Revisions() {
		schemas[revision] = mcpschema.Load(t, revision)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkText(t, schemas[tt.revision].CheckMessage(tt.from, []byte(tt.message)), tt.want)
		})
	}
}
