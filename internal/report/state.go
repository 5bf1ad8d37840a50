// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/state/registrationstore"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
)

// StateKind is one kind of what replicas share.
type StateKind struct {
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

// StateKinds returns all kinds, in the order of lists.
func StateKinds() []StateKind {
	return []StateKind{
		{
			Name: "tasks", Columns: []string{"state", "tool", "owner", "begun"},
			Removal: "the task is unknown to its caller from now on. If it runs, its work goes on to its end, and its result is lost: " +
				"cancel the task first (tasks/cancel) to stop the work",
			declare: func(i *state.Inspector, c *configv1.Config) {
				tasks, _ := taskstore.Buckets(taskstore.OptionsOf(c))
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
				_, owners := taskstore.Buckets(taskstore.OptionsOf(c))
				i.Bucket(owners)
			},
			row: textRow, document: textDocument("replica"),
		},
		{
			Name:    "ended",
			Removal: "the id of the legacy session that its client ended is valid again at replicas that start from now on, until it expires",
			declare: func(i *state.Inspector, _ *configv1.Config) { i.Bucket(session.EndedBucket()) },
			row:     noRow, document: markDocument("ended"),
		},
		{
			Name:    "consents",
			Removal: "the answer that was used can be used once more, until it expires",
			declare: func(i *state.Inspector, c *configv1.Config) { i.Once(state.Consents(c.GetState())) },
			row:     noRow, document: markDocument("used"),
		},
		{
			Name:    "answers",
			Removal: "who repeats the call with its idempotency key runs it again",
			declare: func(i *state.Inspector, c *configv1.Config) { i.Bucket(state.Answers(c)) },
			row:     noRow, document: markDocument("kept"),
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
			declare: func(i *state.Inspector, _ *configv1.Config) { i.Bucket(state.Switches()) },
			row:     textRow, document: textDocument("value"),
		},
		{
			Name: "events", Columns: []string{"method"},
			declare: func(i *state.Inspector, c *configv1.Config) { i.Stream(state.Events(c.GetState())) },
			row:     eventRow, document: eventDocument, secret: []string{"params"},
		},
		{
			Name: "approvals", Columns: []string{"state", "tool", "requester", "rule"},
			Removal: "the call is as if it had never been asked about: its caller asks again, also where it was denied or is being run, " +
				"so that it may run twice. To end it, deny it (`sidecar approvals deny`)",
			declare: func(i *state.Inspector, _ *configv1.Config) { i.Bucket(approval.Bucket()) },
			row:     approvalRow, document: approvalDocument, secret: []string{"arguments_json", "preview", "call"},
		},
	}
}

// FindStateKind returns a kind by its name.
func FindStateKind(name string) (StateKind, bool) {
	for _, k := range StateKinds() {
		if k.Name == name {
			return k, true
		}
	}
	return StateKind{}, false
}

// StateKindNames returns the names of all kinds.
func StateKindNames() []string {
	var out []string
	for _, k := range StateKinds() {
		out = append(out, k.Name)
	}
	return out
}

// OpenState connects to the state of a deployment as its replicas do, and declares all kinds. It makes nothing.
func OpenState(cfg *configv1.Config) (*state.Inspector, error) {
	keys, err := keys.LoadKeys(cfg.GetState().GetKeyFile())
	if err != nil {
		return nil, &StateKeyError{err}
	}
	i, err := state.Inspect(state.Options{Config: cfg.GetState(), Sealer: state.NewSealer(cfg.GetLimits(), keys)})
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it means
	}
	for _, k := range StateKinds() {
		k.declare(i, cfg)
	}
	i.Channel(session.ChannelName)
	return i, nil
}

// StateKeyError means that the file of --state-key cannot be used.
type StateKeyError struct{ err error }

func (e *StateKeyError) Error() string { return fmt.Sprintf("--state-key: %v", e.err) }
func (e *StateKeyError) Unwrap() error { return e.err }

// Document returns a value as JSON. Unless reveal is set, arguments, results and secrets are replaced by their size, and the
// paths of what was replaced are returned.
func (k StateKind) Document(value []byte, reveal bool) (document json.RawMessage, redacted []string, err error) {
	text, err := k.document(value)
	if err != nil || reveal || len(k.secret) == 0 {
		return text, nil, err
	}
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // 64-bit numbers stay as they are
	if err := decoder.Decode(&members); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	for _, path := range k.secret {
		if redactMembers(members, path) {
			redacted = append(redacted, path)
		}
	}
	text, err = json.Marshal(members)
	return text, redacted, err
}

// redactMembers replaces a member by its size, and reports whether there was one.
func redactMembers(members map[string]any, path string) bool {
	name, rest, deeper := strings.Cut(path, ".")
	value, ok := members[name]
	if !ok {
		return false
	}
	if deeper {
		inner, ok := value.(map[string]any)
		return ok && redactMembers(inner, rest)
	}
	size := 0
	if text, err := json.Marshal(value); err == nil {
		size = len(text)
	}
	members[name] = fmt.Sprintf("[redacted: %d bytes]", size)
	return true
}

// Row returns the values of [StateKind.Columns].
func (k StateKind) Row(value []byte, now time.Time) ([]string, error) { return k.row(value, now) }

// messageJSON is a message as JSON, sorted if more members are added to it.
func messageJSON(m proto.Message, more map[string]json.RawMessage) (json.RawMessage, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil || more == nil {
		return text, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	maps.Copy(members, more)
	return json.Marshal(members)
}

func taskRow(value []byte, now time.Time) ([]string, error) {
	var r statev1.TaskRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	begun := "-"
	if at := r.GetTask().GetCreatedAt(); at != nil {
		begun = stateAge(at.AsTime(), now)
	}
	return []string{enumText(r.GetTask().GetStatus()), r.GetTool(), cmp.Or(r.GetOwner(), "-"), begun}, nil
}

// enumText is a value of an enum without its prefix: TASK_STATUS_INPUT_REQUIRED is input_required.
func enumText(e protoreflect.Enum) string {
	value := e.Descriptor().Values().ByNumber(e.Number())
	if value == nil {
		return fmt.Sprint(e.Number())
	}
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), "TASK_STATUS_"))
}

// taskDocument is a record with the call in it that could be made again.
func taskDocument(value []byte) (json.RawMessage, error) {
	var r statev1.TaskRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	again := r.GetAgain()
	r.Again = nil
	if len(again) == 0 {
		return messageJSON(&r, nil)
	}
	var call statev1.TaskCall
	if err := proto.Unmarshal(again, &call); err != nil {
		return nil, fmt.Errorf("tasks: the call in it: %w", err)
	}
	inner, err := messageJSON(&call, nil)
	if err != nil {
		return nil, err
	}
	return messageJSON(&r, map[string]json.RawMessage{"again": inner})
}

func approvalRow(value []byte, _ time.Time) ([]string, error) {
	var r statev1.ApprovalRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	return []string{r.GetState(), r.GetTool(), r.GetRequester(), r.GetRule()}, nil
}

func approvalDocument(value []byte) (json.RawMessage, error) {
	var r statev1.ApprovalRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	return messageJSON(&r, nil)
}

func registrationRow(value []byte, _ time.Time) ([]string, error) {
	var r statev1.RegistrationRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("registrations: %w", err)
	}
	return []string{r.GetName(), r.GetVersion()}, nil
}

// registrationDocument shows the schemas as what they are.
func registrationDocument(value []byte) (json.RawMessage, error) {
	var r statev1.RegistrationRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("registrations: %w", err)
	}
	schemas := map[string]json.RawMessage{"input_schema": r.GetInputSchema(), "output_schema": r.GetOutputSchema()}
	r.InputSchema, r.OutputSchema = nil, nil
	maps.DeleteFunc(schemas, func(_ string, schema json.RawMessage) bool { return !json.Valid(schema) })
	return messageJSON(&r, schemas)
}

func eventRow(value []byte, _ time.Time) ([]string, error) {
	var r statev1.EventRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return []string{r.GetMethod()}, nil
}

func eventDocument(value []byte) (json.RawMessage, error) {
	var r statev1.EventRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	members := map[string]json.RawMessage{}
	var err error
	if members["method"], err = json.Marshal(r.GetMethod()); err != nil {
		return nil, err
	}
	if json.Valid(r.GetParams()) {
		members["params"] = r.GetParams()
	}
	return json.Marshal(members)
}

// textRow is for kinds whose value is a text.
func textRow(value []byte, _ time.Time) ([]string, error) { return []string{string(value)}, nil }

func textDocument(name string) func([]byte) (json.RawMessage, error) {
	return func(value []byte) (json.RawMessage, error) {
		return json.Marshal(map[string]string{name: string(value)})
	}
}

// noRow is for kinds whose value says nothing to people.
func noRow([]byte, time.Time) ([]string, error) { return nil, nil }

// markDocument is for a key whose value says nothing of interest.
func markDocument(what string) func([]byte) (json.RawMessage, error) {
	return func([]byte) (json.RawMessage, error) { return json.RawMessage(`{"` + what + `":true}`), nil }
}

// stateAge is the time since a moment, in whole seconds.
func stateAge(since, now time.Time) string {
	return max(now.Sub(since), 0).Truncate(time.Second).String()
}
