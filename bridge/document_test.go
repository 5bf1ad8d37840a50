// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// documents is a catalog of the one RPC archive.Archive.Fetch, which answers
// with a google.api.HttpBody.
func documents(t *testing.T) *catalog.Live {
	t.Helper()
	method := &descriptorpb.MethodDescriptorProto{
		Name: new("Fetch"), InputType: new(".archive.FetchRequest"), OutputType: new(".google.api.HttpBody"),
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto),
		protodesc.ToFileDescriptorProto(httpbody.File_google_api_httpbody_proto),
		{
			Name: new("archive.proto"), Package: new("archive"), Syntax: new("proto3"),
			Dependency:  []string{"google/api/httpbody.proto"},
			MessageType: []*descriptorpb.DescriptorProto{{Name: new("FetchRequest")}},
			Service:     []*descriptorpb.ServiceDescriptorProto{{Name: new("Archive"), Method: []*descriptorpb.MethodDescriptorProto{method}}},
		},
	}}
	live := catalog.NewLive([]source.Source{source.NewDescriptors("memory", set, "archive.Archive")}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return live
}

// fetching is a bridge whose backend answers with these bytes.
func fetching(t *testing.T, live *catalog.Live, wire []byte, o bridge.Options) modernClient {
	t.Helper()
	caller := mcptest.Upstream(func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
		return &bridge.Answer{Body: wire}, nil
	})
	return modernClient{t: t, bridge: dialect.New(bridge.New(live, caller, correlate.New(correlate.Options{}), o), dialect.Options{})}
}

// A document is no Protobuf message to a model: it is what its media type says.
func TestADocumentIsContentOfTheKindOfItsMediaType(t *testing.T) {
	t.Parallel()
	live := documents(t)
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	const other = `{"type":"resource","resource":{"uri":"outrigger://tools/archive.fetch/result","mimeType":"`
	for _, tc := range []struct {
		mediaType, data string
		want            string
	}{
		{"text/plain", "hi", `{"type":"text","text":"hi"}`},
		{"text/markdown; charset=UTF-8", "# hi", `{"type":"text","text":"# hi"}`},
		{"TEXT/PLAIN", "λ\n\"", `{"type":"text","text":"λ\n\""}`},
		{"text/plain", "", `{"type":"text","text":""}`},
		{"application/json", `{"a":1}`, `{"type":"text","text":"{\"a\":1}"}`},
		{"application/problem+json", `{}`, `{"type":"text","text":"{}"}`},
		{"image/svg+xml", `<svg/>`, `{"type":"text","text":"<svg/>"}`},
		{"image/png", "\x89PNG", `{"type":"image","data":"iVBORw==","mimeType":"image/png"}`},
		{"audio/wav", "RIFF", `{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}`},
		{"application/pdf", "%PDF", other + `application/pdf","blob":"JVBERg=="}}`},
		{"", "\x00\xff", other + `application/octet-stream","blob":"AP8="}}`},
		{"no media type", "x", other + `application/octet-stream","blob":"eA=="}}`},
		{"text/plain; charset=latin1", "\xe4", other + `text/plain; charset=latin1","blob":"5A=="}}`},
		{"text/plain", "\xe4", other + `text/plain","blob":"5A=="}}`},
		{"image/png", "", other + `image/png","blob":""}}`},
	} {
		t.Run(tc.mediaType, func(t *testing.T) {
			t.Parallel()
			wire, err := proto.Marshal(&httpbody.HttpBody{ContentType: tc.mediaType, Data: []byte(tc.data), Extensions: []*anypb.Any{{TypeUrl: "x/y", Value: []byte("z")}}})
			if err != nil {
				t.Fatal(err)
			}
			got := fetching(t, live, wire, bridge.Options{}).send("tools/call", `"name":"archive_fetch"`)
			if content := string(got.Result["content"]); content != "["+tc.want+"]" {
				t.Errorf("got  %s\nwant [%s]", content, tc.want)
			}
			if got.Result["structuredContent"] != nil || string(got.Result["isError"]) != "false" {
				t.Errorf("a document is no data and no failure: %s", got.raw)
			}
			if err := schema.Check("CallToolResult", resultOf(got)); err != nil {
				t.Error(err)
			}
		})
	}
	tools := fetching(t, live, nil, bridge.Options{}).send("tools/list", "")
	if !strings.Contains(tools.raw, "archive_fetch") || strings.Contains(tools.raw, "outputSchema") {
		t.Errorf("nothing is promised about a document: %s", tools.raw)
	}
}

// resultOf is the result of a reply as it was.
func resultOf(got modernAnswer) []byte {
	raw, _ := jsontext.Lookup([]byte(got.raw), "result")
	return raw
}

func TestADocumentIsBoundedAndRead(t *testing.T) {
	t.Parallel()
	live := documents(t)
	wire, err := proto.Marshal(&httpbody.HttpBody{ContentType: "text/plain", Data: []byte("12345")})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		wire []byte
		max  int
		want string
	}{
		{"within the bound", wire, 5, ""},
		{"over the bound", wire, 4, "RESOURCE_EXHAUSTED"},
		{"nothing", nil, 5, ""},
		{"cut in mid-field", []byte{0x12, 0x05, 'a'}, 0, "SERIALIZATION_ERROR"},
		{"no tag", []byte{0xff}, 0, "SERIALIZATION_ERROR"},
		{"a media type that is no text", []byte{0x0a, 0x01, 0xff}, 0, "SERIALIZATION_ERROR"},
		{"a field of another type", []byte{0x08, 0x01, 0x12, 0x01, 'a'}, 0, ""},
	} {
		got := fetching(t, live, tc.wire, bridge.Options{MaxResult: tc.max}).send("tools/call", `"name":"archive_fetch"`)
		if got.toolError() != tc.want {
			t.Errorf("%s: got %s, want %q", tc.name, got.raw, tc.want)
		}
	}
}

// A typed caller knows the message, and gets it.
func TestATypedCallerGetsTheHttpBodyItself(t *testing.T) {
	t.Parallel()
	caller := mcptest.Upstream(func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
		return &bridge.Answer{Body: body(t, "text/plain", []byte("hi"))}, nil
	})
	b := bridge.New(documents(t), caller, correlate.New(correlate.Options{}), bridge.Options{})
	resp := b.Handle(t.Context(), &bridge.Request{
		Op: bridge.OpCall, Origin: b.Flights().NewOrigin(), Procedure: "/archive.Archive/Fetch",
		Arguments: bridge.Payload{Bytes: []byte(`{}`), Encoding: bridge.EncodingJSON},
	})
	if got := string(resp.Result.Bytes); resp.Err != nil || got != `{"contentType":"text/plain","data":"aGk=","extensions":[]}` {
		t.Errorf("got %s, %v", got, resp.Err)
	}
}
