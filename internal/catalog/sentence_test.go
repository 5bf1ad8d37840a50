// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

var update = flag.Bool("update", false, "write the golden files")

// relationsFiles are the files of an API with annotations of other tools, their options as bytes.
func relationsFiles(t *testing.T) []*descriptorpb.FileDescriptorProto {
	t.Helper()
	loaded := loadFile(t, filepath.Join("..", "schema", "testdata", "relations.binpb"))
	var out []*descriptorpb.FileDescriptorProto
	for _, f := range loaded.Files {
		out = append(out, proto.CloneOf(f))
	}
	return out
}

func withoutComments(files []*descriptorpb.FileDescriptorProto) []*descriptorpb.FileDescriptorProto {
	for _, f := range files {
		f.SourceCodeInfo = nil
	}
	return files
}

// TestTextsOfAnAnnotatedAPI keeps what tools are called and how they are described, as a server with reflection has the API.
func TestTextsOfAnAnnotatedAPI(t *testing.T) {
	t.Parallel()
	url := telling(withoutComments(relationsFiles(t))...).serve(t, reflectionV1)
	loaded, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := mustBuild(t, BuildOptions{}, loaded)
	got := &bytes.Buffer{}
	for _, tool := range c.Tools() {
		fmt.Fprintf(got, "-- %s --\n%s\n\n%s\nundescribed: %t\n%s\n", tool.Name, tool.Title, tool.Description, tool.Undescribed, tool.Input.Advertised())
	}
	for _, w := range c.Warnings() {
		t.Errorf("warning: %s", w)
	}
	path := filepath.Join("testdata", "annotated.txt")
	if *update {
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
		t.Errorf("texts changed (-want +got):\n%s", diff)
	}
}

// TestPrecedenceOfTexts: overlay, the method's own option, comment, annotation, generated text.
func TestPrecedenceOfTexts(t *testing.T) {
	t.Parallel()
	const annotated, id = "\x12\x0aThe title.\x1a\x10The description.", "p.S/GetThing"
	for name, tc := range map[string]struct {
		overlay, option, comment, annotation string
		title, description                   string
	}{
		"overlay":            {"From the overlay.", "From the option.", " From the comment.", annotated, "Title From the overlay.", "From the overlay."},
		"option":             {"", "From the option.", " From the comment.", annotated, "Title From the option.", "From the option."},
		"comment":            {"", "", " From the comment.", annotated, "From the comment", "From the comment."},
		"annotation":         {"", "", "", annotated, "The title", "The title.\n\nThe description."},
		"a summary alone":    {"", "", "", "\x12\x0aThe title.", "The title", "The title. Takes no arguments. Returns nothing."},
		"a description only": {"", "", "", "\x1a\x10The description.", "Get thing", "The description."},
		"the summary again":  {"", "", "", "\x12\x0fthe description\x1a\x10The description.", "the description", "The description."},
		"generated":          {"", "", "", "", "Get thing", "Get the thing. Takes no arguments. Returns nothing."},
	} {
		f := rpcFile("p.proto", "p", "S/GetThing")
		method := f.GetService()[0].GetMethod()[0]
		method.Options = &descriptorpb.MethodOptions{}
		if tc.annotation != "" {
			bytesOption(method.GetOptions(), 1042, tc.annotation)
		}
		files := []*descriptorpb.FileDescriptorProto{f}
		if tc.option != "" {
			proto.SetExtension(method.GetOptions(), optionsv1.E_Tool, &optionsv1.ToolOptions{Title: "Title " + tc.option, Description: tc.option})
			f.Dependency = []string{"outrigger/v1/options.proto"}
			files = append(ownFiles(t), files...)
		}
		if tc.comment != "" {
			f.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
				{Path: []int32{6, 0, 2, 0}, Span: []int32{1, 2, 3}, LeadingComments: new(tc.comment)},
			}}
		}
		o := BuildOptions{Selection: selection(t, []string{"p.*"}, nil)}
		if tc.overlay != "" {
			o.Overlay = []Override{{Match: id, Options: &configv1.ToolOptions{Title: "Title " + tc.overlay, Description: tc.overlay}}}
		}
		tool := toolOf(t, mustBuild(t, o, filesOf(files...)), "s.get_thing")
		if tool.Title != tc.title || tool.Description != tc.description || tool.Undescribed != (name == "generated") {
			t.Errorf("%s: title %q, description %q, undescribed %t", name, tool.Title, tool.Description, tool.Undescribed)
		}
	}
}

// TestUnreadableMethodOptionsAreWarnings: the method is a tool all the same.
func TestUnreadableMethodOptionsAreWarnings(t *testing.T) {
	t.Parallel()
	f := rpcFile("p.proto", "p", "S/GetThing")
	f.GetService()[0].GetMethod()[0].Options = bytesOption(&descriptorpb.MethodOptions{}, 1042, "\xff")
	c := mustBuild(t, BuildOptions{}, filesOf(f))
	if tool := toolOf(t, c, "s.get_thing"); tool.Description != "Get the thing. Takes no arguments. Returns nothing." {
		t.Errorf("the description is %q", tool.Description)
	}
	if w := c.Warnings(); len(w) != 1 || w[0].Subject != "p.S/GetThing" || !strings.Contains(w[0].Text, "openapiv2_operation") {
		t.Errorf("warnings %v", w)
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{
		"GetStore":               "Get the store",
		"ListStores":             "List stores",
		"CreateStore":            "Create a store",
		"CreateInstance":         "Create an instance",
		"CreateUser":             "Create a user",
		"CreateHTTPRoute":        "Create an HTTP route",
		"UpdateStore":            "Update the store",
		"DeleteStore":            "Delete the store",
		"UndeleteBook":           "Undelete the book",
		"BatchGetStores":         "Get stores in one batch",
		"StreamedListObjects":    "List objects as a stream",
		"Check":                  "Check in the OpenFGA service",
		"GetByName":              "Get by name",
		"ListBooksByAuthor":      "List books by author",
		"ListAllBooks":           "List all books",
		"SearchHTTPStatus":       "Search the HTTP status",
		"StartWorkflowExecution": "Start a workflow execution",
		"SendFeedback":           "Send feedback",
		"WriteAssertions":        "Write assertions",
		"TopicStats":             "Topic stats",
		"Batch":                  "Batch",
		"get_store":              "Get the store",
	} {
		if got := action(method, "OpenFGAService"); got != want {
			t.Errorf("%s is %q, want %q", method, got, want)
		}
	}
	if got := action("Check", "Service"); got != "Check" {
		t.Errorf("without a name of the service it is %q", got)
	}
}

func TestPhrases(t *testing.T) {
	t.Parallel()
	for ident, want := range map[string]string{
		"store_id": "store ID", "pageToken": "page token", "ids": "IDs", "callback_url": "callback URL", "HTTPPort": "HTTP port", "_": "_",
		strings.Repeat("ab_cd_", 20): strings.Repeat("ab cd ", 9) + "ab…",
	} {
		if got := phrase(ident, false); got != want {
			t.Errorf("%s is %q, want %q", ident, got, want)
		}
	}
	for most, want := range map[int]string{1: "a and 2 more", 2: "a, b and 1 more", 3: "a, b and c"} {
		if got := listed([]string{"a", "b", "c"}, most); got != want {
			t.Errorf("at most %d are %q, want %q", most, got, want)
		}
	}
}

// TestOutputsInWords has what comes back from RPCs of every kind.
func TestOutputsInWords(t *testing.T) {
	t.Parallel()
	c := mustBuild(t, BuildOptions{}, filesOf(relationsFiles(t)...))
	method := toolOf(t, c, "relations.get_store").Method
	stream := toolOf(t, c, "relations.streamed_list_objects").Method
	for want, tool := range map[string]*Tool{
		"Returns the store.": {Method: method},
		"Starts a long-running operation that ends with an index.": {Method: method, Operation: &Operation{Response: &OperationValue{Name: "a.Index"}}},
		"Starts a long-running operation that ends with stats.":    {Method: method, Operation: &Operation{Response: &OperationValue{Name: "a.Stats"}}},
		"Starts a long-running operation.":                         {Method: method, Operation: &Operation{}},
		"Returns a document.":                                      {Method: method, HTTPBody: true},
		"Returns a stream, each message with object.":              {Method: stream},
	} {
		if got := outputText(tool); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
	for name, want := range map[string]string{
		"google.protobuf.Empty": "nothing", "google.protobuf.StringValue": "a string", "google.protobuf.UInt32Value": "an integer",
		"google.protobuf.FloatValue": "a number", "google.protobuf.Struct": "a JSON object", "google.protobuf.Api": "", "a.Empty": "",
	} {
		if got := wordLists()["types"][name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestGeneratedTextsAreBounded: whatever the descriptors hold, a generated description is a few lines.
func TestGeneratedTextsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 1_000
	long := strings.Repeat("Long", 30)
	f := rpcFile("p.proto", "p", "S"+long+"/Get"+long)
	for i := range 200 {
		for _, m := range f.GetMessageType() {
			m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
				Name: new(fmt.Sprintf("f%d_%s", i, strings.ToLower(long))), Number: new(int32(i + 1)),
				Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			})
		}
	}
	c := mustBuild(t, BuildOptions{Limits: Limits{MaxNameBytes: 1_000}}, filesOf(f))
	text := c.Tools()[0].Description
	if len(text) > most || !utf8.ValidString(text) || !strings.Contains(text, "and 196 more") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

// ownFiles are the files that define the options of this project.
func ownFiles(t *testing.T) []*descriptorpb.FileDescriptorProto {
	t.Helper()
	loaded := loadFile(t, bufImage)
	var out []*descriptorpb.FileDescriptorProto
	for _, f := range loaded.Files {
		if !strings.HasPrefix(f.GetName(), "garden/") {
			out = append(out, f)
		}
	}
	if !slices.ContainsFunc(out, func(f *descriptorpb.FileDescriptorProto) bool { return f.GetName() == "outrigger/v1/options.proto" }) {
		t.Fatal("the options of this project are not there")
	}
	return out
}
