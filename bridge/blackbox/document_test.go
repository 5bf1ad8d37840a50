// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// documents is a catalog of the one RPC archive.Archive.Fetch, which answers
// with a google.api.HttpBody.
func documents() *descriptorpb.FileDescriptorSet {
	method := &descriptorpb.MethodDescriptorProto{
		Name: new("Fetch"), InputType: new(".archive.FetchRequest"), OutputType: new(".google.api.HttpBody"),
	}
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto),
		protodesc.ToFileDescriptorProto(httpbody.File_google_api_httpbody_proto),
		{
			Name: new("archive.proto"), Package: new("archive"), Syntax: new("proto3"),
			Dependency:  []string{"google/api/httpbody.proto"},
			MessageType: []*descriptorpb.DescriptorProto{{Name: new("FetchRequest")}},
			Service:     []*descriptorpb.ServiceDescriptorProto{{Name: new("Archive"), Method: []*descriptorpb.MethodDescriptorProto{method}}},
		},
	}}
}

// answering is a backend that answers with these bytes.
func answering(wire []byte) mcptest.Upstream {
	return func(context.Context, *mcptest.Method, []byte, http.Header) (*mcptest.Answer, *errmap.Error) {
		return &mcptest.Answer{Body: wire}, nil
	}
}

// fetching is a sidecar whose backend answers with these bytes.
func fetching(t *testing.T, wire []byte, configure func(*configv1.Config)) modernClient {
	t.Helper()
	return modernClient{t: t, bridge: mcptest.Pipe(t, mcptest.Parts{From: mcptest.Files(documents(), "archive.Archive"), Backend: answering(wire), Configure: configure})}
}

// A document is no Protobuf message to a model: it is what its media type says.
func TestADocumentIsContentOfTheKindOfItsMediaType(t *testing.T) {
	t.Parallel()
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
			got := fetching(t, wire, nil).send("tools/call", `"name":"archive_fetch"`)
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
	tools := fetching(t, nil, nil).send("tools/list", "")
	if !strings.Contains(tools.raw, "archive_fetch") || strings.Contains(tools.raw, "outputSchema") {
		t.Errorf("nothing is promised about a document: %s", tools.raw)
	}
}

// resultOf is the result of a reply as it was.
func resultOf(got modernAnswer) []byte {
	raw, _ := lookup([]byte(got.raw), "result")
	return raw
}

func TestADocumentIsBoundedAndRead(t *testing.T) {
	t.Parallel()
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
		once := modernClient{t: t, bridge: mcptest.Pipe(t, mcptest.Parts{
			From: mcptest.Files(documents(), "archive.Archive"), Backend: answering(tc.wire), Once: true, Configure: resultBytes(tc.max),
		})}
		got := once.send("tools/call", `"name":"archive_fetch"`)
		if got.toolError() != tc.want {
			t.Errorf("%s: got %s, want %q", tc.name, got.raw, tc.want)
		}
	}
}

// A typed caller knows the message, and gets it.
func TestATypedCallerGetsTheHttpBodyItself(t *testing.T) {
	t.Parallel()
	b := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Files(documents(), "archive.Archive"), Backend: answering(body(t, "text/plain", []byte("hi")))})
	resp := b.Handle(t.Context(), &mcptest.Call{
		Origin: b.NewOrigin(), Procedure: "/archive.Archive/Fetch",
		Arguments: `{}`,
	})
	if got := string(resp.Result); resp.Err != nil || got != `{"contentType":"text/plain","data":"aGk=","extensions":[]}` {
		t.Errorf("got %s, %v", got, resp.Err)
	}
}

// body is the wire form of a google.api.HttpBody.
func body(t *testing.T, mediaType string, data []byte) []byte {
	t.Helper()
	wire, err := proto.Marshal(&httpbody.HttpBody{ContentType: mediaType, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// holding is a bridge whose backend answers with these bytes, and which holds what is
// larger than 16 bytes.
func holding(t *testing.T, wire []byte, configure func(*configv1.Config)) modernClient {
	t.Helper()
	return fetching(t, wire, both(inline(16), resultBytes(1<<20), configure))
}

// inline has documents of more bytes be links.
func inline(bytes int64) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.MaxInlineBytes = &bytes }
}

// heldBytes bounds what is held, all of which one caller may have.
func heldBytes(n int64) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.MaxHeldBytes, c.Limits.CallerSharePercent = &n, proto.Int32(100) }
}

// part is what resources/read answered.
type part struct {
	URI, MimeType string
	Text          *string
	Blob          []byte
	Meta          struct {
		Range struct {
			Offset, Length, Size int
			Next                 string
		} `json:"dev.outrigger/range"`
	} `json:"_meta"`
}

// data is the bytes of a part.
func (p part) data() []byte {
	if p.Text != nil {
		return []byte(*p.Text)
	}
	return p.Blob
}

// linkOf is the URI in the result of a call.
func linkOf(t *testing.T, got modernAnswer) string {
	t.Helper()
	var content []struct {
		Type, URI, MimeType string
		Size                int
		Text                string
	}
	if err := json.Unmarshal(got.Result["content"], &content); err != nil || len(content) != 2 || content[0].Type != "text" || content[1].Type != "resource_link" {
		t.Fatalf("no link and a text that explains it: %s", got.raw)
	}
	link := content[1]
	if !strings.HasPrefix(link.URI, "outrigger://results/") || !strings.Contains(content[0].Text, link.URI) || !strings.Contains(content[0].Text, "resources/read") {
		t.Fatalf("the text does not say how to read it: %s", got.raw)
	}
	return link.URI
}

// read reads a resource that has to be readable.
func read(t *testing.T, c modernClient, uri string) part {
	t.Helper()
	got := c.send("resources/read", `"uri":`+quoted(uri))
	var parts []part
	if err := json.Unmarshal(got.Result["contents"], &parts); err != nil || len(parts) != 1 || parts[0].URI != uri {
		t.Fatalf("%s: %s", uri, got.raw)
	}
	return parts[0]
}

func TestALargeDocumentIsALink(t *testing.T) {
	t.Parallel()
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	pdf := bytes.Repeat([]byte("%PDF\xff"), 100)
	client := holding(t, body(t, "application/pdf", pdf), nil)
	got := client.send("tools/call", `"name":"archive_fetch"`)
	if err := schema.Check("CallToolResult", resultOf(got)); err != nil {
		t.Error(err)
	}
	if strings.Contains(got.raw, base64.StdEncoding.EncodeToString(pdf[:30])) {
		t.Error("the document is in the result, too")
	}
	uri := linkOf(t, got)
	whole := read(t, client, uri)
	if !bytes.Equal(whole.data(), pdf) || whole.MimeType != "application/pdf" || whole.Text != nil {
		t.Errorf("got %d bytes of %s", len(whole.data()), whole.MimeType)
	}
	// In parts, by following next.
	var gathered []byte
	for next := uri + "?offset=0&length=128"; next != ""; {
		p := read(t, client, next)
		if p.Meta.Range.Offset != len(gathered) || p.Meta.Range.Length != len(p.data()) || p.Meta.Range.Size != len(pdf) {
			t.Fatalf("the part says %+v after %d bytes", p.Meta.Range, len(gathered))
		}
		gathered, next = append(gathered, p.data()...), p.Meta.Range.Next
	}
	if !bytes.Equal(gathered, pdf) {
		t.Errorf("the parts make %d bytes", len(gathered))
	}
	templates := client.send("resources/templates/list", "")
	if !strings.Contains(templates.raw, `"uriTemplate":"outrigger://results/{id}{?offset,length}"`) {
		t.Errorf("no template tells of held results: %s", templates.raw)
	}
	if err := schema.Check("ListResourceTemplatesResult", resultOf(templates)); err != nil {
		t.Error(err)
	}
}

// A part of a text ends with a whole character, so that it is a text itself.
func TestPartsOfATextAreTexts(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("aé€😀", 20)
	client := holding(t, body(t, "text/plain; charset=utf-8", []byte(text)), nil)
	uri := linkOf(t, client.send("tools/call", `"name":"archive_fetch"`))
	for length := 4; length < 14; length++ {
		var gathered strings.Builder
		for next := fmt.Sprintf("%s?length=%d", uri, length); next != ""; {
			p := read(t, client, next)
			if p.Text == nil {
				t.Fatalf("%s: a part of a text is no text", next)
			}
			gathered.WriteString(*p.Text)
			next = p.Meta.Range.Next
		}
		if gathered.String() != text {
			t.Errorf("in parts of %d: %q", length, gathered.String())
		}
	}
	// From within a character on, and shorter than one, there are only bytes.
	for _, query := range []string{"?offset=2", "?offset=1&length=1"} {
		if p := read(t, client, uri+query); p.Text != nil || len(p.Blob) == 0 {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

func TestWhatCannotBeReadOfAHeldResult(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte{0xff}, 2000)
	for _, tc := range []struct{ name, suffix, code, says string }{
		{"behind the end", "?offset=2001", "INVALID_PARAMS", "2000 bytes"},
		{"no number", "?offset=x", "INVALID_PARAMS", "offset"},
		{"negative", "?offset=-1", "INVALID_PARAMS", "offset"},
		{"nothing", "?length=0", "INVALID_PARAMS", "length"},
		{"twice", "?length=1&length=2", "INVALID_PARAMS", "length"},
		{"too large a number", "?length=99999999999999999999", "INVALID_PARAMS", "length"},
		{"another parameter", "?from=1", "INVALID_PARAMS", "from"},
		{"no query", "?%zz", "INVALID_PARAMS", "query"},
		{"another id", "x", "RESOURCE_NOT_FOUND", "call the tool again"},
		{"more than a result may have", "", "RESOURCE_EXHAUSTED", "?offset=0&length=1000"},
		{"as a part", "?offset=500", "RESOURCE_EXHAUSTED", "?offset=500&length=1000"},
	} {
		bounded := holding(t, body(t, "application/pdf", data), nil)
		uri := linkOf(t, bounded.send("tools/call", `"name":"archive_fetch"`))
		if tc.code == "RESOURCE_EXHAUSTED" {
			// Only what came in parts can be larger than a result may be.
			bounded = downloading(t, resultBytes(1000), chunk(data))
			uri = linkOf(t, bounded.send("tools/call", `"name":"archive_download"`))
		}
		got := bounded.send("resources/read", `"uri":"`+uri+tc.suffix+`"`)
		if !strings.Contains(got.raw, tc.code) || !strings.Contains(got.raw, tc.says) {
			t.Errorf("%s: got %s, want %s about %s", tc.name, got.raw, tc.code, tc.says)
		}
	}
}

// other is another caller of the same sidecar.
func other(c modernClient) modernClient {
	c.caller = "somebody else"
	return c
}

// A link is of one caller and one store, and of bounded time.
func TestALinkIsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		data := bytes.Repeat([]byte{0xff}, 100)
		key := keyFile(t)
		replica := func() modernClient {
			return holding(t, body(t, "application/pdf", data), func(c *configv1.Config) {
				c.Limits.HeldTtl, c.State.KeyFile = durationpb.New(time.Minute), key
			})
		}
		here, there := replica(), replica()
		uri := linkOf(t, here.send("tools/call", `"name":"archive_fetch"`))
		ask := `"uri":"` + uri + `"`
		if got := there.send("resources/read", ask); !strings.Contains(got.raw, "RESOURCE_NOT_FOUND") || !strings.Contains(got.raw, "another replica") {
			t.Errorf("at another replica: %s", got.raw)
		}
		if got := other(here).send("resources/read", ask); !strings.Contains(got.raw, "RESOURCE_NOT_FOUND") {
			t.Errorf("another caller: %s", got.raw)
		}
		if got := read(t, here, uri); !bytes.Equal(got.data(), data) {
			t.Errorf("its caller: %d bytes", len(got.data()))
		}
		time.Sleep(61 * time.Second)
		if got := here.send("resources/read", ask); !strings.Contains(got.raw, "RESOURCE_NOT_FOUND") {
			t.Errorf("after its time: %s", got.raw)
		}
	})
}

// downloading is a bridge whose backend answers a call of a stream with these messages:
// archive_download with {bytes}, archive_export with google.api.HttpBody.
func downloading(t *testing.T, configure func(*configv1.Config), items ...[]byte) modernClient {
	t.Helper()
	stream := func(name, output string) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: new(name), InputType: new(".archive.FetchRequest"), OutputType: new(output), ServerStreaming: new(true),
		}
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto),
		protodesc.ToFileDescriptorProto(httpbody.File_google_api_httpbody_proto),
		{
			Name: new("archive.proto"), Package: new("archive"), Syntax: new("proto3"),
			Dependency: []string{"google/api/httpbody.proto"},
			MessageType: []*descriptorpb.DescriptorProto{{Name: new("FetchRequest")}, {
				Name: new("Chunk"), Field: []*descriptorpb.FieldDescriptorProto{{
					Name: new("data"), Number: new(int32(1)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
					Type: descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum(),
				}},
			}},
			Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Archive"), Method: []*descriptorpb.MethodDescriptorProto{
				stream("Download", ".archive.Chunk"), stream("Export", ".google.api.HttpBody"),
			}}},
		},
	}}
	rig := mcptest.Pipe(t, mcptest.Parts{
		From: mcptest.Files(set, "archive.Archive"), Backend: (&streaming{items: items}).backend(), Configure: both(inline(16), configure),
	})
	return modernClient{t: t, bridge: rig}
}

// chunk is an archive.Chunk.
func chunk(data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), data)
}

func TestAStreamOfBytesIsOneDocument(t *testing.T) {
	t.Parallel()
	parts := [][]byte{[]byte("one, "), []byte("two, "), {}, []byte("three, and four")}
	all := bytes.Join(parts, nil)
	var chunks, bodies [][]byte
	for i, p := range parts {
		chunks = append(chunks, chunk(p))
		mediaType := ""
		if i == 0 {
			mediaType = "text/plain"
		}
		bodies = append(bodies, body(t, mediaType, p))
	}
	got := downloading(t, inline(100), chunks...).send("tools/call", `"name":"archive_download"`)
	if want := base64.StdEncoding.EncodeToString(all); !strings.Contains(got.raw, want) || !strings.Contains(got.raw, "application/octet-stream") {
		t.Errorf("got %s, want one block of %s", got.raw, want)
	}
	got = downloading(t, inline(100), bodies...).send("tools/call", `"name":"archive_export"`)
	if content := string(got.Result["content"]); content != `[{"type":"text","text":"one, two, three, and four"}]` {
		t.Errorf("got %s", content)
	}
	client := downloading(t, nil, bodies...)
	if p := read(t, client, linkOf(t, client.send("tools/call", `"name":"archive_export"`))); p.Text == nil || *p.Text != string(all) {
		t.Errorf("got %+v", p)
	}
	if list := client.send("tools/list", ""); strings.Contains(list.raw, "outputSchema") {
		t.Errorf("nothing is promised about a document: %s", list.raw)
	}
	for _, broken := range [][]byte{{0x0a, 0x05, 'a'}, {0xff}} {
		for _, tool := range []string{"archive_download", "archive_export"} {
			if got := downloading(t, nil, broken).send("tools/call", `"name":"`+tool+`"`); got.toolError() != "SERIALIZATION_ERROR" {
				t.Errorf("%s: % x: %s", tool, broken, got.raw)
			}
		}
	}
	if got := downloading(t, nil).send("tools/call", `"name":"archive_download"`); got.toolError() != "" {
		t.Errorf("an empty stream is an empty document: %s", got.raw)
	}
}

// What is too large to be held is cut, and says so; what is held meanwhile counts.
func TestADownloadIsBounded(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	data := bytes.Repeat([]byte{0xff}, most/4)
	client := downloading(t, heldBytes(most), chunk(data), chunk(data), chunk(data), chunk(data), chunk(data))
	got := client.send("tools/call", `"name":"archive_download"`)
	if !strings.Contains(got.raw, "incomplete") || !strings.Contains(got.raw, "--max-held-bytes") {
		t.Errorf("it does not say that it is incomplete: %s", got.raw)
	}
	first := linkOf(t, got)
	if p := read(t, client, first); len(p.data()) > most || len(p.data()) < most-1024 {
		t.Errorf("%d bytes are held, want nearly %d", len(p.data()), most)
	}
	if used := client.held(); used > most || used < most-1024 {
		t.Errorf("%d bytes are counted", used)
	}
	// The next one displaces it.
	uri := linkOf(t, client.send("tools/call", `"name":"archive_download"`))
	if used := client.held(); used > most || used < most-1024 {
		t.Errorf("%d bytes are counted", used)
	}
	if gone := client.send("resources/read", `"uri":"`+first+`"`); !strings.Contains(gone.raw, "RESOURCE_NOT_FOUND") {
		t.Errorf("the first is still there: %.200s", gone.raw)
	}
	read(t, client, uri)
	// A unary document for which there is no room is an error, and nothing of it stays.
	unary := holding(t, body(t, "application/pdf", data), heldBytes(1024))
	if got := unary.send("tools/call", `"name":"archive_fetch"`); got.toolError() != "RESOURCE_EXHAUSTED" || !strings.Contains(got.raw, "--max-held-bytes") {
		t.Errorf("got %s", got.raw)
	}
	if used := unary.held(); used != 0 {
		t.Errorf("%d bytes stay", used)
	}
}

// held is how many bytes the sidecar holds.
func (c modernClient) held() int64 {
	c.t.Helper()
	var used float64
	for line := range strings.Lines(c.bridge.Metrics(c.t)) {
		if _, err := fmt.Sscanf(line, `outrigger_limit_used{limit="max_held_bytes"} %g`, &used); err == nil {
			return int64(used)
		}
	}
	c.t.Fatal("no metric of what is held")
	return 0
}
