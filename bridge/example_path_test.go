// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// shapes has an RPC for each shape of result.
const shapes = `name: "shapes.proto" package: "shapes.v1" syntax: "proto3" dependency: "google/protobuf/struct.proto"
message_type { name: "In" }
message_type { name: "Thing"
  field { name: "note" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "note" }
  field { name: "thing_id" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL json_name: "thingId" }
  field { name: "display_name" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "displayName" } }
message_type { name: "Things"
  field { name: "total" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "total" }
  field { name: "things" number: 2 type: TYPE_MESSAGE type_name: ".shapes.v1.Thing" label: LABEL_REPEATED json_name: "things" } }
message_type { name: "Stock"
  field { name: "by_shelf" number: 1 type: TYPE_MESSAGE type_name: ".shapes.v1.Stock.ByShelfEntry" label: LABEL_REPEATED json_name: "byShelf" }
  nested_type { name: "ByShelfEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "key" }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".shapes.v1.Things" label: LABEL_OPTIONAL json_name: "value" } } }
message_type { name: "Event"
  field { name: "note" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "note" }
  field { name: "thing" number: 2 type: TYPE_MESSAGE type_name: ".shapes.v1.Thing" label: LABEL_OPTIONAL json_name: "thing" oneof_index: 0 }
  field { name: "name" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "name" oneof_index: 0 }
  oneof_decl { name: "what" } }
message_type { name: "Events"
  field { name: "events" number: 1 type: TYPE_MESSAGE type_name: ".shapes.v1.Event" label: LABEL_REPEATED json_name: "events" } }
message_type { name: "Node"
  field { name: "children" number: 1 type: TYPE_MESSAGE type_name: ".shapes.v1.Node" label: LABEL_REPEATED json_name: "children" }
  field { name: "size" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "size" }
  field { name: "title" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "title" } }
message_type { name: "Ids"
  field { name: "ids" number: 1 type: TYPE_STRING label: LABEL_REPEATED json_name: "ids" }
  field { name: "total_size" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "totalSize" } }
message_type { name: "Text"
  field { name: "text" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "text" } }
service { name: "Shapes"
  method { name: "Things" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Things" }
  method { name: "Stock" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Stock" }
  method { name: "Events" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Events" }
  method { name: "Tree" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Node" }
  method { name: "Ids" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Ids" }
  method { name: "Text" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Text" }
  method { name: "Values" input_type: ".shapes.v1.In" output_type: ".google.protobuf.ListValue" }
  method { name: "Free" input_type: ".shapes.v1.In" output_type: ".google.protobuf.Struct" } }`

// shaped is a bridge whose tools answer with the given JSON, each method with its own.
func shaped(t *testing.T, answers map[string]string, o bridge.Options) *dialect.Handler {
	t.Helper()
	file := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(shapes), file); err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(structpb.File_google_protobuf_struct_proto), file}}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	found, err := files.FindDescriptorByName("shapes.v1.Shapes")
	if err != nil {
		t.Fatal(err)
	}
	service, _ := found.(protoreflect.ServiceDescriptor)
	live := catalog.NewLive([]source.Source{source.NewDescriptors("test", set, "shapes.v1.Shapes")}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	upstream := func(_ context.Context, m *catalog.Method, _ []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
		name := m.Procedure[strings.LastIndexByte(m.Procedure, '/')+1:]
		out := dynamicpb.NewMessage(service.Methods().ByName(protoreflect.Name(name)).Output())
		if err := protojson.Unmarshal([]byte(answers[name]), out); err != nil {
			return nil, errmap.Wrap(errmap.InternalError, err)
		}
		wire, err := proto.Marshal(out)
		if err != nil {
			return nil, errmap.Wrap(errmap.InternalError, err)
		}
		return &bridge.Answer{Body: wire}, nil
	}
	return dialect.New(bridge.New(live, mcptest.Upstream(upstream), correlate.New(correlate.Options{}), o), dialect.Options{})
}

// many are so many elements of a list in JSON.
func many(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// exampleMember is the member of _meta that a text about a cut shows.
var exampleMember = regexp.MustCompile(`in _meta, such as ("dev\.outrigger/fields": ".*")\.`)

// The field that the text about a cut names is one of the result's own: a call that names it has a smaller result.
func TestTheTextOfACutNamesAFieldOfItsResult(t *testing.T) {
	t.Parallel()
	const budget = 300
	thing := `{"note":"` + strings.Repeat("n", 40) + `","thingId":"7","displayName":"seven"}`
	things := many(20, thing)
	node := `{"size":3,"title":"leaf"}`
	for range 3 {
		node = `{"size":4,"title":"branch","children":` + many(4, node) + `}`
	}
	for method, tc := range map[string]struct{ answer, want string }{
		"Things": {`{"total":20,"things":` + things + `}`, "things.displayName"},
		"Stock":  {`{"byShelf":{"a.1":{"things":` + things + `},"b":{"total":5}}}`, "byShelf.*.things.displayName"},
		"Events": {`{"events":[{"note":"n","thing":` + thing + `},` + strings.Trim(many(20, `{"note":"a longer note","name":"x"}`), "[]") + `]}`, "events.name"},
		"Tree":   {node, "children.title"},
		"Ids":    {`{"ids":` + many(90, `"id"`) + `,"totalSize":90}`, "totalSize"},
		"Text":   {`{"text":"` + strings.Repeat("x", 400) + `"}`, ""},
		"Values": {many(20, `{"note":"a note about it","code":"c"}`), "value.code"},
		"Free":   {`{"rows of.it":` + many(20, `{"note":"a note about it","a \"b\"":1}`) + `}`, "`rows of.it`.`a \"b\"`"},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			ann := modernClient{t: t, bridge: shaped(t, map[string]string{method: tc.answer}, bridge.Options{ResultBudget: budget}), caller: "ann"}
			call := `"name":"shapes_` + strings.ToLower(method) + `","arguments":{}`
			got := wanting(ann, call, "")
			about := reducedOf(t, got)
			text := contentOf(t, got)[1].Text
			shown := exampleMember.FindStringSubmatch(text)
			if tc.want == "" {
				if shown != nil || !strings.HasSuffix(text, "in _meta, as a field mask in "+fit.FieldsKey+".") {
					t.Errorf("got %s", text)
				}
				return
			}
			if shown == nil {
				t.Fatalf("no example: %s", text)
			}
			var member map[string]string
			if err := json.Unmarshal([]byte("{"+shown[1]+"}"), &member); err != nil || member[fit.FieldsKey] != tc.want {
				t.Errorf("%v: got %s, want %s", err, shown[1], tc.want)
			}
			less := wanting(ann, call, shown[1])
			data := string(less.Result["structuredContent"])
			if less.Error != nil || data == "" || strings.Contains(less.raw, `"isError":true`) {
				t.Fatalf("got %s", less.raw)
			}
			size := len(data)
			if strings.Contains(less.raw, fit.ReducedKey) {
				size = reducedOf(t, less).Bytes
			}
			if size >= about.Bytes {
				t.Errorf("%s is no smaller: %d of %d bytes", shown[1], size, about.Bytes)
			}
		})
	}
}
