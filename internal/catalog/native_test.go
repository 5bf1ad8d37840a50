// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

const noParameters = `{"type":"object","additionalProperties":false}`

// nativeTool is a tool as a backend declares it, changed by the given functions.
func nativeTool(name string, change ...func(*outriggerv1.Tool)) *outriggerv1.Tool {
	t := &outriggerv1.Tool{Name: name, Description: "Does " + name + "."}
	takes(noParameters)(t)
	for _, c := range change {
		c(t)
	}
	return t
}

func takes(schema string) func(*outriggerv1.Tool) {
	return func(t *outriggerv1.Tool) {
		t.InputSchemaForm = &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(schema)}
	}
}

func answers(schema string) func(*outriggerv1.Tool) {
	return func(t *outriggerv1.Tool) {
		t.OutputSchemaForm = &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: []byte(schema)}
	}
}

// nativeLoad is what a backend of the name brings.
func nativeLoad(name string, tools ...*outriggerv1.Tool) *source.Loaded {
	return &source.Loaded{Source: "tools of " + name, Services: []string{}, Static: true, Native: &source.Native{
		Tools: tools,
		Description: &outriggerv1.ServerDescription{
			Name: name, Version: "1", ContractVersion: "1.0.0", Capabilities: &outriggerv1.ServerCapabilities{},
		},
	}}
}

func TestANativeToolIsWhatItsBackendDeclares(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	icons := []*outriggerv1.Icon{{Src: "https://example.com/a.png", Sizes: []string{"48x48"}}}
	declared := nativeTool("test_simple_text", func(d *outriggerv1.Tool) {
		d.Title, d.Version, d.Icons, d.Tags = "Simple\n text", "2.1.0", icons, []string{"text"}
		d.Annotations = &outriggerv1.ToolAnnotations{Title: "Other", ReadOnlyHint: &yes, OpenWorldHint: &no}
		d.Metadata = &outriggerv1.ToolMetadata{Module: "fixtures", DeprecatedIn: "2.0.0", CacheTtl: durationpb.New(time.Minute)}
		d.Execution = &outriggerv1.ToolExecution{TaskSupport: "optional", Timeout: durationpb.New(time.Second)}
		d.Examples = []*outriggerv1.ToolExample{{Name: "plain", ArgumentsJson: `{}`}, {Name: "wrong", ArgumentsJson: `{"a":1}`}}
		d.MetaForm = &outriggerv1.Tool_MetaJson{MetaJson: []byte(`{ "ui": {"n": 9007199254740993} }`)}
	}, answers(` {"type": "array", "items": {"type": "string"}} `))
	c := mustBuild(t, BuildOptions{}, nativeLoad("fixture", declared))
	tool := toolOf(t, c, "fixture.test_simple_text")
	if byMCP := toolOf(t, c, "test_simple_text"); byMCP != tool || tool.MCPName != "test_simple_text" || tool.NativeName != "test_simple_text" || !tool.Native {
		t.Errorf("names %q, %q, %q, native %v", tool.Name, tool.MCPName, tool.NativeName, tool.Native)
	}
	if tool.Title != "Simple text" || tool.Description != "Deprecated since 2.0.0.\n\nDoes test_simple_text." {
		t.Errorf("title %q, description %q", tool.Title, tool.Description)
	}
	if diff := cmp.Diff(Annotations{ReadOnly: &yes, OpenWorld: &no}, tool.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Metadata{Module: "fixtures", DeprecatedIn: "2.0.0", CacheTTL: time.Minute}, tool.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(icons, tool.Icons, protocmp.Transform()); diff != "" {
		t.Errorf("icons (-want +got):\n%s", diff)
	}
	if tool.Version != "2.1.0" || tool.Timeout != time.Second || tool.TaskSupport != "optional" || !slices.Equal(tool.Tags, []string{"text"}) {
		t.Errorf("version %s, timeout %v, task support %s, tags %v", tool.Version, tool.Timeout, tool.TaskSupport, tool.Tags)
	}
	if len(tool.Examples) != 1 || tool.Examples[0].Name != "plain" || !hasWarning(c, "fixture/test_simple_text: example 2 (wrong) omitted") {
		t.Errorf("examples %v, warnings %v", tool.Examples, c.Warnings())
	}
	if got := string(tool.Meta); got != `{"ui":{"n":9007199254740993}}` {
		t.Errorf("_meta %s", got)
	}
	if got := string(tool.Output.Advertised()); got != `{"type":"array","items":{"type":"string"}}` || !tool.HasOutput() {
		t.Errorf("output schema %s", got)
	}
	if found, err := tool.CheckResult(t.Context(), []byte(`["a",1]`), false); err != nil || len(found) != 1 || found[0].Path != "/1" {
		t.Errorf("a wrong result: %v, %v", found, err)
	}
	if c.Description().GetName() != "fixture" {
		t.Errorf("description %v", c.Description())
	}
}

func TestANativeToolNeedsToSayLittle(t *testing.T) {
	t.Parallel()
	c := mustBuild(t, BuildOptions{}, nativeLoad("fixture", nativeTool("get-HTTP.info", func(d *outriggerv1.Tool) { d.Description = "" })))
	tool := toolOf(t, c, "fixture.get_http.info")
	if tool.Title != "Get HTTP info" || tool.Description != "Get HTTP info: the tool get-HTTP.info of fixture." {
		t.Errorf("title %q, description %q", tool.Title, tool.Description)
	}
	if diff := cmp.Diff(Annotations{}, tool.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Metadata{Module: "fixture", CacheTTL: 300 * time.Second}, tool.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if tool.Version != "1.0.0" || tool.TaskSupport != "forbidden" || tool.Timeout != 0 || tool.Meta != nil || tool.Icons != nil {
		t.Errorf("version %s, task support %s, timeout %v, _meta %s, icons %v", tool.Version, tool.TaskSupport, tool.Timeout, tool.Meta, tool.Icons)
	}
	if tool.HasOutput() || tool.Output == nil || tool.Output.Canonical() != nil {
		t.Errorf("output %+v", tool.Output)
	}
	if found, err := tool.CheckResult(t.Context(), []byte(`7`), false); found != nil || err != nil {
		t.Errorf("a result about which nothing is promised: %v, %v", found, err)
	}
	if len(tool.Fingerprint()) != 64 {
		t.Errorf("fingerprint %q", tool.Fingerprint())
	}
}

// richSchema has the keywords that MCP's conformance suite looks for, and numbers that no double holds.
const richSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef",` +
	`"type":"object","properties":{"street":{"type":"string"}}}},"properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
	`"address":{"$ref":"#addressDef"},"z":{"const":10000000000000000000001},"a":{"description":"\u00fc <b> \/"}},"allOf":[{"anyOf":[{"required":["z"]},` +
	`{"required":["region"]}]}],"if":{"required":["z"]},"then":{"required":["a"]},"else":{"required":["address"]},"additionalProperties":false}`

func TestANativeSchemaIsShownUnchanged(t *testing.T) {
	t.Parallel()
	spaced := strings.NewReplacer(`":`, `" : `, `,"`, ",\n\t\"").Replace(richSchema)
	if !json.Valid([]byte(spaced)) {
		t.Fatal("the test's own schema is broken")
	}
	tool := toolOf(t, mustBuild(t, BuildOptions{}, nativeLoad("fixture", nativeTool("rich", takes(spaced)))), "fixture.rich")
	if string(tool.Input.Advertised()) != richSchema || string(tool.Input.Canonical()) != richSchema {
		t.Errorf("input schema\n%s, want\n%s", tool.Input.Advertised(), richSchema)
	}
	for arguments, isFine := range map[string]bool{
		`{"region":"eu","address":{"street":"x"}}`: true,
		`{"z":10000000000000000000001,"a":1}`:      true,
		`{"z":10000000000000000000000,"a":1}`:      false,
		`{"region":"eu"}`:                          false,
		`{"region":"eu","address":{"street":1}}`:   false,
		`{}`:                                       false,
	} {
		if found, err := tool.CheckArguments(t.Context(), []byte(arguments)); err != nil || isFine != (len(found) == 0) {
			t.Errorf("%s: %v, %v", arguments, found, err)
		}
	}
	want := []HeaderParam{{Header: "Region", Path: []string{"region"}, Pointer: "/region", Type: "string"}}
	if diff := cmp.Diff(want, tool.HeaderParams); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestANativeSchemaMayBeAStruct(t *testing.T) {
	t.Parallel()
	form := func(text string) *structpb.Struct {
		s := &structpb.Struct{}
		if err := s.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	tool := toolOf(t, mustBuild(t, BuildOptions{}, nativeLoad("fixture", nativeTool("form", func(d *outriggerv1.Tool) {
		d.InputSchemaForm = &outriggerv1.Tool_InputSchema{InputSchema: form(`{"type":"object","maxProperties":1}`)}
		d.OutputSchemaForm = &outriggerv1.Tool_OutputSchema{OutputSchema: form(`{"type":"string"}`)}
		d.MetaForm = &outriggerv1.Tool_Meta{Meta: form(`{"a":[1,null]}`)}
	}))), "fixture.form")
	for got, want := range map[string]string{
		string(tool.Input.Advertised()): `{"maxProperties":1,"type":"object"}`, string(tool.Output.Advertised()): `{"type":"string"}`,
		string(tool.Meta): `{"a":[1,null]}`,
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestWhatIsWrongWithANativeToolCostsIt(t *testing.T) {
	t.Parallel()
	change := func(f func(*outriggerv1.Tool)) []*outriggerv1.Tool { return []*outriggerv1.Tool{nativeTool("bad", f)} }
	for name, tc := range map[string]struct {
		tools []*outriggerv1.Tool
		want  string
	}{
		"no name":                {[]*outriggerv1.Tool{nativeTool("")}, "a name has 1 to 128"},
		"a slash":                {[]*outriggerv1.Tool{nativeTool("a/b")}, "fixture/a/b: tool omitted: a name has 1 to 128"},
		"another script":         {[]*outriggerv1.Tool{nativeTool("wetter_für")}, "a name has 1 to 128"},
		"a long name":            {[]*outriggerv1.Tool{nativeTool(strings.Repeat("n", 129))}, "a name has 1 to 128"},
		"no input schema":        {change(func(d *outriggerv1.Tool) { d.InputSchemaForm = nil }), "fixture/bad: tool omitted: input_schema_form"},
		"an array":               {change(takes(`{"type":"array"}`)), "input schema: /type: the root is not an object schema"},
		"no root type":           {change(takes(`{"properties":{}}`)), "input schema: /type: the root is not an object schema"},
		"no schema":              {change(takes(`[]`)), "input schema: it is not a JSON object"},
		"not JSON":               {change(takes(`{"type":`)), "input schema: "},
		"a name twice":           {change(takes(`{"type":"object","type":"object"}`)), "input schema: /type: wanted each name once"},
		"another draft":          {change(takes(`{"type":"object","$schema":"https://example.com/draft"}`)), "external references are not loaded"},
		"a reference outside":    {change(takes(`{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`)), "external references are not loaded"},
		"a file":                 {change(takes(`{"type":"object","$ref":"file:///etc/passwd"}`)), "external references are not loaded"},
		"a wrong keyword":        {change(takes(`{"type":"object","required":1}`)), "input schema: the schema does not compile"},
		"a wrong output schema":  {change(answers(`{"type":"nothing"}`)), "output schema: the schema does not compile"},
		"a misplaced header":     {change(takes(`{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`)), "/properties/a/x-mcp-header: a header is made of"},
		"_meta that is no JSON":  {change(func(d *outriggerv1.Tool) { d.MetaForm = &outriggerv1.Tool_MetaJson{MetaJson: []byte(`{"a"}`)} }), "_meta: "},
		"_meta that is a list":   {change(func(d *outriggerv1.Tool) { d.MetaForm = &outriggerv1.Tool_MetaJson{MetaJson: []byte(`[1]`)} }), "_meta: it is not a JSON object"},
		"a version that is none": {change(func(d *outriggerv1.Tool) { d.Version = "1" }), "version: "},
		"an icon without source": {change(func(d *outriggerv1.Tool) { d.Icons = []*outriggerv1.Icon{{}} }), "icons/0/src: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustBuild(t, BuildOptions{}, nativeLoad("fixture", append(tc.tools, nativeTool("good"))...))
			if !slices.Equal(namesOf(c), []string{"fixture.good"}) || !hasWarning(c, tc.want) {
				t.Errorf("tools %v, warnings %v, want one that says %q", namesOf(c), c.Warnings(), tc.want)
			}
		})
	}
}

func TestNativeNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 128)
	for _, tc := range []struct{ server, declared, want string }{
		{"fixture", "test_simple_text", "fixture.test_simple_text"},
		{"Weather Desk", "getForecast", "weather_desk.get_forecast"},
		{"io.example/weather-v2", "get-forecast", "io_example_weather_v2.get_forecast"},
		{"fixture", "route_guide.get_feature", "route_guide.get_feature"},
		{"fixture", "RouteGuide.GetFeature", "fixture.route_guide.get_feature"},
		{"fixture", "..a..b.", "fixture.a.b"},
		{"fixture", "...", "fixture._"},
		{"fixture", "-", "fixture._"},
		{"天気", "now", "native.now"},
		{"", "now", "native.now"},
		{strings.Repeat("s", 256), "now", strings.Repeat("s", 64) + ".now"},
		{"fixture", long, nativeName("fixture", long, 128)},
	} {
		got := nativeName(nativeService(tc.server), tc.declared, 128)
		if got != tc.want || !IsCanonicalName(got) || len(got) > 128 {
			t.Errorf("%q of %q is %q, want %q", tc.declared, tc.server, got, tc.want)
		}
	}
	cut := nativeName("fixture", long, 128)
	if other := nativeName("fixture", long[1:], 128); cut == other || len(cut) != 128 || !strings.HasPrefix(cut, "fixture.nnn") {
		t.Errorf("long names %q and %q", cut, other)
	}
}

func FuzzNativeName(f *testing.F) {
	f.Add("fixture", "test_simple_text")
	f.Add("Weather Desk", "..a-B..")
	f.Add("", "-")
	f.Fuzz(func(t *testing.T, server, declared string) {
		if !isMCPName(declared) {
			return
		}
		name := nativeName(nativeService(server), declared, 128)
		if !IsCanonicalName(name) || len(name) > 128 {
			t.Errorf("%q of %q is %q", declared, server, name)
		}
		if again := nativeName("other", name, 128); again != name {
			t.Errorf("a canonical name %q becomes %q", name, again)
		}
	})
}

// TestASidecarBehindKeepsItsNames has a backend that is a sidecar itself, whose tools have names in both forms.
func TestASidecarBehindKeepsItsNames(t *testing.T) {
	t.Parallel()
	c := mustBuild(t, BuildOptions{}, nativeLoad("sidecar", nativeTool("route_guide.get_feature", func(d *outriggerv1.Tool) {
		d.McpName, d.Binding = "route_guide_get_feature", &outriggerv1.ToolBinding{Service: "routeguide.RouteGuide", Method: "GetFeature"}
	})))
	tool := toolOf(t, c, "route_guide_get_feature")
	if tool.Name != "route_guide.get_feature" || tool.NativeName != "route_guide.get_feature" || tool != toolOf(t, c, "route_guide.get_feature") {
		t.Errorf("names %q, %q", tool.Name, tool.NativeName)
	}
}

func TestAMarkedNativeToolIsGated(t *testing.T) {
	t.Parallel()
	yes := true
	marked := func(d *outriggerv1.Tool) {
		d.Metadata = &outriggerv1.ToolMetadata{Destructive: true}
		d.Annotations = &outriggerv1.ToolAnnotations{ReadOnlyHint: &yes, IdempotentHint: &yes}
	}
	hinted := func(d *outriggerv1.Tool) { d.Annotations = &outriggerv1.ToolAnnotations{DestructiveHint: &yes} }
	c := mustBuild(t, BuildOptions{}, nativeLoad("fixture", nativeTool("marked", marked), nativeTool("hinted", hinted)))
	for name, want := range map[string]string{
		"marked": `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true}`, "hinted": `{"destructiveHint":true}`,
	} {
		tool := toolOf(t, c, name)
		got, err := json.Marshal(tool.Annotations)
		if err != nil || string(got) != want || !tool.Metadata.Destructive {
			t.Errorf("%s: destructive %v, annotations %s (%v), want %s", name, tool.Metadata.Destructive, got, err, want)
		}
	}
}

func TestNativeToolsHaveAMethodThatNobodyFinds(t *testing.T) {
	t.Parallel()
	c := mustBuild(t, BuildOptions{}, nativeLoad("fixture", nativeTool("a"), nativeTool("b")), filesOf(rpcFile("a.proto", "shop.v1", "S/M")))
	if names := namesOf(c); !slices.Equal(names, []string{"fixture.a", "fixture.b", "s.m"}) {
		t.Errorf("tools %v", names)
	}
	method := toolOf(t, c, "fixture.a").Method
	if method.Procedure != "/outrigger.v1.ToolService/CallTool" || method.Service != "outrigger.v1.ToolService" ||
		method.Source != "tools of fixture" || method.Descriptor.Input().FullName() != "outrigger.v1.ToolCall" ||
		method.ClientStreaming || method.ServerStreaming {
		t.Errorf("method %+v", method)
	}
	if tool, ok := c.ByProcedure(method.Procedure); ok {
		t.Errorf("the procedure finds %s", tool.Name)
	}
	if services := c.Services(); len(services) != 1 || services[0].Name != "shop.v1.S" {
		t.Errorf("services %v", services)
	}
	if _, fault := c.bindable(Binding{"outrigger.v1.ToolService", "CallTool"}); !strings.Contains(fault, "there is no RPC") {
		t.Errorf("a registration could bind to the tool API itself: %q", fault)
	}
	tool := toolOf(t, c, "fixture.a")
	if _, err := tool.CheckRequest(t.Context(), nil); err == nil {
		t.Error("a native tool takes the request of a typed caller")
	}
}

func TestACatalogOfNativeToolsIsNotEmpty(t *testing.T) {
	t.Parallel()
	c := mustBuild(t, BuildOptions{}, nativeLoad("fixture", nativeTool("a")))
	if len(c.Tools()) != 1 || len(c.Services()) != 0 || len(c.Paths()) != 0 || len(c.Fingerprint()) != 64 {
		t.Errorf("tools %v, services %v, paths %v, fingerprint %q", namesOf(c), c.Services(), c.Paths(), c.Fingerprint())
	}
	if _, err := Build([]*source.Loaded{nativeLoad("fixture")}, BuildOptions{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("a native backend without tools: %v", err)
	}
	if got := mustBuild(t, BuildOptions{}, filesOf(rpcFile("a.proto", "a", "S/M"))).Description(); got != nil {
		t.Errorf("without a native backend: %v", got)
	}
}

func TestNativeToolsAreSelectedAndOverlaid(t *testing.T) {
	t.Parallel()
	load := nativeLoad("fixture", nativeTool("first"), nativeTool("Second"))
	rpcs := filesOf(rpcFile("a.proto", "shop.v1", "S/M"))
	for name, tc := range map[string]struct {
		include, exclude, want []string
	}{
		"all":                   {nil, nil, []string{"fixture.first", "fixture.second", "s.m"}},
		"by the service":        {[]string{"fixture"}, nil, []string{"fixture.first", "fixture.second"}},
		"by the declared name":  {[]string{"Second"}, nil, []string{"fixture.second"}},
		"by the canonical name": {nil, []string{"fixture.f*", "s.*"}, []string{"fixture.second"}},
		"like a method":         {nil, []string{"fixture/first"}, []string{"fixture.second", "s.m"}},
		"only the RPCs":         {[]string{"shop.v1.S"}, nil, []string{"s.m"}},
	} {
		c := mustBuild(t, BuildOptions{Selection: selection(t, tc.include, tc.exclude)}, load, rpcs)
		if !slices.Equal(namesOf(c), tc.want) {
			t.Errorf("%s: %v, want %v", name, namesOf(c), tc.want)
		}
	}
	yes, no := true, false
	c := mustBuild(t, BuildOptions{Overlay: []Override{
		{Match: "fixture/first", Options: &configv1.ToolOptions{Name: "desk.first", Destructive: &yes, Timeout: durationpb.New(time.Second)}},
		{Match: "fixture/*", Options: &configv1.ToolOptions{OpenWorld: &no}},
		{Match: "Second", Options: &configv1.ToolOptions{Hidden: &yes}},
	}}, load)
	tool := toolOf(t, c, "desk.first")
	if tool.MCPName != "first" || !tool.Metadata.Destructive || tool.Timeout != time.Second || tool.Annotations.OpenWorld == nil || len(c.Tools()) != 1 {
		t.Errorf("overlaid %+v among %v", tool, namesOf(c))
	}
	for name, o := range map[string]Override{
		"fixture/first: overlay: version":                {Match: "first", Options: &configv1.ToolOptions{Version: "1"}},
		"fixture/first: overlay: its backend runs it":    {Match: "first", InputSchema: json.RawMessage(`{"type":"object"}`)},
		"fixture/first: overlay: its backend runs it, ":  {Match: "fixture/first", OutputSchema: json.RawMessage(`{"type":"object"}`)},
		"fixture/first: overlay: its backend runs":       {Match: "fixture/first", Properties: map[string]string{"n": "A number."}},
		"fixture/first: overlay: its backend runs it, s": {Match: "fixture/*", Resource: &configv1.ResourceOptions{}},
	} {
		_, err := Build([]*source.Loaded{load}, BuildOptions{Overlay: []Override{o}})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
}

func TestNativeNamesCollideLikeOthers(t *testing.T) {
	t.Parallel()
	rpcs := filesOf(rpcFile("a.proto", "shop.v1", "Cart/Add"))
	for name, tc := range map[string]struct {
		loads []*source.Loaded
		want  Collision
	}{
		"canonically":            {[]*source.Loaded{nativeLoad("cart", nativeTool("add")), rpcs}, Collision{"cart.add", "canonical", []string{"cart/add", "shop.v1.Cart/Add"}}},
		"in MCP":                 {[]*source.Loaded{nativeLoad("fixture", nativeTool("cart_add")), rpcs}, Collision{"cart_add", "MCP", []string{"fixture/cart_add", "shop.v1.Cart/Add"}}},
		"as it is spelt":         {[]*source.Loaded{nativeLoad("fixture", nativeTool("addItem"), nativeTool("add_item"))}, Collision{"fixture.add_item", "canonical", []string{"fixture/addItem", "fixture/add_item"}}},
		"declared twice":         {[]*source.Loaded{nativeLoad("fixture", nativeTool("a"), nativeTool("a"))}, Collision{"fixture.a", "canonical", []string{"fixture/a", "fixture/a"}}},
		"in two backends":        {[]*source.Loaded{nativeLoad("one", nativeTool("a")), nativeLoad("two", nativeTool("a"))}, Collision{"a", "MCP", []string{"one/a", "two/a"}}},
		"across the two forms":   {[]*source.Loaded{nativeLoad("fixture", nativeTool("b", func(d *outriggerv1.Tool) { d.McpName = "cart.add" })), rpcs}, Collision{"cart.add", "MCP", []string{"fixture/b", "shop.v1.Cart/Add"}}},
		"where it had one twice": {[]*source.Loaded{nativeLoad("x", nativeTool("cart.add")), rpcs}, Collision{"cart.add", "canonical", []string{"shop.v1.Cart/Add", "x/cart.add"}}},
	} {
		_, err := Build(tc.loads, BuildOptions{})
		got := asError[*BuildError](t, err)
		if diff := cmp.Diff([]Collision{tc.want}, got.Collisions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if name == "declared twice" {
			continue
		}
		mustBuild(t, BuildOptions{Selection: selection(t, nil, tc.want.Methods[1:])}, tc.loads...)
	}
}

func TestNativeToolsOfOneCatalogAreBounded(t *testing.T) {
	t.Parallel()
	_, err := Build([]*source.Loaded{nativeLoad("fixture", nativeTool("a"), nativeTool("b"))}, BuildOptions{Limits: Limits{MaxTools: 1}})
	if got := asError[*BuildError](t, err); len(got.Problems) != 1 || !strings.Contains(err.Error(), "it declares 2 tools; the limit is 1") {
		t.Errorf("error %v", err)
	}
}

func TestEverythingThatIsSeenOfANativeToolCounts(t *testing.T) {
	t.Parallel()
	build := func(change ...func(*outriggerv1.Tool)) *Catalog {
		return mustBuild(t, BuildOptions{}, nativeLoad("fixture", nativeTool("a", change...), nativeTool("b")))
	}
	base := build()
	if again := build(); again.Fingerprint() != base.Fingerprint() || len(again.Since(base).Changed) != 0 {
		t.Error("the same tools have another fingerprint")
	}
	for name, change := range map[string]func(*outriggerv1.Tool){
		"input":  takes(`{"type":"object"}`),
		"output": answers(`{"type":"object"}`),
		"icons":  func(d *outriggerv1.Tool) { d.Icons = []*outriggerv1.Icon{{Src: "https://example.com/"}} },
		"meta":   func(d *outriggerv1.Tool) { d.MetaForm = &outriggerv1.Tool_MetaJson{MetaJson: []byte(`{}`)} },
		"title":  func(d *outriggerv1.Tool) { d.Title = "T" },
	} {
		now := build(change)
		if got := now.Since(base); now.Fingerprint() == base.Fingerprint() || len(got.Changed) != 1 || got.Changed[0].Name != "fixture.a" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTheFirstDescriptionIsShown(t *testing.T) {
	t.Parallel()
	one, two := nativeLoad("one", nativeTool("a")), nativeLoad("two", nativeTool("b"))
	c := mustBuild(t, BuildOptions{}, one, two)
	if c.Description().GetName() != "one" || !hasWarning(c, "tools of two: its description is not shown") {
		t.Errorf("description %v, warnings %v", c.Description(), c.Warnings())
	}
	one.Native.Description.Version = ""
	c = mustBuild(t, BuildOptions{}, one, two)
	if c.Description().GetName() != "two" || !hasWarning(c, "tools of one: its description is omitted: version") {
		t.Errorf("description %v, warnings %v", c.Description(), c.Warnings())
	}
	one.Native.Description = nil
	if c = mustBuild(t, BuildOptions{}, one); c.Description() != nil || !slices.Equal(namesOf(c), []string{"native.a"}) {
		t.Errorf("description %v, tools %v", c.Description(), namesOf(c))
	}
}

func TestNearestKnowsBothNamesOfANativeTool(t *testing.T) {
	t.Parallel()
	c := mustBuild(t, BuildOptions{}, nativeLoad("fixture", nativeTool("getForecast"), nativeTool("other_thing")))
	for _, asked := range []string{"getForcast", "get_forecast", "fixture.get_forecas"} {
		if got := c.Nearest(asked, 2); !slices.Equal(got, []string{"fixture.get_forecast"}) {
			t.Errorf("near %s: %v", asked, got)
		}
	}
}
