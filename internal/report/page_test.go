// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	_ "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1" // what the demo imports
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// build makes the catalog of a source.
func build(t *testing.T, from source.Source, overlay ...catalog.Override) *catalog.Catalog {
	t.Helper()
	loaded, err := from.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{Overlay: overlay})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// demoSource has the descriptors of the demo service as its reflection shows them, comments included.
func demoSource(t *testing.T) source.Source {
	t.Helper()
	raw, err := os.ReadFile("../demo/demo.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, f := range set.GetFile() {
		have[f.GetName()] = true
	}
	for i := 0; i < len(set.GetFile()); i++ {
		for _, path := range set.GetFile()[i].GetDependency() {
			if have[path] {
				continue
			}
			have[path] = true
			linked, err := protoregistry.GlobalFiles.FindFileByPath(path)
			if err != nil {
				t.Fatal(err)
			}
			set.File = append(set.File, protodesc.ToFileDescriptorProto(linked))
		}
	}
	return source.NewDescriptors("demo", &set, "outrigger.demo.v1.Fleet", "outrigger.demo.v1.Lab")
}

func find(t *testing.T, c *catalog.Catalog, name string) *catalog.Tool {
	t.Helper()
	tool, ok := c.Lookup(name)
	if !ok {
		t.Fatalf("there is no tool %s", name)
	}
	return tool
}

func serverOptions() PageOptions {
	return PageOptions{
		Timeout: 30 * time.Second, Trust: "untrusted", MaxMessageBytes: 10 << 20, MaxResultBytes: 8 << 20, MaxDepth: 64,
		CallerRate: 2.5,
	}
}

func markdown(t *testing.T, p *Page) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.WriteMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestPages compares whole pages: a destructive tool, one with examples, one that streams.
func TestPages(t *testing.T) {
	t.Parallel()
	c := build(t, demoSource(t))
	for _, name := range []string{"fleet.cancel_order", "fleet.find_orders", "lab.relay"} {
		p := NewPage(find(t, c, name), serverOptions())
		golden(t, name+".md", []byte(markdown(t, p)))
		raw, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", append(raw, '\n'))
	}
}

// TestEveryToolOfTheDemo checks what holds for each page, and keeps what is missing on all of them as a golden.
func TestEveryToolOfTheDemo(t *testing.T) {
	t.Parallel()
	var missing strings.Builder
	for _, tool := range build(t, demoSource(t)).All() {
		p := NewPage(tool, PageOptions{})
		page := markdown(t, p)
		at := 0
		for i, title := range []string{"Purpose", "Invocation name", "Input", "Output", "Errors", "Idempotency", "Examples", "Security"} {
			heading := fmt.Sprintf("\n## %d. %s\n", i+1, title)
			found := strings.Index(page[at:], heading)
			if found < 0 {
				t.Fatalf("%s: no section %q after byte %d", tool.Name, heading, at)
			}
			at += found
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{
			sectionPurpose, sectionInvocation, sectionInput, sectionOutput, sectionErrors, sectionIdempotency, sectionExamples, sectionSecurity,
		} {
			if v := members[section]; len(v) == 0 || string(v) == "null" {
				t.Errorf("%s: the JSON form has no %s", tool.Name, section)
			}
		}
		if bytes.Contains(raw, []byte(":null,\"")) && tool.Metadata.DeprecatedIn != "" {
			t.Errorf("%s: a list is null", tool.Name)
		}
		for _, g := range p.Missing {
			t.Errorf("%s: %s: %s", tool.Name, g.Section, g.Text)
		}
		less := NewPage(undeclared(tool), serverOptions())
		page = markdown(t, less)
		fmt.Fprintf(&missing, "%s\n", tool.Name)
		for _, g := range less.Missing {
			fmt.Fprintf(&missing, "  %s: %s\n", g.Section, g.Text)
			if !strings.Contains(page, plain(g.Text)) {
				t.Errorf("%s: the page does not say that %s", tool.Name, g.Text)
			}
		}
	}
	golden(t, "missing.txt", []byte(missing.String()))
}

// undeclared is a tool without what its method's options say, as most services have it.
func undeclared(tool *catalog.Tool) *catalog.Tool {
	bare := *tool
	bare.Examples, bare.Errors, bare.Annotations = nil, nil, catalog.Annotations{}
	return &bare
}

// TestEveryCodeHasItsPlace: a code of the table either concerns a call of a tool, or is known not to.
func TestEveryCodeHasItsPlace(t *testing.T) {
	t.Parallel()
	elsewhere := []errmap.Code{
		errmap.ParseError, errmap.InvalidEnvelope, errmap.MethodNotFound, errmap.InvalidParams, errmap.ResourceNotFound,
		errmap.HeaderMismatch, errmap.UnsupportedProtocolVersion, errmap.SessionNotFound, errmap.DuplicateRequestID,
		errmap.OriginForbidden, errmap.MethodNotAllowed, errmap.NotAcceptable, errmap.UnsupportedMediaType,
		errmap.RegistrationConflict, errmap.RegistrationInvalid, errmap.InvalidAuthorization,
	}
	var placed []errmap.Code
	for _, c := range causes(PageOptions{}) {
		placed = append(placed, c.code)
	}
	for _, code := range errmap.Codes() {
		if slices.Contains(placed, code) == slices.Contains(elsewhere, code) {
			t.Errorf("%s is in both lists, or in none", code)
		}
	}
	for _, s := range statuses() {
		e := errmap.New(errmap.ToolExecutionFailed)
		e.BackendCode = s.code
		if s.code != "unknown" && e.HTTPStatus() == 500 && e.Type() != errmap.TypeToolExecution {
			t.Errorf("%s is not a status that the table knows", s.code)
		}
	}
	if n := len(statuses()); n != 16 {
		t.Errorf("%d statuses, Connect has 16", n)
	}
}

// hostile is a service whose names and comments try to leave their place.
func hostile() *descriptorpb.FileDescriptorSet {
	const text = " # Heading\n <script>alert(1)</script>\n ```\n | a | b |\n"
	str := descriptorpb.FieldDescriptorProto_TYPE_STRING
	one := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: new("h.proto"), Package: new("h"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: new("In"), Field: []*descriptorpb.FieldDescriptorProto{{
				Name: new("secret"), Number: new(int32(1)), Type: &str, Label: &one, JsonName: new("se|cret"),
				Options: &descriptorpb.FieldOptions{DebugRedact: new(true)},
			}}},
			{Name: new("Out")},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Svc"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: new("Do"), InputType: new(".h.In"), OutputType: new(".h.Out")},
			{Name: new("Bare"), InputType: new(".h.Out"), OutputType: new(".h.Out")},
		}}},
		SourceCodeInfo: &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
			{Path: []int32{6, 0, 2, 0}, Span: []int32{1, 1, 1}, LeadingComments: new(text)},
			{Path: []int32{4, 0, 2, 0}, Span: []int32{2, 1, 1}, LeadingComments: new(text)},
		}},
	}}}
}

func TestTextsStayInTheirPlace(t *testing.T) {
	t.Parallel()
	c := build(t, source.NewDescriptors("hostile", hostile()))
	p := NewPage(find(t, c, "svc.do"), PageOptions{})
	page := markdown(t, p)
	for _, bad := range []string{"\n# Heading", "<script>", "\n```\n|", "`se|cret`"} {
		// Schemas are in a block of their own, which a line that begins with a quote cannot end.
		outside := page
		for {
			before, rest, found := strings.Cut(outside, "```json\n")
			if !found {
				break
			}
			_, after, _ := strings.Cut(rest, "\n```")
			outside = before + after
		}
		if strings.Contains(outside, bad) {
			t.Errorf("the page holds %q:\n%s", bad, outside)
		}
	}
	if diff := cmp.Diff([]string{"h.In.secret"}, p.Security.Sensitive); diff != "" {
		t.Errorf("sensitive fields (-want +got):\n%s", diff)
	}
}

func TestWhatIsSaid(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	tests := []struct {
		name    string
		options *configv1.ToolOptions
		check   func(*Page) bool
	}{
		{"nothing", nil, func(p *Page) bool {
			return p.Idempotency.Level == "unknown" && p.Security.Trust == "none" && !p.Security.Destructive &&
				p.Security.Hints[1] == Hint{"destructiveHint", true, false} && slices.ContainsFunc(p.Missing, func(g Gap) bool { return g.Section == sectionPurpose })
		}},
		{"read-only", &configv1.ToolOptions{ReadOnly: &yes}, func(p *Page) bool { return p.Idempotency.Level == "no_side_effects" }},
		{"idempotent", &configv1.ToolOptions{Idempotent: &yes}, func(p *Page) bool {
			return p.Idempotency.Level == "idempotent" && retries(p, "TIMEOUT") && retries(p, "deadline_exceeded")
		}},
		{"not idempotent", &configv1.ToolOptions{Idempotent: &no}, func(p *Page) bool {
			return p.Idempotency.Level == "not_idempotent" && !retries(p, "TIMEOUT") && retries(p, "RATE_LIMITED")
		}},
		{"destructive", &configv1.ToolOptions{Destructive: &yes}, func(p *Page) bool {
			return p.Security.Trust == "trusted" && knows(p, "DESTRUCTIVE_BLOCKED")
		}},
		{"not destructive", &configv1.ToolOptions{Destructive: &no}, func(p *Page) bool { return !knows(p, "DESTRUCTIVE_BLOCKED") }},
		{"a task", &configv1.ToolOptions{TaskSupport: "required"}, func(p *Page) bool { return knows(p, "MISSING_CLIENT_CAPABILITY") }},
		{"described", &configv1.ToolOptions{Description: "What it does.", Title: "Another title", DeprecatedIn: "2.1"}, func(p *Page) bool {
			return !slices.ContainsFunc(p.Missing, func(g Gap) bool { return g.Section == sectionPurpose }) && *p.Purpose.DeprecatedIn == "2.1"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := build(t, source.NewDescriptors("hostile", hostile()), catalog.Override{Match: "svc.bare", Options: tt.options})
			p := NewPage(find(t, c, "svc.bare"), PageOptions{})
			if !tt.check(p) {
				t.Errorf("%+v", p)
			}
		})
	}
}

func retries(p *Page, code string) bool {
	return slices.ContainsFunc(slices.Concat(p.Errors.Canonical, p.Errors.Own), func(f Failure) bool { return f.Code == code && f.Retryable })
}

func knows(p *Page, code string) bool {
	return slices.ContainsFunc(p.Errors.Canonical, func(f Failure) bool { return f.Code == code })
}

// broken is a writer that takes nothing.
type broken struct{}

var errFull = errors.New("full")

func (broken) Write([]byte) (int, error) { return 0, errFull }

func TestAWriterThatFails(t *testing.T) {
	t.Parallel()
	p := NewPage(find(t, build(t, demoSource(t)), "lab.echo"), PageOptions{})
	if err := p.WriteMarkdown(broken{}); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
}
