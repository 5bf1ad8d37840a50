// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

// An answer is what protojson writes, less every password, at any depth; and the output schemas admit it.
func TestAnswersHaveNoInputOnlyField(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	s := newSubject(t, files, shape(t, files, "shapes.v1.Secrets"))
	rapid.Check(t, func(t *rapid.T) {
		m := randomMessage(t, s, s.md, depthOfRandom+1)
		giveIDs(m)
		wire, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := s.message.ToJSON(nil, wire)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(doc, &got); err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		if err := json.Unmarshal([]byte(text(t, s, m)), &want); err != nil {
			t.Fatal(err)
		}
		dropPasswords(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("answer (-want +got):\n%s", diff)
		}
		admits(t, s.answer, doc, "canonical output schema")
		admits(t, s.shown, doc, "advertised output schema")
	})
}

// giveIDs satisfies the one rule of an Account's answer.
func giveIDs(m protoreflect.Message) {
	if fd := m.Descriptor().Fields().ByName("id"); fd != nil {
		m.Set(fd, protoreflect.ValueOfString("an id"))
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, e protoreflect.Value) bool { giveIDs(e.Message()); return true })
		case fd.IsList():
			for i := range v.List().Len() {
				giveIDs(v.List().Get(i).Message())
			}
		case fd.Message() != nil:
			giveIDs(v.Message())
		}
		return true
	})
}

func dropPasswords(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["displayName"]; ok { // an Account, not the map of them
			delete(v, "password")
		}
		for _, below := range v {
			dropPasswords(below)
		}
	case []any:
		for _, below := range v {
			dropPasswords(below)
		}
	}
}
