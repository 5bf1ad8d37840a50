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
	maxExamples       = 2         // of one field or message of an input
	maxResultExamples = 1         // of a result
	maxExampleBytes   = 1_024     // of one example: a model reads all of them on every turn
	maxCheckedBytes   = 256 << 10 // of a schema that examples are checked against
)

// examples are those that the schema accepts, in the form that it shows. A wrong one would teach a model to fail, so it is
// left out with a note.
func (d *deriver) examples(doc *object, texts []string, subject string, normal func(string) (json.RawMessage, bool)) []any {
	return d.someExamples(doc, texts, subject, maxExamples, d.takes, normal)
}

// someExamples are up to most of the examples that takes accepts for the schema.
func (d *deriver) someExamples(
	doc *object, texts []string, subject string, most int, takes func(*object, json.RawMessage) bool, normal func(string) (json.RawMessage, bool),
) []any {
	var out []any
	for _, text := range texts {
		value, ok := normal(text)
		switch {
		case len(out) == most:
			d.note("%s: an example is omitted: the limit is %d", subject, most)
		case len(text) > maxExampleBytes || len(value) > maxExampleBytes:
			d.note("%s: an example is omitted: the limit is %d bytes", subject, maxExampleBytes)
		case !ok || !takes(doc, value):
			d.note("%s: the example %s is omitted: the schema does not accept it", subject, quote(text))
		default:
			out = append(out, value)
		}
	}
	return out
}

// takes reports whether a schema accepts an example. One with references, which lead out of it, is not asked.
func (d *deriver) takes(doc *object, value json.RawMessage) bool {
	if bytes.Contains(appendJSON(nil, doc), []byte(`"$ref"`)) {
		return true
	}
	return d.takesWhole(doc, value)
}

// takesWhole reports whether a schema that has all that it refers to accepts an example. One that is too large to compile for
// this is not asked.
func (d *deriver) takesWhole(doc *object, value json.RawMessage) bool {
	raw := appendJSON(nil, doc)
	if len(raw) > maxCheckedBytes {
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
		m, ok := readExample(fd.ContainingMessage(), "{"+string(name)+":"+form+"}", Input)
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
func normalMessage(md protoreflect.MessageDescriptor, text string, dir Direction) (json.RawMessage, bool) {
	if len(text) > maxExampleBytes || !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return nil, false
	}
	m, ok := readExample(md, text, dir)
	if !ok {
		return nil, false
	}
	raw, err := writeExample(m)
	if err != nil {
		return nil, false
	}
	return compact(string(raw))
}

func readExample(md protoreflect.MessageDescriptor, text string, dir Direction) (protoreflect.Message, bool) {
	if len(Inspect([]byte(text), Bounds{})) > 0 {
		return nil, false
	}
	m := dynamicpb.NewMessage(md)
	if (protojson.UnmarshalOptions{AllowPartial: true, Resolver: (*protoregistry.Types)(nil)}).Unmarshal([]byte(text), m) != nil {
		return nil, false
	}
	withoutHidden(m, dir)
	return m, true
}

func writeExample(m protoreflect.Message) ([]byte, error) {
	return protojson.MarshalOptions{AllowPartial: true, Resolver: (*protoregistry.Types)(nil)}.Marshal(m.Interface())
}

// withoutHidden clears the fields that one direction does not have: examples of resources show them.
func withoutHidden(m protoreflect.Message, dir Direction) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case BehaviorOf(fd).Hides(dir):
			m.Clear(fd)
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { withoutHidden(v.Message(), dir); return true })
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				withoutHidden(v.List().Get(i).Message(), dir)
			}
		default:
			withoutHidden(v.Message(), dir)
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
