// SPDX-License-Identifier: Apache-2.0

package native

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// settle brings the values of an answer that JSON has no form for into the nearest one, so that they cost nothing else of it. The
// explanation of a tool's result names the first of them.
func settle(answer proto.Message) {
	var result *outriggerv1.ToolResult
	switch a := answer.(type) {
	case *outriggerv1.ToolOutcome:
		result = a.GetResult()
	case *outriggerv1.ToolEvent:
		result = a.GetOutcome().GetResult()
	}
	if result != nil {
		for i, path := range mend(result) {
			text := path + " is a value that JSON does not have, shown as a word."
			if i == maxNamed {
				text = "More values like these follow."
			}
			if i <= maxNamed {
				result.Explanation = strings.TrimSpace(result.GetExplanation() + " " + text)
			}
		}
	}
	mend(answer)
}

// mend replaces the values that JSON has no form for in every google.protobuf.Value below a message: a number that is infinite or
// not a number by its name, and a Value without a kind by null. It returns the JSON Pointers of the first of them, in no order.
func mend(m proto.Message) (odd []string) {
	mender{&odd}.message(m.ProtoReflect(), "", 0)
	slices.Sort(odd)
	return odd
}

const (
	// maxNamed is how many values an explanation names.
	maxNamed = 4
	// maxMended bounds the pointers that mend returns.
	maxMended = 16
	// maxMendDepth bounds the messages in one another that mend looks into: more than a payload that can be passed on has, with
	// three for each level of JSON.
	maxMendDepth = 4 * defaults.MaxJSONDepth
)

type mender struct{ odd *[]string }

// message mends a message and all below it.
func (w mender) message(m protoreflect.Message, path string, depth int) {
	if depth > maxMendDepth {
		return
	}
	if v, ok := m.Interface().(*structpb.Value); ok {
		w.value(v, path)
	}
	var isJSON bool // its fields are no members
	switch m.Interface().(type) {
	case *structpb.Value, *structpb.ListValue, *structpb.Struct:
		isJSON = true
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := path
		if !isJSON {
			at += "/" + fd.JSONName()
		}
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
					w.message(v.Message(), at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k.String()), depth+1)
					return true
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				w.message(v.List().Get(i).Message(), at+"/"+strconv.Itoa(i), depth+1)
			}
		default:
			w.message(v.Message(), at, depth+1)
		}
		return true
	})
}

func (w mender) value(v *structpb.Value, path string) {
	switch kind := v.GetKind().(type) {
	case nil:
		v.Kind = &structpb.Value_NullValue{}
	case *structpb.Value_NumberValue:
		switch {
		case math.IsNaN(kind.NumberValue):
			v.Kind = &structpb.Value_StringValue{StringValue: "NaN"}
		case math.IsInf(kind.NumberValue, 1):
			v.Kind = &structpb.Value_StringValue{StringValue: "Infinity"}
		case math.IsInf(kind.NumberValue, -1):
			v.Kind = &structpb.Value_StringValue{StringValue: "-Infinity"}
		default:
			return
		}
	default:
		return
	}
	if len(*w.odd) < maxMended {
		*w.odd = append(*w.odd, path)
	}
}
