// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
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

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	heldstore "github.com/outrigger-mcp/outrigger/internal/held"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/seal"
)

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
func holding(t *testing.T, wire []byte, change func(*bridge.Options)) modernClient {
	t.Helper()
	o := bridge.Options{Held: heldstore.New(heldstore.Options{}), MaxInline: 16, MaxResult: 1 << 20}
	if change != nil {
		change(&o)
	}
	t.Cleanup(o.Held.Close)
	return fetching(t, documents(t), wire, o)
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
	got := c.send("resources/read", `"uri":`+string(jsontext.AppendString(nil, uri)))
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
		bounded := holding(t, body(t, "application/pdf", data), func(o *bridge.Options) { o.MaxResult = 0 })
		uri := linkOf(t, bounded.send("tools/call", `"name":"archive_fetch"`))
		if tc.code == "RESOURCE_EXHAUSTED" {
			// Only what came in parts can be larger than a result may be.
			bounded = downloading(t, func(o *bridge.Options) { o.MaxResult = 1000 }, chunk(data))
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
		keys := seal.RandomKeys()
		replica := func() modernClient {
			return holding(t, body(t, "application/pdf", data), func(o *bridge.Options) {
				o.Held, o.Sealer = heldstore.New(heldstore.Options{TTL: time.Minute}), seal.New(seal.Options{Keys: keys})
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
func downloading(t *testing.T, change func(*bridge.Options), items ...[]byte) modernClient {
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
	live := catalog.NewLive([]source.Source{source.NewDescriptors("memory", set, "archive.Archive")}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := bridge.Options{Held: heldstore.New(heldstore.Options{}), MaxInline: 16}
	if change != nil {
		change(&o)
	}
	t.Cleanup(o.Held.Close)
	return modernClient{t: t, bridge: dialect.New(bridge.New(live, &streaming{items: items}, correlate.New(correlate.Options{}), o), dialect.Options{})}
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
	inline := func(o *bridge.Options) { o.MaxInline = 100 }
	got := downloading(t, inline, chunks...).send("tools/call", `"name":"archive_download"`)
	if want := base64.StdEncoding.EncodeToString(all); !strings.Contains(got.raw, want) || !strings.Contains(got.raw, "application/octet-stream") {
		t.Errorf("got %s, want one block of %s", got.raw, want)
	}
	got = downloading(t, inline, bodies...).send("tools/call", `"name":"archive_export"`)
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
	store := heldstore.New(heldstore.Options{MaxBytes: most})
	data := bytes.Repeat([]byte{0xff}, most/4)
	client := downloading(t, func(o *bridge.Options) { o.Held = store }, chunk(data), chunk(data), chunk(data), chunk(data), chunk(data))
	got := client.send("tools/call", `"name":"archive_download"`)
	if !strings.Contains(got.raw, "incomplete") || !strings.Contains(got.raw, "--max-held-bytes") {
		t.Errorf("it does not say that it is incomplete: %s", got.raw)
	}
	if p := read(t, client, linkOf(t, got)); len(p.data()) != int(store.Most()) {
		t.Errorf("%d bytes are held, want %d", len(p.data()), store.Most())
	}
	if used := store.Stats().Bytes; used > most {
		t.Errorf("%d bytes are counted", used)
	}
	// The next one displaces it.
	uri := linkOf(t, client.send("tools/call", `"name":"archive_download"`))
	if stats := store.Stats(); stats.Documents != 1 || stats.Displaced != 1 || stats.Bytes > most {
		t.Errorf("got %+v", stats)
	}
	read(t, client, uri)
	// A unary document for which there is no room is an error, and nothing of it stays.
	full := heldstore.New(heldstore.Options{MaxBytes: 1024})
	unary := holding(t, body(t, "application/pdf", data), func(o *bridge.Options) { o.Held = full })
	if got := unary.send("tools/call", `"name":"archive_fetch"`); got.toolError() != "RESOURCE_EXHAUSTED" || !strings.Contains(got.raw, "--max-held-bytes") {
		t.Errorf("got %s", got.raw)
	}
	if stats := full.Stats(); stats.Bytes != 0 || stats.Refused != 1 {
		t.Errorf("got %+v", stats)
	}
}
