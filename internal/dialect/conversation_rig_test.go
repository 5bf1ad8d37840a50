// SPDX-License-Identifier: Apache-2.0

package dialect_test

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// rigs are what is behind conversations: one of each kind, for all in which
// nothing is reported as changed. Their sidecars are their own.
type rigs struct {
	t  *testing.T // that of all conversations
	mu sync.Mutex
	by map[string]*mcptest.Rig
}

// behind starts a rig of a kind.
func behind(t *testing.T, kind string, start mcptest.Options) *mcptest.Rig {
	t.Helper()
	switch kind {
	case "demo":
	case "desk":
		start.Native, start.NoDemo = mcptest.Desk(), true
	case "demo and desk":
		start.Native = mcptest.Desk()
	case "tools":
		start.Native, start.NoDemo = &mcptest.Native{Tools: mcptest.Desk().Tools}, true
	default:
		t.Fatalf("rig: nothing is behind %q", kind)
	}
	return mcptest.Start(t, start)
}

// shared is behind with backends that others use too.
func (r *rigs) shared(t *testing.T, kind string, o mcptest.Options) *mcptest.Rig {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[kind] == nil {
		r.by[kind] = behind(r.t, kind, mcptest.Options{})
	}
	return r.by[kind].With(t, o.Configure, o.Adjust)
}

// open makes ready what a conversation asks for, line by line:
//
//	behind: demo | desk | demo and desk | tools
//	pages of: 2
//	gate: asks
//	over: stdio
//	sessions: kept
//	named: by its services
//
// Where it asks for nothing, it is in front of the demo service.
func (c *conversation) open(rigs *rigs, text []byte, isShared bool) {
	c.t.Helper()
	kind := "demo"
	config := conversationConfig()
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case name == "behind":
			kind = value
		case name == "gate" && value == "asks":
			config.Destructive = proto.String("confirm")
		case name == "over" && value == "stdio":
			c.isStdio = true
		case name == "named" && value == "by its services":
			config.Server = nil
		case name == "sessions" && value == "kept":
			c.keeps = true
		default:
			size, err := strconv.ParseInt(value, 10, 32)
			if name != "pages of" || err != nil {
				c.t.Fatalf("rig: what is %q?", line)
			}
			config.Limits = &configv1.Limits{MaxPageEntries: proto.Int32(int32(size))}
		}
	}
	o := mcptest.Options{Adjust: mcptest.Fixed(c.t), Configure: func(c *configv1.Config) {
		// No header that a caller chooses goes on, so that lists are the same for all.
		c.Backend.Metadata.Inbound = nil
		proto.Merge(c, config)
	}}
	if isShared {
		c.rig = rigs.shared(c.t, kind, o)
	} else {
		c.rig = behind(c.t, kind, o)
	}
}

// meanwhile does what the script says while a message is answered, line by line,
// and returns what was heard until then. The first line waits for a notification,
// each other for that of the line before:
//
//	tools | prompts | resources    the backend reports that the list changed
//	resource URI                   it reports that the contents changed
//	task ID                        it reports the next state of a task
//	unheard ...                    one of these, of which nothing is heard
//	end                            the sidecar ends all streams
//	cancel                         the caller cancels the request
//	answer RESULT                  the caller answers the request that was heard last
//	refuse WHY                     the caller answers it with an error
func (c *conversation) meanwhile(in *dialect.Inbound, script []byte, told <-chan []byte) [][]byte {
	c.t.Helper()
	var heard [][]byte
	waits := true
	for line := range strings.Lines(string(script)) {
		if waits {
			heard = append(heard, <-told)
		}
		action, isUnheard := strings.CutPrefix(strings.TrimSpace(line), "unheard ")
		waits = !isUnheard
		if !c.answer(action, heard) {
			c.act(in, action)
		}
	}
	return heard
}

func (c *conversation) act(in *dialect.Inbound, action string) {
	c.t.Helper()
	verb, object, _ := strings.Cut(action, " ")
	change := &outriggerv1.Notification{}
	switch verb {
	case "end":
		c.rig.Bridge.Offers().Feed().Close()
		return
	case "cancel":
		c.cancel(in)
		return
	case "tools", "prompts", "resources":
		change.Method = "notifications/" + verb + "/list_changed"
	case "resource":
		change.Method = "notifications/resources/updated"
		change.ParamsForm = &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(`{"uri":` + strconv.Quote(object) + `}`)}
	case "task":
		change.Method = "notifications/tasks"
		change.ParamsForm = &outriggerv1.Notification_Task{Task: c.rig.Native.Advance(object)}
	default:
		c.t.Fatalf("meanwhile: what is %q?", action)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	if err := c.rig.Native.Announce(ctx, change); err != nil {
		c.t.Fatal(err)
	}
}

// cancel sends the cancellation of a request the way its transport wants it.
func (c *conversation) cancel(in *dialect.Inbound) {
	c.t.Helper()
	body := bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), in.Message.ID.Raw(), []byte(`}}`)}, nil)
	msg := jsonrpc.Parse(body, c.profile, jsonrpc.Limits{})
	reply := c.rig.Bridge.HandleMessage(c.t.Context(), &dialect.Inbound{Dialect: c.dialect, Origin: in.Origin, Message: &msg})
	if reply.Bytes() != nil {
		c.t.Errorf("a notification was answered: %s", reply.Bytes())
	}
}
