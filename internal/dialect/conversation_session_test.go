// SPDX-License-Identifier: Apache-2.0

package dialect_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// join has a message belong to the session, once there is one, as edges do.
func (c *conversation) join(in *dialect.Inbound) {
	switch {
	case !c.keeps:
	case c.session != nil:
		in.Session, in.Origin = c.session, c.session.Origin()
	default:
		in.Opened = func(s *session.Session) {
			c.session = s
			c.t.Cleanup(s.Release)
		}
	}
}

// answer answers the request that was heard last, where the script says so.
func (c *conversation) answer(action string, heard [][]byte) bool {
	c.t.Helper()
	verb, object, _ := strings.Cut(action, " ")
	rest := `"result":` + object
	switch verb {
	case "answer":
	case "refuse":
		rest = `"error":{"code":-1,"message":"` + object + `"}`
	default:
		return false
	}
	asked := jsonrpc.Parse(heard[len(heard)-1], jsonrpc.ProfileMCP, jsonrpc.Limits{})
	response := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":`+string(asked.ID.Raw())+`,`+rest+`}`), jsonrpc.ProfileMCP, jsonrpc.Limits{})
	if response.Fault != nil {
		c.t.Fatalf("%s: %s", action, response.Fault.Reason)
	}
	if err := c.session.Deliver(context.Background(), &response); err != nil {
		c.t.Errorf("%s: %v", action, err)
	}
	return true
}

// changed has the backend report what the lines say, as in a meanwhile, and
// renders what the session learns of each.
func (c *conversation) changed(script []byte) []byte {
	c.t.Helper()
	var out bytes.Buffer
	for line := range strings.Lines(string(script)) {
		c.act(nil, strings.TrimSpace(line))
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		change, err := c.session.NextChange(ctx)
		cancel()
		if err != nil {
			c.t.Fatalf("%s: %v", line, err)
		}
		c.render(&out, c.rig.Bridge.ChangeNotification(c.session, change))
	}
	return out.Bytes()
}

// conformChanges checks what a session hears while no message is answered.
func conformChanges(t *testing.T, schema *mcpschema.Schema, file string, want []byte) int {
	t.Helper()
	told := wantedBodies(t, file, append([]byte("\n"), want...))
	for _, message := range told {
		if err := schema.CheckMessage(mcpschema.FromServer, message); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	return len(told)
}
