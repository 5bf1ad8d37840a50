// SPDX-License-Identifier: Apache-2.0

package mcpschema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// CheckStream checks a client's request and everything that comes back for it,
// in its order: what notifications say must go with the request, and the reply
// ends the stream. A subscription need not have an end.
func (s *Schema) CheckStream(request []byte, messages ...[]byte) error {
	if err := s.CheckMessage(FromClient, request); err != nil {
		return err
	}
	c := conversation{schema: s, req: jsonrpc.Parse(request, jsonrpc.ProfileMCP, jsonrpc.Limits{})}
	for i, message := range messages {
		m := jsonrpc.Parse(message, jsonrpc.ProfileMCP, jsonrpc.Limits{})
		if m.Kind == jsonrpc.KindSuccess || m.Kind == jsonrpc.KindError {
			if rest := len(messages) - i - 1; rest > 0 {
				return s.errorf("%d messages behind the reply", rest)
			}
			return s.CheckReply(request, message)
		}
		if err := s.CheckMessage(FromServer, message); err != nil {
			return err
		}
		if err := c.next(&m); err != nil {
			return err
		}
	}
	if c.req.Method == methodListen && c.honoured != nil {
		return nil
	}
	return s.errorf("there is no reply")
}

// conversation is a request and what has come back for it so far.
type conversation struct {
	schema   *Schema
	req      jsonrpc.Message
	progress *float64
	// honoured are the notifications that a subscription was promised.
	honoured []byte
}

func (c *conversation) next(m *jsonrpc.Message) error {
	if c.req.Method == methodListen {
		return c.change(m)
	}
	switch m.Method {
	case "notifications/progress":
		return c.advance(m)
	case "notifications/message":
		return c.log(m)
	}
	if c.schema.modern {
		return c.schema.errorf("%s has no place beside %s", m.Method, c.req.Method)
	}
	return nil
}

// advance wants the token that was sent, and more progress than before.
func (c *conversation) advance(m *jsonrpc.Message) error {
	meta, _ := jsontext.Lookup(c.req.Params, "_meta")
	token, ok := jsontext.Lookup(meta, "progressToken")
	if !ok {
		return c.schema.errorf("progress, but the request has no progressToken")
	}
	want, err := jsonrpc.ParseID(token)
	if got, _ := jsontext.Lookup(m.Params, "progressToken"); err != nil || !sameID(got, want) {
		return c.schema.errorf("the progressToken is %s, the request's %s", got, token)
	}
	raw, _ := jsontext.Lookup(m.Params, "progress")
	now, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || c.progress != nil && now <= *c.progress {
		return c.schema.errorf("progress %s is not beyond the one before", raw)
	}
	c.progress = &now
	return nil
}

// levels returns the levels of logs, the least first.
func levels() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// log wants modern logs only where they were asked for, at the level asked for
// or above.
func (c *conversation) log(m *jsonrpc.Message) error {
	if !c.schema.modern {
		return nil
	}
	meta, _ := jsontext.Lookup(c.req.Params, "_meta")
	asked, ok := jsontext.Lookup(meta, "io.modelcontextprotocol/logLevel")
	if !ok {
		return c.schema.errorf("a log, but the request has no logLevel")
	}
	least, _ := jsontext.Text(asked)
	raw, _ := jsontext.Lookup(m.Params, "level")
	if level, _ := jsontext.Text(raw); slices.Index(levels(), level) < slices.Index(levels(), least) {
		return c.schema.errorf("a log of level %s, below %s", raw, asked)
	}
	return nil
}

// change wants a subscription acknowledged before anything else, and nothing on
// it that was not promised then.
func (c *conversation) change(m *jsonrpc.Message) error {
	if id := subscriptionID(m.Params); !sameID(id, c.req.ID) {
		return c.schema.errorf("%s: the subscription is %s, the request's id %s", m.Method, id, c.req.ID.Raw())
	}
	isAck := m.Method == "notifications/subscriptions/acknowledged"
	if isAck != (c.honoured == nil) {
		return c.schema.errorf("%s: the acknowledgement comes first, and once", m.Method)
	}
	if isAck {
		c.honoured, _ = jsontext.Lookup(m.Params, "notifications")
		return c.promised()
	}
	if !c.promises(m) {
		return c.schema.errorf("%s was not promised by %s", m.Method, c.honoured)
	}
	return nil
}

// promised wants no more than what was asked for.
func (c *conversation) promised() error {
	asked, _ := jsontext.Lookup(c.req.Params, "notifications")
	for name, value := range jsontext.Members(c.honoured) {
		wanted, _ := jsontext.Lookup(asked, name)
		ok := string(value) == "false" || string(value) == string(wanted)
		if strings.HasPrefix(string(value), "[") {
			ok = true
			for element := range jsontext.Elements(value) {
				text, _ := jsontext.Text(element)
				ok = ok && slices.Contains(texts(wanted), text)
			}
		}
		if !ok {
			return c.schema.errorf("%s is promised %s, but was asked for %s", name, value, wanted)
		}
	}
	return nil
}

func (c *conversation) promises(m *jsonrpc.Message) bool {
	has := func(name string) bool { v, _ := jsontext.Lookup(c.honoured, name); return string(v) == "true" }
	list := func(name string) []string { v, _ := jsontext.Lookup(c.honoured, name); return texts(v) }
	of := func(name string) string {
		v, _ := jsontext.Lookup(m.Params, name)
		text, _ := jsontext.Text(v)
		return text
	}
	switch m.Method {
	case "notifications/tools/list_changed":
		return has("toolsListChanged")
	case "notifications/prompts/list_changed":
		return has("promptsListChanged")
	case "notifications/resources/list_changed":
		return has("resourcesListChanged")
	case "notifications/resources/updated":
		// What is below a resource may be reported too.
		return slices.ContainsFunc(list("resourceSubscriptions"), func(uri string) bool { return strings.HasPrefix(of("uri"), uri) })
	case "notifications/tasks":
		return slices.Contains(list("taskIds"), of("taskId"))
	}
	return false
}

// texts are the strings of a JSON array.
func texts(array []byte) []string {
	var out []string
	for element := range jsontext.Elements(array) {
		text, _ := jsontext.Text(element)
		out = append(out, text)
	}
	return out
}
