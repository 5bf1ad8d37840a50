// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// streaming is the file with all its methods answering with streams.
func streaming(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	for _, s := range f.GetService() {
		for _, m := range s.GetMethod() {
			m.ServerStreaming = new(true)
		}
	}
	return f
}

func TestAStreamIsGatheredAsItems(t *testing.T) {
	t.Parallel()
	unary := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(shopFile("Shop/Get"))), "shop.get")
	tool := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(streaming(shopFile("Shop/Get")))), "shop.get")
	for form, got := range map[string]json.RawMessage{"canonical": tool.Output.Canonical(), "advertised": tool.Output.Advertised()} {
		item := unary.Output.Canonical()
		if form == "advertised" {
			item = unary.Output.Advertised()
		}
		want := `{"type":"object","properties":{"items":{"type":"array","items":` + string(item) +
			`},"truncated":{"type":"boolean"}},"required":["items","truncated"]}`
		if string(got) != want {
			t.Errorf("%s schema %s, want %s", form, got, want)
		}
	}
	if !tool.Streams() || unary.Streams() || tool.OutputNotObject || tool.Fingerprint() == unary.Fingerprint() {
		t.Errorf("streams %v, unary streams %v, not an object %v", tool.Streams(), unary.Streams(), tool.OutputNotObject)
	}
	if string(tool.Input.Canonical()) != string(unary.Input.Canonical()) {
		t.Errorf("input schema %s", tool.Input.Canonical())
	}
}

// TestStreamsInBothDirections: what goes in and what comes out are gathered, each by itself.
func TestStreamsInBothDirections(t *testing.T) {
	t.Parallel()
	toServer := func(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
		f.GetService()[0].GetMethod()[0].ClientStreaming = new(true)
		return f
	}
	unary := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(shopFile("Shop/Get"))), "shop.get")
	answers := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(streaming(shopFile("Shop/Get")))), "shop.get")
	takes := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(toServer(shopFile("Shop/Get")))), "shop.get")
	both := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(toServer(streaming(shopFile("Shop/Get"))))), "shop.get")
	for _, tc := range []struct {
		what              string
		tool, in, out     *Tool
		isTaken, answered bool
	}{
		{"a stream in", takes, takes, unary, true, false},
		{"both", both, takes, answers, true, true},
	} {
		if tc.tool.Streams() != tc.answered || tc.tool.TakesStream() != tc.isTaken {
			t.Errorf("%s: streams %v, takes a stream %v", tc.what, tc.tool.Streams(), tc.tool.TakesStream())
		}
		if string(tc.tool.Output.Advertised()) != string(tc.out.Output.Advertised()) || string(tc.tool.Input.Canonical()) != string(tc.in.Input.Canonical()) {
			t.Errorf("%s: input %s, output %s", tc.what, tc.tool.Input.Canonical(), tc.tool.Output.Advertised())
		}
	}
	want := `{"type":"object","properties":{"items":{"type":"array","description":"The messages to send, in order. An empty list sends none.","items":` +
		string(unary.Input.Advertised()) + `}},"required":["items"],"additionalProperties":false}`
	if got := string(takes.Input.Advertised()); got != want {
		t.Errorf("input %s, want %s", got, want)
	}
	if takes.Input.Digest() == unary.Input.Digest() || takes.Fingerprint() == unary.Fingerprint() || both.Fingerprint() == takes.Fingerprint() {
		t.Error("two tools look the same")
	}
}

// TestDefinitionsOfAStreamMoveUp has a message that contains itself, alone and beside others that need definitions.
func TestDefinitionsOfAStreamMoveUp(t *testing.T) {
	t.Parallel()
	tool := toolOf(t, garden(t), "garden_keeper.watch_plants")
	var got struct {
		Properties struct {
			Items struct {
				Items json.RawMessage `json:"items"`
			} `json:"items"`
		} `json:"properties"`
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(tool.Output.Advertised(), &got); err != nil {
		t.Fatal(err)
	}
	if string(got.Properties.Items.Items) != `{"$ref":"#/$defs/garden.v1.Plant"}` || len(got.Defs) != 1 {
		t.Errorf("schema %s", tool.Output.Advertised())
	}
	v := compiles(t, tool.Output.Canonical())
	for doc, isFine := range map[string]bool{
		`{"items":[{"label":"a","leaves":"1","offshoots":[{"label":"b","leaves":"2","offshoots":[]}]}],"truncated":false}`: true,
		`{"items":[{"label":"a","leaves":"1","offshoots":[{"label":7,"leaves":"2","offshoots":[]}]}],"truncated":false}`:   false,
		`{"items":[],"truncated":true}`:  true,
		`{"items":[]}`:                   false,
		`{"items":[7],"truncated":true}`: false,
	} {
		if found, err := v.Validate([]byte(doc)); err != nil || isFine != (len(found) == 0) {
			t.Errorf("%s: %v, %v", doc, found, err)
		}
	}
	// Two messages that refer to each other, and neither is the answer.
	f := streaming(rpcFile("m.proto", "m", "S/Watch"))
	cycle := func(name, of string) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: new(name), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: new("next"), JsonName: new("next"), Number: new(int32(1)), TypeName: new(".m." + of),
			Type:  descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}}
	}
	f.MessageType = append(f.MessageType, cycle("A", "B"), cycle("B", "A"))
	f.GetMessageType()[1].Field = cycle("Out", "A").GetField()
	tool = toolOf(t, mustBuild(t, BuildOptions{}, filesOf(f)), "s.watch")
	if strings.Contains(string(tool.Output.Canonical()), rootReference) || !strings.HasSuffix(string(tool.Output.Canonical()), `}}`) ||
		!strings.Contains(string(tool.Output.Canonical()), `"required":["items","truncated"],"$defs":{"m.A":`) {
		t.Errorf("schema %s", tool.Output.Canonical())
	}
	v = compiles(t, tool.Output.Canonical())
	if found, err := v.Validate([]byte(`{"items":[{"next":{"next":{"next":{"other":1}}}}],"truncated":false}`)); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
}

func compiles(t *testing.T, raw json.RawMessage) *schema.Validator {
	t.Helper()
	v, err := schema.Compile(raw)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

// TestEveryMessageCanBeAStreamsItem holds what a transcoder writes against the schema of the items.
func TestEveryMessageCanBeAStreamsItem(t *testing.T) {
	t.Parallel()
	load := loadFile(t, bufImage)
	for _, f := range load.Files {
		streaming(f)
	}
	for _, tool := range mustBuild(t, BuildOptions{}, load).All() {
		v := compiles(t, tool.Output.Canonical())
		compiles(t, tool.Output.Advertised())
		item, err := tool.Out.ToJSON(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		doc := `{"items":[` + string(item) + `,` + string(item) + `],"truncated":false}`
		if found, err := v.Validate([]byte(doc)); err != nil || len(found) > 0 {
			t.Errorf("%s: %s: %v, %v", tool.Name, doc, found, err)
		}
		if tool.OutputNotObject {
			t.Errorf("%s is marked to be wrapped", tool.Name)
		}
	}
}

// TestAnOverlayDescribesTheWholeStream has a declared schema for what callers get.
func TestAnOverlayDescribesTheWholeStream(t *testing.T) {
	t.Parallel()
	const few = `{"type":"object","properties":{"items":{"type":"array","maxItems":1}}}`
	tool := toolOf(t, mustBuild(t, BuildOptions{Overlay: []Override{{Match: "shop.v1.Shop/Get", OutputSchema: json.RawMessage(few)}}},
		filesOf(streaming(shopFile("Shop/Get")))), "shop.get")
	if string(tool.Output.Advertised()) != few {
		t.Errorf("schema %s", tool.Output.Advertised())
	}
	if found, err := tool.CheckResult(t.Context(), []byte(`{"items":[{},{}],"truncated":false}`), false); err != nil || len(found) != 1 || found[0].Path != "/items" {
		t.Errorf("%v, %v", found, err)
	}
}

// bodyFile is a service whose methods answer with google.api.HttpBody.
func bodyFile(methods ...string) []*descriptorpb.FileDescriptorProto {
	field := func(name string, n int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: new(name), Number: new(n), Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
	}
	extensions := field("extensions", 3, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	extensions.TypeName, extensions.Label = new(".google.protobuf.Any"), descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	body := &descriptorpb.FileDescriptorProto{
		Name: new("google/api/httpbody.proto"), Package: new("google.api"), Syntax: new("proto3"),
		Dependency: []string{"google/protobuf/any.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("HttpBody"), Field: []*descriptorpb.FieldDescriptorProto{
			field("content_type", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING), field("data", 2, descriptorpb.FieldDescriptorProto_TYPE_BYTES), extensions,
		}}},
	}
	f := rpcFile("page.proto", "page.v1", methods...)
	f.Dependency = []string{"google/api/httpbody.proto"}
	for _, m := range f.GetService()[0].GetMethod() {
		m.OutputType = new(".google.api.HttpBody")
	}
	return []*descriptorpb.FileDescriptorProto{f, body, protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto)}
}

func TestADocumentHasNoOutputSchema(t *testing.T) {
	t.Parallel()
	files := bodyFile("Pages/Get", "Pages/Watch")
	files[0].GetService()[0].GetMethod()[1].ServerStreaming = new(true)
	c := mustBuild(t, BuildOptions{}, filesOf(files...))
	tool := toolOf(t, c, "pages.get")
	if !tool.HTTPBody || tool.HasOutput() || tool.Output.Canonical() != nil || tool.OutputNotObject || tool.Out == nil || len(tool.Fingerprint()) != 64 {
		t.Errorf("body %v, output %+v, fingerprint %q", tool.HTTPBody, tool.Output, tool.Fingerprint())
	}
	if found, err := tool.CheckResult(t.Context(), []byte(`{}`), false); found != nil || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	watch := toolOf(t, c, "pages.watch")
	if !watch.HTTPBody || !watch.IsDocument() || watch.HasOutput() {
		t.Errorf("a stream of documents: body %v, output %s", watch.HTTPBody, watch.Output.Advertised())
	}
	plain := mustBuild(t, BuildOptions{}, filesOf(rpcFile("page.proto", "page.v1", "Pages/Get")))
	if c.Fingerprint() == plain.Fingerprint() {
		t.Error("the fingerprint does not tell a document from a message")
	}
}

func TestADocumentCannotHaveADeclaredOutputSchema(t *testing.T) {
	t.Parallel()
	load := filesOf(bodyFile("Pages/Get")...)
	_, err := Build([]*source.Loaded{load}, BuildOptions{Overlay: []Override{{Match: "page.v1.Pages/Get", OutputSchema: json.RawMessage(`{"type":"object"}`)}}})
	if got := asError[*BuildError](t, err); len(got.Problems) != 1 || !strings.Contains(err.Error(), "output_schema: the RPC returns a document") {
		t.Errorf("error %v", err)
	}
	from := &stubSource{}
	from.set(func() (*source.Loaded, error) { return load, nil })
	live := NewLive([]source.Source{from}, LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	bound := func(r *Registration) {
		r.Binding, r.InputSchema = Binding{"page.v1.Pages", "Get"}, json.RawMessage(`{"type":"object"}`)
	}
	_, _, err = live.Register(t.Context(), registration(bound, func(r *Registration) { r.OutputSchema = json.RawMessage(`{"type":"object"}`) }))
	refused := asError[*RegistrationError](t, err)
	if diff := cmp.Diff([]string{"/output_schema"}, pathsOf(refused.Faults)); diff != "" || refused.Reason != Invalid {
		t.Errorf("reason %v, faults (-want +got):\n%s", refused.Reason, diff)
	}
	if tool := mustRegister(t, live, registration(bound)); !tool.HTTPBody || tool.HasOutput() {
		t.Errorf("registered: body %v, output %+v", tool.HTTPBody, tool.Output)
	}
}

func TestItemsOfAStreamAreNotWrapped(t *testing.T) {
	t.Parallel()
	f := streaming(shopFile("Shop/Get"))
	f.Dependency = []string{"google/protobuf/timestamp.proto"}
	f.GetService()[0].GetMethod()[0].OutputType = new(".google.protobuf.Timestamp")
	tool := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(f, protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto))), "shop.get")
	if tool.OutputNotObject || tool.Output.Wrapped {
		t.Error("the gathered result is marked to be wrapped")
	}
	v := compiles(t, tool.Output.Advertised())
	if found, err := v.Validate([]byte(`{"items":["2020-01-01T00:00:00Z"],"truncated":false}`)); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestItems: what is gathered is one object, and an item that is not kept leaves nothing.
func TestItems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		items     []string
		dropped   string
		truncated bool
		want      string
	}{
		{nil, "", false, `{"items":[],"truncated":false}`},
		{nil, "1", true, `{"items":[],"truncated":true}`},
		{[]string{"1"}, "", false, `{"items":[1],"truncated":false}`},
		{[]string{`{"a":[]}`, "null"}, `"no"`, true, `{"items":[{"a":[]},null],"truncated":true}`},
	} {
		items := NewItems()
		for _, item := range tt.items {
			items.Keep(append(items.Next(), item...))
		}
		if tt.dropped != "" {
			text := append(items.Next(), tt.dropped...)
			if size := items.Size(text); size <= len(text) {
				t.Errorf("%v: the size %d of %d bytes", tt.items, size, len(text))
			}
		}
		if items.Len() != len(tt.items) {
			t.Errorf("%v: %d items", tt.items, items.Len())
		}
		if got := string(items.Close(tt.truncated)); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.items, got, tt.want)
		}
	}
}

// A stream of bytes is a document, unless the bytes are secret.
func TestAStreamOfBytesIsADocument(t *testing.T) {
	t.Parallel()
	for _, isSecret := range []bool{false, true} {
		f := rpcFile("page.proto", "page.v1", "Pages/Download")
		method := f.GetService()[0].GetMethod()[0]
		method.ServerStreaming, method.OutputType = new(true), new(".page.v1.Chunk")
		f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: new("Chunk"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: new("data"), Number: new(int32(7)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			Type: descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum(), Options: &descriptorpb.FieldOptions{DebugRedact: &isSecret},
		}}})
		tool := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(f)), "pages.download")
		if tool.IsDocument() == isSecret || tool.HasOutput() != isSecret || (tool.BytesField == 7) == isSecret {
			t.Errorf("secret: %t: field %d, output %s", isSecret, tool.BytesField, tool.Output.Advertised())
		}
	}
}
