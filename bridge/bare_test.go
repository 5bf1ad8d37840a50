// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// bare is a catalog with one tool whose messages are no JSON objects:
// word.double takes and returns a google.protobuf.StringValue.
func bare(t *testing.T) *catalog.Live {
	t.Helper()
	own := &descriptorpb.FileDescriptorProto{
		Name: proto.String("word/v1/word.proto"), Package: proto.String("word.v1"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/wrappers.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Word"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: proto.String("Double"), InputType: proto.String(".google.protobuf.StringValue"), OutputType: proto.String(".google.protobuf.StringValue"),
		}}}},
	}
	live := catalog.NewLive([]source.Source{source.NewDescriptors("bare", &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(wrapperspb.File_google_protobuf_wrappers_proto), own,
	}}, "word.v1.Word")}, catalog.LiveOptions{})
	if err := live.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	return live
}

func double(_ context.Context, _ *catalog.Method, in []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	var word wrapperspb.StringValue
	if err := proto.Unmarshal(in, &word); err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	word.Value += word.GetValue()
	out, err := proto.Marshal(&word)
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return &bridge.Answer{Body: out}, nil
}

// A result that is no object is wrapped once, in every dialect, as the schema
// that the same dialect lists says. A typed caller gets it bare.
func TestAResultThatIsNoObject(t *testing.T) {
	t.Parallel()
	b := dialect.New(bridge.New(bare(t), mcptest.Upstream(double), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
		got := answer(t, b, d,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"word_double","arguments":{"value":"ab"},`+modernMeta+`}}`)
		if got.Result == nil || string(got.Result.StructuredContent) != `{"value":"abab"}` || got.Result.Content[0].Text != `{"value":"abab"}` {
			t.Errorf("%v: got %+v", d, got)
		}
		list := b.HandleMessage(t.Context(), inbound(t, 1, d, `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{`+modernMeta+`}}`))
		var listing struct {
			Result struct {
				Tools []struct {
					OutputSchema struct {
						Type       string                     `json:"type"`
						Properties map[string]json.RawMessage `json:"properties"`
						Required   []string                   `json:"required"`
					} `json:"outputSchema"`
				} `json:"tools"`
			} `json:"result"`
		}
		if err := json.Unmarshal(list.Bytes(), &listing); err != nil || len(listing.Result.Tools) != 1 {
			t.Fatalf("%v: %v: %s", d, err, list.Bytes())
		}
		schema := listing.Result.Tools[0].OutputSchema
		if _, ok := schema.Properties["value"]; schema.Type != "object" || !ok || cmp.Diff([]string{"value"}, schema.Required) != "" {
			t.Errorf("%v: the listed schema is of another result: %+v", d, schema)
		}
	}
	form := answer(t, b, dialect.Canonical,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"word.double","arguments":{"value":"ab"}}}`)
	if form.Result == nil || form.Result.Status != "success" {
		t.Errorf("message form: %+v", form)
	}
	typed := b.Handle(t.Context(), &bridge.Request{Op: bridge.OpCall, Procedure: "/word.v1.Word/Double", Arguments: bridge.Payload{Bytes: []byte(`"ab"`)}})
	if typed.Err != nil || string(typed.Result.Bytes) != `"abab"` {
		t.Errorf("typed: %s, %v", typed.Result.Bytes, typed.Err)
	}
}
