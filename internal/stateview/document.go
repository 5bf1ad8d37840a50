// SPDX-License-Identifier: Apache-2.0

package stateview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
)

// Document returns a value as JSON. Unless reveal is set, arguments, results and secrets are replaced by their size, and the
// paths of what was replaced are returned.
func (k Kind) Document(value []byte, reveal bool) (document json.RawMessage, redacted []string, err error) {
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
		if redact(members, path) {
			redacted = append(redacted, path)
		}
	}
	text, err = json.Marshal(members)
	return text, redacted, err
}

// redact replaces a member by its size, and reports whether there was one.
func redact(members map[string]any, path string) bool {
	name, rest, deeper := strings.Cut(path, ".")
	value, ok := members[name]
	if !ok {
		return false
	}
	if deeper {
		inner, ok := value.(map[string]any)
		return ok && redact(inner, rest)
	}
	size := 0
	if text, err := json.Marshal(value); err == nil {
		size = len(text)
	}
	members[name] = fmt.Sprintf("[redacted: %d bytes]", size)
	return true
}

// Row returns the values of [Kind.Columns].
func (k Kind) Row(value []byte, now time.Time) ([]string, error) { return k.row(value, now) }

func messageJSON(m proto.Message) (json.RawMessage, error) {
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
}

func taskRow(value []byte, now time.Time) ([]string, error) {
	var r statev1.TaskRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	begun := "-"
	if at := r.GetTask().GetCreatedAt(); at != nil {
		begun = age(at.AsTime(), now)
	}
	owner := r.GetOwner()
	if owner == "" {
		owner = "-"
	}
	return []string{enumText(r.GetTask().GetStatus()), r.GetTool(), owner, begun}, nil
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
	text, err := messageJSON(&r)
	if err != nil || len(again) == 0 {
		return text, err
	}
	var call statev1.TaskCall
	if err := proto.Unmarshal(again, &call); err != nil {
		return nil, fmt.Errorf("tasks: the call in it: %w", err)
	}
	inner, err := messageJSON(&call)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	members["again"] = inner
	return json.Marshal(members)
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
	schemas := map[string][]byte{"input_schema": r.GetInputSchema(), "output_schema": r.GetOutputSchema()}
	r.InputSchema, r.OutputSchema = nil, nil
	text, err := messageJSON(&r)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	for name, schema := range schemas {
		if json.Valid(schema) {
			members[name] = schema
		}
	}
	return json.Marshal(members)
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

// markDocument is for an answer that was used: its value only tells one use from another.
func markDocument([]byte) (json.RawMessage, error) { return json.RawMessage(`{"used":true}`), nil }

// age is the time since a moment, in whole seconds.
func age(since, now time.Time) string { return max(now.Sub(since), 0).Truncate(time.Second).String() }
