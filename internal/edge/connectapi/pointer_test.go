// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"errors"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

func TestPointer(t *testing.T) {
	t.Parallel()
	name := func(n string) *validate.FieldPathElement {
		return &validate.FieldPathElement{FieldName: proto.String(n)}
	}
	for _, tc := range []struct {
		want string
		path []*validate.FieldPathElement
	}{
		{"", nil},
		{"/a", []*validate.FieldPathElement{name("a")}},
		{"/a/0/b/k", []*validate.FieldPathElement{
			{FieldName: proto.String("a"), Subscript: &validate.FieldPathElement_Index{Index: 0}},
			{FieldName: proto.String("b"), Subscript: &validate.FieldPathElement_StringKey{StringKey: "k"}},
		}},
		{"/m/a~1b~0.c[0]/x", []*validate.FieldPathElement{
			{FieldName: proto.String("m"), Subscript: &validate.FieldPathElement_StringKey{StringKey: "a/b~.c[0]"}}, name("x"),
		}},
		{"/m/-7", []*validate.FieldPathElement{{FieldName: proto.String("m"), Subscript: &validate.FieldPathElement_IntKey{IntKey: -7}}}},
		{"/m/18446744073709551615", []*validate.FieldPathElement{
			{FieldName: proto.String("m"), Subscript: &validate.FieldPathElement_UintKey{UintKey: 1<<64 - 1}},
		}},
		{"/m/true", []*validate.FieldPathElement{{FieldName: proto.String("m"), Subscript: &validate.FieldPathElement_BoolKey{BoolKey: true}}}},
	} {
		if got := pointer(&validate.FieldPath{Elements: tc.path}); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
	if got := pointer(nil); got != "" {
		t.Errorf("no path: %q", got)
	}
}

func TestRuleErrorsAreInvalidParams(t *testing.T) {
	t.Parallel()
	got := ruleError(protovalidate.Validate(&outriggerv1.GetToolRequest{}))
	if got.Code != errmap.InvalidParams || len(got.Violations) != 1 || got.Violations[0].Path != "/tool_name" || got.Violations[0].Keyword == "" {
		t.Errorf("got %v %+v", got, got.Violations)
	}
	if got := ruleError(errors.New("the rules do not compile")); got.Code != errmap.InternalError {
		t.Errorf("got %v", got)
	}
}

// A reply is our own, so it parses; should one not, no code 0 leaves.
func TestAReplyThatDoesNotParseIsAnInternalError(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{`{`, `{"jsonrpc":"2.0","id":"1"}`, `7`} {
		failed := envelopeFrom([]byte(reply)).GetErrorResponse()
		if failed.GetError().GetCode() != -32603 || failed.GetError().GetMessage() == "" {
			t.Errorf("%s: got %v", reply, failed)
		}
	}
}

func TestCodecsPassOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []typedCodec{
		{codecProto, bridge.EncodingProtobuf, false}, {codecJSON, bridge.EncodingJSON, false}, {codecJSONCharset, bridge.EncodingJSON, true},
	} {
		var m message
		if err := c.Unmarshal([]byte("abc"), &m); err != nil || string(m.Bytes) != "abc" {
			t.Errorf("%s: %v %q", c.Name(), err, m.Bytes)
		}
		if out, err := c.Marshal(&m); err != nil || string(out) != "abc" {
			t.Errorf("%s: %v %q", c.Name(), err, out)
		}
		m.Encoding = 1 - m.Encoding
		if _, err := c.Marshal(&m); err == nil {
			t.Errorf("%s: a result in another encoding passes", c.Name())
		}
		if _, err := c.Marshal("x"); err == nil {
			t.Errorf("%s: marshals a string", c.Name())
		}
		if err := c.Unmarshal(nil, "x"); err == nil {
			t.Errorf("%s: unmarshals into a string", c.Name())
		}
	}
}
