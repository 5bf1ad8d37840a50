// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// takesNumber is a schema that the message of shopFile admits in part.
const takesNumber = `{"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}, "required": ["n"]}`

// shopFile is a service whose request has a 64-bit number and whose response is like it. Scan streams, Drop is marked
// destructive through the overlay of shop, Secret is hidden there.
func shopFile(methods ...string) *descriptorpb.FileDescriptorProto {
	f := rpcFile("shop.proto", "shop.v1", methods...)
	for _, m := range f.GetMessageType() {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name: new("n"), Number: new(int32(1)), Type: descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}, &descriptorpb.FieldDescriptorProto{
			Name: new("long_name"), Number: new(int32(2)), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
	}
	for _, m := range f.GetService()[0].GetMethod() {
		if m.GetName() == "Scan" {
			m.ServerStreaming = new(true)
		}
	}
	return f
}

// shop is a live catalog of shopFile, and its source.
func shop(t testing.TB, o BuildOptions) (*Live, *stubSource) {
	t.Helper()
	from := &stubSource{}
	from.set(sells("Shop/Get", "Shop/Drop", "Shop/Scan", "Shop/Secret"))
	o.Overlay = append(o.Overlay,
		Override{Match: "shop.v1.Shop/Drop", Options: &configv1.ToolOptions{Destructive: new(true)}},
		Override{Match: "shop.v1.Shop/Secret", Options: &configv1.ToolOptions{Hidden: new(true)}})
	live := NewLive([]source.Source{from}, LiveOptions{Build: o})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return live, from
}

func sells(methods ...string) func() (*source.Loaded, error) {
	return func() (*source.Loaded, error) {
		return &source.Loaded{Source: "stub", Files: []*descriptorpb.FileDescriptorProto{shopFile(methods...)}}, nil
	}
}

// registration is one that shop takes, changed by the given functions.
func registration(change ...func(*Registration)) Registration {
	r := Registration{
		Name: "desk.lookup", Description: "Looks a number up. Call it first.",
		InputSchema: json.RawMessage(takesNumber), Binding: Binding{"shop.v1.Shop", "Get"},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func named(name string) func(*Registration) { return func(r *Registration) { r.Name = name } }
func boundTo(method string) func(*Registration) {
	return func(r *Registration) { r.Binding.Method = method }
}
func taking(inputSchema string) func(*Registration) {
	return func(r *Registration) { r.InputSchema = json.RawMessage(inputSchema) }
}

// mustRegister registers a tool that is new.
func mustRegister(t testing.TB, l *Live, r Registration) *Tool {
	t.Helper()
	tool, created, err := l.Register(t.Context(), r)
	if err != nil || !created {
		t.Fatalf("register %s: created %v, error %v", r.Name, created, err)
	}
	return tool
}

func TestARegisteredToolIsListedAsItWasDeclared(t *testing.T) {
	t.Parallel()
	live, _ := shop(t, BuildOptions{})
	before := live.Current()
	tool := mustRegister(t, live, registration(func(r *Registration) {
		r.OutputSchema = json.RawMessage(`{"type":"object","title":"Out"}`)
		r.Metadata = RegisteredMetadata{Module: "desk", DeprecatedIn: "2.0", CacheTTL: new(time.Minute)}
		r.Annotations.OpenWorld = new(false)
		r.Timeout, r.Version = time.Second, "1.2.0"
		r.Examples = []Example{{Name: "two", Arguments: json.RawMessage(`{"n":2}`), Data: json.RawMessage(`{"n":"2"}`)}}
	}))
	got := live.Current()
	for _, name := range []string{"desk.lookup", "desk_lookup"} {
		if found, ok := got.Lookup(name); !ok || found != tool {
			t.Errorf("%s is not found", name)
		}
	}
	if !slices.Contains(got.Tools(), tool) || !slices.IsSortedFunc(got.Tools(), inOrder) || len(got.All()) != len(before.All())+1 {
		t.Errorf("the tools are %v", namesOf(got))
	}
	var want bytes.Buffer
	if err := json.Compact(&want, []byte(takesNumber)); err != nil {
		t.Fatal(err)
	}
	if string(tool.Input.Advertised()) != want.String() || string(tool.Output.Canonical()) != `{"type":"object","title":"Out"}` {
		t.Errorf("schemas %s and %s", tool.Input.Advertised(), tool.Output.Canonical())
	}
	if diff := cmp.Diff(Metadata{Module: "desk", DeprecatedIn: "2.0", CacheTTL: time.Minute}, tool.Metadata); diff != "" {
		t.Error(diff)
	}
	if tool.Title != "Looks a number up" || tool.Description != "Deprecated since 2.0.\n\nLooks a number up. Call it first." ||
		tool.Version != "1.2.0" || tool.Timeout != time.Second || len(tool.Examples) != 1 || *tool.Annotations.OpenWorld || !tool.Registered {
		t.Errorf("tool %+v", tool)
	}
	own, _ := got.ByProcedure("/shop.v1.Shop/Get")
	if own == nil || own.Registered || own != toolOf(t, before, "shop.get") {
		t.Error("the RPC's own tool has changed")
	}
	if _, ok := before.Lookup("desk.lookup"); ok || before.Fingerprint() == got.Fingerprint() {
		t.Error("the catalog before has changed, or has the fingerprint of the new one")
	}
	if i := slices.IndexFunc(got.Services(), func(s Service) bool { return slices.Contains(s.Tools, tool) }); i < 0 {
		t.Error("its service does not know it")
	}
}

func TestTheSameRegistrationAgainChangesNothing(t *testing.T) {
	t.Parallel()
	live, _ := shop(t, BuildOptions{})
	first := mustRegister(t, live, registration())
	before := live.Current()
	for name, again := range map[string]Registration{
		"to the letter":            registration(),
		"other white space, order": registration(taking(`{"required":["n"],"properties":{"n":{"maximum":3,"type":"\u0069nteger"}},"type":"object"}`)),
		"defaults spelt out": registration(func(r *Registration) {
			r.Version, r.TaskSupport, r.Metadata.CacheTTL = "1.0.0", "forbidden", new(5*time.Minute)
		}),
	} {
		tool, created, err := live.Register(t.Context(), again)
		if err != nil || created || tool != first || live.Current() != before {
			t.Errorf("%s: created %v, error %v, same tool %v", name, created, err, tool == first)
		}
	}
}

func TestAnotherToolUnderATakenNameIsAConflict(t *testing.T) {
	t.Parallel()
	live, _ := shop(t, BuildOptions{})
	mustRegister(t, live, registration())
	mustRegister(t, live, registration(named("long.name_"+strings.Repeat("x", 80))))
	for name, tt := range map[string]struct {
		r     Registration
		paths []string
		text  string
	}{
		"another input schema":  {registration(taking(`{"type":"object"}`)), []string{"/input_schema"}, "differs in input_schema"},
		"another output schema": {registration(func(r *Registration) { r.OutputSchema = json.RawMessage(`{"type":"object"}`) }), []string{"/output_schema"}, "differs in output_schema"},
		"everything else": {registration(boundTo("Drop"), func(r *Registration) {
			r.Description, r.Title, r.Version, r.Metadata.Destructive, r.Annotations.ReadOnly = "x", "x", "0.9.0", true, new(false)
			r.Timeout, r.TaskSupport, r.Examples = 1, "optional", []Example{{Arguments: json.RawMessage(`{"n":1}`)}}
		}), []string{"/annotations", "/binding", "/description", "/examples", "/execution/task_support", "/execution/timeout", "/metadata", "/title", "/version"}, "differs in binding"},
		"a derived tool's name":    {registration(named("shop.get")), []string{"/name"}, `belongs to the tool shop.get of shop.v1.Shop/Get`},
		"a name that is only near": {registration(named("shop.g.et")), nil, ""},
	} {
		tool, created, err := live.Register(t.Context(), tt.r)
		if tt.text == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var refused *RegistrationError
		if !errors.As(err, &refused) || refused.Reason != Conflict || created || tool != nil {
			t.Fatalf("%s: tool %v, error %v", name, tool, err)
		}
		if diff := cmp.Diff(tt.paths, pathsOf(refused.Faults)); diff != "" || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// TestANameThatOnlyMCPConfusesIsAConflict has two canonical names with one MCP form.
func TestANameThatOnlyMCPConfusesIsAConflict(t *testing.T) {
	t.Parallel()
	from := &stubSource{}
	from.set(sells("Shop/GetAll"))
	live := NewLive([]source.Source{from}, LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _, err := live.Register(t.Context(), registration(named("shop.get.all"), boundTo("GetAll")))
	if refused := asError[*RegistrationError](t, err); refused.Reason != Conflict || !strings.Contains(err.Error(), `the MCP name "shop_get_all" belongs to`) {
		t.Errorf("error %v", err)
	}
}

func pathsOf(faults []schema.Violation) []string {
	var out []string
	for _, f := range faults {
		out = append(out, f.Path)
	}
	return out
}

func TestInvalidRegistrationsNameEveryFault(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 600) + `{}` + strings.Repeat(`}}`, 600)
	live, _ := shop(t, BuildOptions{})
	before := live.Current()
	for name, tt := range map[string]struct {
		change func(*Registration)
		want   map[string]string // path: part of the message
	}{
		"nothing at all": {func(r *Registration) { *r = Registration{} }, map[string]string{
			"/name": "needs a name", "/description": "needs a description", "/input_schema": "needs an input schema", "/binding": "set service and method of the RPC"}},
		"no schema":                {func(r *Registration) { r.InputSchema = nil }, map[string]string{"/input_schema": "needs an input schema"}},
		"an empty schema text":     {taking(``), map[string]string{"/input_schema": "does not compile"}},
		"not JSON":                 {taking(`{"type":"object"`), map[string]string{"/input_schema": "does not compile"}},
		"a name twice":             {taking(`{"type":"object","type":"object"}`), map[string]string{"/input_schema": "does not compile"}},
		"not UTF-8":                {taking("{\"type\":\"object\",\"title\":\"\xff\"}"), map[string]string{"/input_schema": "does not compile"}},
		"a wrong keyword value":    {taking(`{"type":"object","required":"n"}`), map[string]string{"/input_schema": "at '/required': got string, want array"}},
		"a bad pattern":            {taking(`{"type":"object","properties":{"n":{"pattern":"("}}}`), map[string]string{"/input_schema": "pattern"}},
		"a pattern of RE2":         {taking(`{"type":"object","properties":{"n":{"pattern":"(?i)x"}}}`), map[string]string{"/input_schema": "flags"}},
		"a pattern with a look":    {taking(`{"type":"object","properties":{"n":{"pattern":"^(?=x)"}}}`), map[string]string{"/input_schema": "looks around"}},
		"a reference to nowhere":   {taking(`{"type":"object","properties":{"n":{"$ref":"#/$defs/x"}}}`), map[string]string{"/input_schema": "does not compile"}},
		"a reference to elsewhere": {taking(`{"type":"object","properties":{"n":{"$ref":"http://127.0.0.1:1/x"}}}`), map[string]string{"/input_schema": "does not compile"}},
		"a reference to a file":    {taking(`{"type":"object","properties":{"n":{"$ref":"file:///etc/passwd"}}}`), map[string]string{"/input_schema": "does not compile"}},
		"too deep":                 {taking(deep), map[string]string{"/input_schema": "does not compile"}},
		"too large":                {taking(`{"type":"object","title":"` + strings.Repeat("x", contract().schema) + `"}`), map[string]string{"/input_schema": "the limit is 4194304"}},
		"null":                     {taking(`null`), map[string]string{"/input_schema": "does not compile"}},
		"an array":                 {taking(`{"type":"array"}`), map[string]string{"/input_schema/type": "not an object schema"}},
		"any value":                {taking(`true`), map[string]string{"/input_schema/type": "not an object schema"}},
		"no type":                  {taking(`{"properties":{}}`), map[string]string{"/input_schema/type": "not an object schema"}},
		"one type of two":          {taking(`{"type":["object","null"]}`), map[string]string{"/input_schema/type": "not an object schema"}},
		"a header of a list": {taking(`{"type":"object","properties":{"x-mcp-header":{"type":"string"},"n":{"type":"array","x-mcp-header":"N"}}}`),
			map[string]string{"/input_schema/properties/n/x-mcp-header": "made of a value of"}},
		"an output that is no object": {func(r *Registration) { r.OutputSchema = json.RawMessage(`{"type":"string"}`) }, map[string]string{"/output_schema/type": "not an object schema"}},
		"both schemas": {func(r *Registration) { r.InputSchema, r.OutputSchema = json.RawMessage(`[]`), json.RawMessage(`1`) },
			map[string]string{"/input_schema": "does not compile", "/output_schema": "does not compile"}},
		"a name without a dot":      {named("desk"), map[string]string{"/name": "pattern"}},
		"a name in capitals":        {named("Desk.Lookup"), map[string]string{"/name": "pattern"}},
		"a name with a line feed":   {named("desk.lookup\n"), map[string]string{"/name": "pattern"}},
		"a long name":               {named("desk." + strings.Repeat("x", 124)), map[string]string{"/name": "128"}},
		"an invisible description":  {func(r *Registration) { r.Description = "\u200b\u202e \n" }, map[string]string{"/description": "needs a description"}},
		"a long description":        {func(r *Registration) { r.Description = strings.Repeat("x", 65537) }, map[string]string{"/description": "the limit is 65536"}},
		"a long title":              {func(r *Registration) { r.Title = strings.Repeat("x", 1025) }, map[string]string{"/title": "1024"}},
		"no semantic version":       {func(r *Registration) { r.Version = "v1" }, map[string]string{"/version": "pattern"}},
		"a negative time to live":   {func(r *Registration) { r.Metadata.CacheTTL = new(-time.Second) }, map[string]string{"/metadata/cache_ttl": "0s"}},
		"a long time to live":       {func(r *Registration) { r.Metadata.CacheTTL = new(366 * 24 * time.Hour) }, map[string]string{"/metadata/cache_ttl": "31536000s"}},
		"a long module":             {func(r *Registration) { r.Metadata.Module = strings.Repeat("x", 513) }, map[string]string{"/metadata/module": "512"}},
		"a negative timeout":        {func(r *Registration) { r.Timeout = -1 }, map[string]string{"/execution/timeout": "0s"}},
		"an unknown task support":   {func(r *Registration) { r.TaskSupport = "maybe" }, map[string]string{"/execution/task_support": "optional"}},
		"destructive and read-only": {func(r *Registration) { r.Metadata.Destructive, r.Annotations.ReadOnly = true, new(true) }, map[string]string{"/metadata/destructive": "read-only and destructive"}},
		"too many examples": {func(r *Registration) {
			r.Examples = slices.Repeat([]Example{{Arguments: json.RawMessage(`{"n":1}`)}}, 65)
		}, map[string]string{"/examples": "64"}},
		"an example the schema bars": {func(r *Registration) { r.Examples = []Example{{Arguments: json.RawMessage(`{"n":4}`)}} }, map[string]string{"/examples/0/arguments_json": "would reject"}},
		"an example the RPC bars":    {func(r *Registration) { r.Examples = []Example{{Arguments: json.RawMessage(`{"n":1,"m":1}`)}} }, map[string]string{"/examples/0/arguments_json": "would reject"}},
		"an example with no JSON": {func(r *Registration) {
			r.Examples = []Example{{Arguments: json.RawMessage(`{"n":1}`), Data: json.RawMessage(`{`)}}
		}, map[string]string{"/examples/0/data_json": "not JSON"}},
		"an unknown RPC":     {boundTo("Nope"), map[string]string{"/binding": "there is no RPC shop.v1.Shop/Nope; the methods of the service are Drop, Get, Scan"}},
		"an unknown service": {func(r *Registration) { r.Binding.Service = "x.Y" }, map[string]string{"/binding": "the services are shop.v1.Shop"}},
		"half a binding":     {boundTo(""), map[string]string{"/binding": "set service and method of the RPC"}},
		"a hidden RPC":       {boundTo("Secret"), map[string]string{"/binding": "there is no RPC"}},
		"a streaming RPC":    {boundTo("Scan"), map[string]string{"/binding": "streaming"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool, created, err := live.Register(t.Context(), registration(tt.change))
			refused := asError[*RegistrationError](t, err)
			if refused.Reason != Invalid || created || tool != nil || live.Current() != before {
				t.Errorf("reason %v, created %v, tool %v", refused.Reason, created, tool)
			}
			got := map[string]string{}
			for _, f := range refused.Faults {
				got[f.Path] = f.Message
				if f.Keyword == "" || len(f.Message) > 2000 || strings.Contains(f.Message, "\n") {
					t.Errorf("fault %+v", f)
				}
			}
			for path, part := range tt.want {
				if !strings.Contains(got[path], part) {
					t.Errorf("%s: %q does not say %q", path, got[path], part)
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("faults %v, want %v", got, tt.want)
			}
		})
	}
}

func TestASecondNameIsNoWayAroundTheGate(t *testing.T) {
	t.Parallel()
	live, _ := shop(t, BuildOptions{})
	tool := mustRegister(t, live, registration(boundTo("Drop"), func(r *Registration) {
		r.Metadata.Destructive, r.Annotations = false, Annotations{ReadOnly: new(true), Destructive: new(false)}
	}))
	if !tool.Metadata.Destructive || !*tool.Annotations.Destructive || *tool.Annotations.ReadOnly {
		t.Errorf("metadata %+v, annotations %+v", tool.Metadata, tool.Annotations)
	}
	marked := mustRegister(t, live, registration(named("desk.get"), func(r *Registration) { r.Metadata.Destructive = true }))
	if !marked.Metadata.Destructive || toolOf(t, live.Current(), "shop.get").Metadata.Destructive {
		t.Error("the mark is not where it was made")
	}
}
