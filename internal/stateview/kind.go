// SPDX-License-Identifier: Apache-2.0

package stateview

import (
	"encoding/json"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/registrationstore"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
	"github.com/outrigger-mcp/outrigger/internal/sessionstore"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/taskstore"
)

// Kind is one kind of what replicas share.
type Kind struct {
	// Name is that of its bucket or stream, such as "tasks".
	Name string
	// Columns names what a list shows of a value beside its key, size, age and expiry.
	Columns []string
	// Removal is what it means to remove an entry. An empty one cannot be removed.
	Removal string

	// declare declares it with the options of a replica.
	declare func(*state.Inspector, *configv1.Config)
	// row returns the values of Columns.
	row func(value []byte, now time.Time) ([]string, error)
	// document returns the value as JSON, and hides in it what secret names, as paths of members.
	document func(value []byte) (json.RawMessage, error)
	secret   []string
}

// Kinds returns all kinds, in the order of lists.
func Kinds() []Kind {
	return []Kind{
		{
			Name: "tasks", Columns: []string{"state", "tool", "owner", "begun"},
			Removal: "the task is unknown to its caller from now on. If it runs, its work goes on to its end, and its result is lost: " +
				"cancel the task first (tasks/cancel) to stop the work",
			declare: func(i *state.Inspector, c *configv1.Config) {
				tasks, _ := taskstore.Buckets(settings.TaskStore(c))
				i.Bucket(tasks)
			},
			row: taskRow, document: taskDocument,
			secret: []string{
				"task.result", "task.error.data", "task.error.data_json", "task.input_requests", "answers", "origin", "again.wire", "again.header", "again.items", "again.headers",
			},
		},
		{
			Name: "owners", Columns: []string{"replica"},
			Removal: "the other replicas take this one for departed, and act on its running tasks at once: they run idempotent tools again and " +
				"end other tasks as failed, \"outcome unknown\". If it lives, it cancels its own work on them, and takes a new lease within a quarter of state.lease",
			declare: func(i *state.Inspector, c *configv1.Config) {
				_, owners := taskstore.Buckets(settings.TaskStore(c))
				i.Bucket(owners)
			},
			row: textRow, document: textDocument("replica"),
		},
		{
			Name: "sessions", Columns: []string{"client", "revision", "caller", "replica", "opened"},
			Removal: "the session ends at all replicas, as if its client had ended it (DELETE): the client's next request is HTTP 404, and it has to initialize again",
			declare: func(i *state.Inspector, c *configv1.Config) {
				sessions, _ := sessionstore.Places(settings.SessionStore(c))
				i.Bucket(sessions)
			},
			row: sessionRow, document: sessionDocument, secret: []string{"context.capabilities", "watched"},
		},
		{
			Name: "streams", Columns: []string{"number", "replica", "tool"},
			declare: func(i *state.Inspector, c *configv1.Config) {
				_, streams := sessionstore.Places(settings.SessionStore(c))
				i.Stream(streams)
			},
			row: sessionEventRow, document: sessionEventDocument, secret: []string{"message", "request_id", "span"},
		},
		{
			Name:    "consents",
			Removal: "the answer that was used can be used once more, until it expires",
			declare: func(i *state.Inspector, c *configv1.Config) { i.Once(settings.Consents(c.GetState())) },
			row:     noRow, document: markDocument,
		},
		{
			Name: "registrations", Columns: []string{"name", "version"},
			Removal: "all replicas unregister the tool within a second; calls of it that run go on",
			declare: func(i *state.Inspector, c *configv1.Config) {
				i.Bucket(registrationstore.Bucket(registrationstore.Options{MaxBytes: c.GetState().GetMaxRegistrationBytes()}))
			},
			row: registrationRow, document: registrationDocument, secret: []string{"examples"},
		},
		{
			Name: "switches", Columns: []string{"value"},
			Removal: "replicas that run keep what they have, and those that start begin with their configuration, until an operator switches again (POST /trust)",
			declare: func(i *state.Inspector, _ *configv1.Config) { i.Bucket(settings.Switches()) },
			row:     textRow, document: textDocument("value"),
		},
		{
			Name: "events", Columns: []string{"method"},
			declare: func(i *state.Inspector, c *configv1.Config) { i.Stream(settings.Events(c.GetState())) },
			row:     eventRow, document: eventDocument, secret: []string{"params"},
		},
	}
}

// Find returns a kind by its name.
func Find(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Names returns the names of all kinds.
func Names() []string {
	var out []string
	for _, k := range Kinds() {
		out = append(out, k.Name)
	}
	return out
}
