// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

var updateStreams = flag.Bool("update-streams", false, "rewrite the golden schemas of streams")

// uploads is a service that wants a header in the first message: Upload(stream Part) with a oneof of about and data.
func uploads() *descriptorpb.FileDescriptorProto {
	field := func(name string, n int32, kind descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: new(name), JsonName: new(name), Number: new(n), Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if of != "" {
			f.TypeName = new(of)
		}
		return f
	}
	text, raw, message := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BYTES, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	f := rpcFile("uploads.proto", "up.v1", "Store/Upload", "Store/Stat")
	f.GetService()[0].GetMethod()[0].ClientStreaming = new(true)
	f.GetService()[0].GetMethod()[0].InputType = new(".up.v1.Part")
	about, data := field("about", 1, message, ".up.v1.About"), field("data", 2, raw, "")
	about.OneofIndex, data.OneofIndex = new(int32(0)), new(int32(0))
	size := field("file_size", 2, descriptorpb.FieldDescriptorProto_TYPE_INT64, "")
	size.JsonName = new("fileSize")
	f.MessageType = append(f.MessageType,
		&descriptorpb.DescriptorProto{
			Name: new("Part"), OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: new("content")}},
			Field: []*descriptorpb.FieldDescriptorProto{about, data, field("note", 3, text, "")},
		},
		&descriptorpb.DescriptorProto{Name: new("About"), Field: []*descriptorpb.FieldDescriptorProto{
			field("name", 1, text, ""), size, field("previous", 3, message, ".up.v1.Part"),
		}},
	)
	return f
}

func headerOption(name string) BuildOptions {
	return BuildOptions{Overlay: []Override{{Match: "up.v1.Store/Upload", Options: &configv1.ToolOptions{StreamHeader: name}}}}
}

// TestTheSchemaOfAStreamWithAHeader is a golden, so that a change is read before it is made.
func TestTheSchemaOfAStreamWithAHeader(t *testing.T) {
	t.Parallel()
	got := &bytes.Buffer{}
	for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
		o := headerOption("about")
		o.Profile = profile
		tool := toolOf(t, mustBuild(t, o, filesOf(uploads())), "store.upload")
		for _, form := range []struct {
			name string
			text json.RawMessage
		}{{"advertised, " + profile.String(), tool.Input.Advertised()}, {"canonical, " + profile.String(), tool.Input.Canonical()}} {
			compiles(t, form.text)
			got.WriteString("-- " + form.name + " --\n")
			if err := json.Indent(got, form.text, "", " "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
		}
	}
	path := filepath.Join("testdata", "stream_header.txt")
	if *updateStreams {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("schemas (-want +got):\n%s", diff)
	}
}

// TestTheSchemaOfAStreamSaysWhatTheTranscoderDoes, for each form of the arguments.
func TestTheSchemaOfAStreamSaysWhatTheTranscoderDoes(t *testing.T) {
	t.Parallel()
	tool := toolOf(t, mustBuild(t, headerOption("about"), filesOf(uploads())), "store.upload")
	canonical := compiles(t, tool.Input.Canonical())
	for arguments, path := range map[string]string{
		`{"header":{"name":"a"},"items":[]}`:                                              "",
		`{"header":{},"items":[{"data":"AA=="},{"note":"n"},{}]}`:                         "",
		`{"items":[{"data":"AA=="}],"header":{"file_size":7,"previous":{"data":"AA=="}}}`: "",
		`{"items":[]}`:                                          "/header",
		`{"header":null,"items":[]}`:                            "/header",
		`{"header":[],"items":[]}`:                              "/header",
		`{"header":{"nam":"a"},"items":[]}`:                     "/header/nam",
		`{"header":{"previous":{"data":7}},"items":[]}`:         "/header/previous/data",
		`{"header":{},"items":[{},{"data":"AA==","about":{}}]}`: "/items/1",
		`{"header":{},"items":[{},{"note":7}]}`:                 "/items/1/note",
		`{"header":{"fileSize":1,"file_size":1},"items":[]}`:    "/header/file_size",
		`{"header":{},"items":[null]}`:                          "/items/0",
		`{"header":{},"items":[],"more":1}`:                     "/more",
		`[]`:                                                    "",
	} {
		err := tool.Stream.Check([]byte(arguments), 10)
		found, failed := canonical.Validate([]byte(arguments))
		if failed != nil {
			t.Fatal(failed)
		}
		if (err == nil) != (len(found) == 0) {
			t.Errorf("%s: the transcoder says %v, the schema %v", arguments, err, found)
		}
		var broken *transcode.InputError
		if errors.As(err, &broken) {
			if broken.Violations[0].Path != path {
				t.Errorf("%s: violations %v, want them at %q", arguments, broken.Violations, path)
			}
		} else if path != "" {
			t.Errorf("%s: %v, want a violation at %q", arguments, err, path)
		}
	}
}

func TestAStreamHeaderIsAFieldOfAOneof(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"note":    "up.v1.Part has no field note in a oneof",
		"nothing": "up.v1.Part has no field nothing in a oneof",
		"a b":     "stream_header",
	} {
		_, err := Build([]*source.Loaded{filesOf(uploads())}, headerOption(name))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := headerOption("about")
	o.Overlay[0].Match = "up.v1.Store/*"
	if _, err := Build([]*source.Loaded{filesOf(uploads())}, o); err == nil || !strings.Contains(err.Error(), "does not take a stream of requests") {
		t.Errorf("on a unary RPC: %v", err)
	}
}

// FuzzStreamArguments: the transcoder takes what the schema admits, and nothing else; nothing panics, and paths lead into
// the arguments.
func FuzzStreamArguments(f *testing.F) {
	c, err := Build([]*source.Loaded{filesOf(uploads())}, headerOption("about"))
	if err != nil {
		f.Fatal(err)
	}
	tool, _ := c.Lookup("store.upload")
	v, err := schema.Compile(tool.Input.Canonical())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"header":{"name":"a"},"items":[{"data":"AA=="},{}]}`, `{"items":[]}`, `{"header":{},"items":[null,7,"{}"]}`, `{"items":"[]","header":"{}"}`,
		`[]`, `{`, ` {"items" : [ { } ] , "header":{"previous":{"about":{"previous":{}}}}} `, `{"items":[],"items":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		err := tool.Stream.Check(arguments, 100)
		var broken *transcode.InputError
		if err != nil && !errors.As(err, &broken) {
			t.Fatalf("%v", err)
		}
		if broken != nil && transcode.TooManyItems(broken.Violations) {
			return
		}
		found, failed := v.Validate(arguments)
		if failed != nil {
			t.Skip(failed)
		}
		if (err == nil) != (len(found) == 0) {
			t.Errorf("%q: the transcoder says %v, the schema %v", arguments, err, found)
		}
		if plain, places := tool.Stream.Unquote(arguments); len(places) > 0 && !json.Valid(plain) {
			t.Errorf("%q was decoded to %q", arguments, plain)
		}
	})
}
