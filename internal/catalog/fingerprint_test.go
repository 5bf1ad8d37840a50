// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// TestTheDigestCoversWhatCallersSee changes one member of a tool after the other. A member that is new fails it until
// somebody has decided whether callers see it: listings are kept for as long as the digests stay.
func TestTheDigestCoversWhatCallersSee(t *testing.T) {
	t.Parallel()
	unseen := map[string]string{
		"In": "code", "Out": "code", "Stream": "code", "Declared": "code",
		"Input": "its digest represents it", "Output": "the same", "Words": "the input schema has them",
		"NativeName": "the backend's word for it", "CheckedBehind": "no listing shows it", "OutputNotObject": "follows from the method", "HeaderParams": "follow from the schema",
		"BytesField": "follows from the method", "Operation": "follows from the method", "Paging": "the description says it", "RequestID": "the input schema says it", "Classes": "views say what follows", "Verb": "the hints and the metadata say what follows", "Undescribed": "the description says it", "Continues": "follows from the name", "Compact": "follows from the name",
		"Registered": "no listing shows it", "Alias": "no listing shows it", "Base": "no listing shows it", "TaskUnsaid": "no listing shows it", "Errors": "no listing shows them", "Hidden": "no listing shows such a tool", "Unlisted": "no listing shows such a tool",
	}
	base := func() *Tool {
		return &Tool{Method: &Method{}, Input: schema.Fixed(&schema.Schema{}), Output: schema.Fixed(&schema.Schema{})}
	}
	unseen["Preview"], unseen["RequestID"], unseen["Classes"] = "no listing shows it", "the input schema says it", "views say what follows"
	digest := func(change func(*Tool)) [32]byte {
		tool := base()
		change(tool)
		if err := tool.seal(); err != nil {
			t.Fatal(err)
		}
		return tool.sealed
	}
	plain := digest(func(*Tool) {})
	values := map[reflect.Type]any{
		reflect.TypeFor[string]():              "x",
		reflect.TypeFor[bool]():                true,
		reflect.TypeFor[time.Duration]():       time.Second,
		reflect.TypeFor[[]string]():            []string{"x"},
		reflect.TypeFor[json.RawMessage]():     json.RawMessage(`{"x":1}`),
		reflect.TypeFor[[]Example]():           []Example{{Name: "x"}},
		reflect.TypeFor[[]*outriggerv1.Icon](): []*outriggerv1.Icon{{Src: "x"}},
		reflect.TypeFor[*bool]():               new(false),
		reflect.TypeFor[*int]():                new(1),
		reflect.TypeFor[*Preview]():            &Preview{Tool: &Tool{Method: &Method{}}},
	}
	var each func(path []int, of reflect.Type, name string)
	each = func(path []int, of reflect.Type, name string) {
		for i := range of.NumField() {
			f := of.Field(i)
			at := slices.Concat(path, []int{i})
			full := name + f.Name
			switch {
			case !f.IsExported() || unseen[full] != "":
				continue
			case f.Type.Kind() == reflect.Struct:
				each(at, f.Type, full+".")
				continue
			case full == "Method":
				continue
			}
			value, ok := values[f.Type]
			if !ok {
				t.Errorf("%s: no value to change it to", full)
				continue
			}
			if digest(func(tool *Tool) { reflect.ValueOf(tool).Elem().FieldByIndex(at).Set(reflect.ValueOf(value)) }) == plain {
				t.Errorf("the digest does not cover %s", full)
			}
		}
	}
	each(nil, reflect.TypeFor[Tool](), "")
	for what, change := range map[string]func(*Tool){
		"the procedure":         func(tool *Tool) { tool.Method.Procedure = "/a.B/C" },
		"a stream of requests":  func(tool *Tool) { tool.Method.ClientStreaming = true },
		"a stream of responses": func(tool *Tool) { tool.Method.ServerStreaming = true },
		"the input schema":      func(tool *Tool) { tool.Input = schema.Fixed(&schema.Schema{Advertised: json.RawMessage(`{}`)}) },
		"the output schema":     func(tool *Tool) { tool.Output = schema.Fixed(&schema.Schema{Advertised: json.RawMessage(`{}`)}) },
	} {
		if digest(change) == plain {
			t.Errorf("the digest does not cover %s", what)
		}
	}
	if digest(func(tool *Tool) { tool.Name, tool.MCPName = "ab", "c" }) == digest(func(tool *Tool) { tool.Name, tool.MCPName = "a", "bc" }) {
		t.Error("one member runs into the next")
	}
}

// TestTheFingerprintIsThatOfTheTools adds the same tools in different portions, and others.
func TestTheFingerprintIsThatOfTheTools(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tools := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) *Tool {
			tool := &Tool{}
			copy(tool.sealed[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
			return tool
		}), 1, 50, func(tool *Tool) [32]byte { return tool.sealed }).Draw(t, "tools")
		whole := digests{}.with(tools)
		var parts digests
		shuffled := rapid.Permutation(tools).Draw(t, "order")
		for len(shuffled) > 0 {
			n := rapid.IntRange(1, len(shuffled)).Draw(t, "portion")
			before, sum := parts, parts.sum()
			parts = parts.with(shuffled[:n])
			if before.sum() != sum || parts.sum() == sum {
				t.Fatal("the digests before have changed, or the fingerprint has not")
			}
			shuffled = shuffled[n:]
		}
		if whole.sum() != parts.sum() {
			t.Fatal("the fingerprint depends on the way in which the tools came")
		}
	})
}
