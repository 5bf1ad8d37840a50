// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Bounds of the examples that annotations have.
const (
	maxExamples     = 2         // of one field or message
	maxExampleBytes = 1_024     // of one example: a model reads all of them on every turn
	maxCheckedBytes = 256 << 10 // of a schema that examples are checked against
)

// examples are those that the schema accepts, in the form that it shows. A wrong one would teach a model to fail, so it is
// left out with a note.
func (d *deriver) examples(doc *object, texts []string, subject string, normal func(string) (json.RawMessage, bool)) []any {
	var out []any
	for _, text := range texts {
		value, ok := normal(text)
		switch {
		case len(out) == maxExamples:
			d.note("%s: an example is omitted: the limit is %d", subject, maxExamples)
		case len(text) > maxExampleBytes || len(value) > maxExampleBytes:
			d.note("%s: an example is omitted: the limit is %d bytes", subject, maxExampleBytes)
		case !ok || !d.takes(doc, value):
			d.note("%s: the example %s is omitted: the schema does not accept it", subject, quote(text))
		default:
			out = append(out, value)
		}
	}
	return out
}

// takes reports whether a schema accepts an example. One with references, which lead out of it, is not asked.
func (d *deriver) takes(doc *object, value json.RawMessage) bool {
	raw := appendJSON(nil, doc)
	if len(raw) > maxCheckedBytes || bytes.Contains(raw, []byte(`"$ref"`)) {
		return true
	}
	v, err := Compile(raw)
	if err != nil {
		return false
	}
	violations, err := v.Validate(value)
	return err == nil && len(violations) == 0
}

// normalExample is the example of a field as ProtoJSON writes it. Authors write strings without quotes, numbers in strings
// and one element for a list; all of it is understood.
func normalExample(fd protoreflect.FieldDescriptor, text string) (json.RawMessage, bool) {
	if fd.IsExtension() || len(text) > maxExampleBytes {
		return nil, false
	}
	quoted, _ := json.Marshal(text) //nolint:errchkjson // a string
	forms := []string{text, string(quoted)}
	if fd.IsList() {
		forms = append(forms, "["+text+"]", "["+string(quoted)+"]")
	}
	name, _ := json.Marshal(Names(fd)[0]) //nolint:errchkjson // a string
	for _, form := range forms {
		if !json.Valid([]byte(form)) {
			continue
		}
		m, ok := readExample(fd.ContainingMessage(), "{"+string(name)+":"+form+"}")
		if !ok {
			continue
		}
		if !m.Has(fd) {
			return compact(form) // the zero value, which ProtoJSON leaves out
		}
		var members map[string]json.RawMessage
		if raw, err := writeExample(m); err != nil || json.Unmarshal(raw, &members) != nil {
			return nil, false
		}
		for _, value := range members {
			return compact(string(value))
		}
	}
	return nil, false
}

// normalMessage is the example of a message as ProtoJSON writes it.
func normalMessage(md protoreflect.MessageDescriptor, text string) (json.RawMessage, bool) {
	if len(text) > maxExampleBytes || !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return nil, false
	}
	m, ok := readExample(md, text)
	if !ok {
		return nil, false
	}
	raw, err := writeExample(m)
	if err != nil {
		return nil, false
	}
	return compact(string(raw))
}

func readExample(md protoreflect.MessageDescriptor, text string) (protoreflect.Message, bool) {
	if len(Inspect([]byte(text), Bounds{})) > 0 {
		return nil, false
	}
	m := dynamicpb.NewMessage(md)
	if (protojson.UnmarshalOptions{AllowPartial: true, Resolver: (*protoregistry.Types)(nil)}).Unmarshal([]byte(text), m) != nil {
		return nil, false
	}
	withoutOutputs(m)
	return m, true
}

func writeExample(m protoreflect.Message) ([]byte, error) {
	return protojson.MarshalOptions{AllowPartial: true, Resolver: (*protoregistry.Types)(nil)}.Marshal(m.Interface())
}

// withoutOutputs clears the fields that an input does not have: examples of resources show them.
func withoutOutputs(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case BehaviorOf(fd).Hides(Input):
			m.Clear(fd)
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { withoutOutputs(v.Message()); return true })
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				withoutOutputs(v.List().Get(i).Message())
			}
		default:
			withoutOutputs(v.Message())
		}
		return true
	})
}

// compact is JSON without space between its tokens, which protojson adds at random.
func compact(text string) (json.RawMessage, bool) {
	var out bytes.Buffer
	if json.Compact(&out, []byte(text)) != nil {
		return nil, false
	}
	return out.Bytes(), true
}
