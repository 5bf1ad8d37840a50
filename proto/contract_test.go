// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// files returns the files of both packages of the contract.
func files() []protoreflect.FileDescriptor {
	seen := map[string]protoreflect.FileDescriptor{}
	var visit func(f protoreflect.FileDescriptor)
	visit = func(f protoreflect.FileDescriptor) {
		if _, ok := seen[f.Path()]; ok || !strings.HasPrefix(f.Path(), "outrigger/") {
			return
		}
		seen[f.Path()] = f
		for i := range f.Imports().Len() {
			visit(f.Imports().Get(i).FileDescriptor)
		}
	}
	visit(outriggerv1.File_outrigger_v1_tool_service_proto)
	visit(optionsv1.File_outrigger_v1_options_proto)
	visit(configv1.File_outrigger_config_v1_config_proto)

	var all []protoreflect.FileDescriptor
	for _, f := range seen {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b protoreflect.FileDescriptor) int { return strings.Compare(a.Path(), b.Path()) })
	return all
}

// pathOf returns where a file of the contract is on disk. The options are a module of the workspace.
func pathOf(f protoreflect.FileDescriptor) string {
	if f == optionsv1.File_outrigger_v1_options_proto {
		return "options/" + f.Path()
	}
	return f.Path()
}

// messages returns every message of the contract, nested ones included, map entries excluded.
func messages() []protoreflect.MessageDescriptor {
	var all []protoreflect.MessageDescriptor
	var visit func(ms protoreflect.MessageDescriptors)
	visit = func(ms protoreflect.MessageDescriptors) {
		for i := range ms.Len() {
			if m := ms.Get(i); !m.IsMapEntry() {
				all = append(all, m)
				visit(m.Messages())
			}
		}
	}
	for _, f := range files() {
		visit(f.Messages())
	}
	return all
}

// newMessage returns an empty message of a type of the contract.
func newMessage(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return typ.New().Interface()
}

// TestEverySourceFileIsReached guards the other tests: a file that nothing imports would not be looked at.
func TestEverySourceFileIsReached(t *testing.T) {
	t.Parallel()
	var want []string
	for _, dir := range []string{"outrigger/v1", "outrigger/config/v1", "options/outrigger/v1"} {
		found, err := filepath.Glob(filepath.Join(dir, "*.proto"))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, found...)
	}
	slices.Sort(want)
	var got []string
	for _, f := range files() {
		got = append(got, pathOf(f))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files on disk (-) and in generated code (+) differ; run buf generate:\n%s", diff)
	}
}

// TestServiceHasEveryMethodOfTheDesign lists the RPCs with their messages, because callers and backends depend on each.
func TestServiceHasEveryMethodOfTheDesign(t *testing.T) {
	t.Parallel()
	const none, idempotent, unknown = "NO_SIDE_EFFECTS", "IDEMPOTENT", "IDEMPOTENCY_UNKNOWN"
	want := []string{
		"CallTool(ToolCall) ToolOutcome " + unknown,
		"CallToolStream(ToolCall) stream ToolEvent " + unknown,
		"Exchange(stream Envelope) stream Envelope " + unknown,
		"ListTools(ListToolsRequest) ListToolsResponse " + none,
		"GetTool(GetToolRequest) Tool " + none,
		"WatchTools(WatchToolsRequest) stream ToolsChange " + none,
		"RegisterTool(RegisterToolRequest) RegisterToolResponse " + idempotent,
		"UnregisterTool(UnregisterToolRequest) UnregisterToolResponse " + idempotent,
		"ListResources(ListResourcesRequest) ListResourcesResponse " + none,
		"ListResourceTemplates(ListResourceTemplatesRequest) ListResourceTemplatesResponse " + none,
		"ReadResource(ReadResourceRequest) ResourceOutcome " + none,
		"ListSkills(ListSkillsRequest) ListSkillsResponse " + none,
		"GetSkill(GetSkillRequest) GetSkillResponse " + none,
		"ReadDirectory(ReadDirectoryRequest) ReadDirectoryResponse " + none,
		"ListPrompts(ListPromptsRequest) ListPromptsResponse " + none,
		"GetPrompt(GetPromptRequest) PromptOutcome " + none,
		"Complete(CompleteRequest) CompleteResponse " + none,
		"Publish(Notification) PublishResponse " + unknown,
		"Subscribe(SubscribeRequest) stream Notification " + none,
		"GetTask(GetTaskRequest) Task " + none,
		"UpdateTask(UpdateTaskRequest) UpdateTaskResponse " + idempotent,
		"CancelTask(CancelTaskRequest) CancelTaskResponse " + idempotent,
		"Describe(DescribeRequest) ServerDescription " + none,
	}
	service := outriggerv1.File_outrigger_v1_tool_service_proto.Services().ByName("ToolService")
	if service == nil {
		t.Fatal("no ToolService")
	}
	var got []string
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		stream := func(is bool) string {
			if is {
				return "stream "
			}
			return ""
		}
		level := m.Options().(*descriptorpb.MethodOptions).GetIdempotencyLevel()
		got = append(got, string(m.Name())+"("+stream(m.IsStreamingClient())+string(m.Input().Name())+") "+
			stream(m.IsStreamingServer())+string(m.Output().Name())+" "+level.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("methods (-want +got):\n%s", diff)
	}
}

var update = flag.Bool("update", false, "write the fields and their numbers anew")

// TestFieldsAreOnRecord compares the fields of all messages, what is stored in NATS included, with the record: others wrote and will
// write them under these numbers, and names are keys of JSON and YAML. The number of a field that goes is reserved.
func TestFieldsAreOnRecord(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	list := func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			kind := f.Kind().String()
			switch {
			case f.Message() != nil:
				kind = string(f.Message().FullName())
			case f.Enum() != nil:
				kind = string(f.Enum().FullName())
			}
			fmt.Fprintf(&got, "%s %d %s %s\n", f.FullName(), f.Number(), f.Cardinality(), kind)
		}
		for i := range m.ReservedRanges().Len() {
			r := m.ReservedRanges().Get(i)
			fmt.Fprintf(&got, "%s reserves %d to %d\n", m.FullName(), r[0], r[1]-1)
		}
	}
	for _, m := range messages() {
		list(m)
	}
	for _, f := range []protoreflect.FileDescriptor{statev1.File_outrigger_state_v1_event_proto, statev1.File_outrigger_state_v1_registration_proto, statev1.File_outrigger_state_v1_task_proto} {
		for i := range f.Messages().Len() {
			list(f.Messages().Get(i))
		}
	}
	const golden = "testdata/fields.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("go test ./proto -run TestFieldsAreOnRecord -update writes %s (-on record +now):\n%s", golden, diff)
	}
}

// TestJSONNamesAreTheFieldNames holds for every field, because ProtoJSON's default would be lowerCamelCase.
func TestJSONNamesAreTheFieldNames(t *testing.T) {
	t.Parallel()
	for _, m := range messages() {
		for i := range m.Fields().Len() {
			if f := m.Fields().Get(i); f.JSONName() != string(f.Name()) {
				t.Errorf("%s is %q in JSON; set json_name", f.FullName(), f.JSONName())
			}
		}
	}
}

// TestFreeFormPayloadsHaveAnExactForm: Struct and Value hold numbers as doubles, so in outrigger.v1 each is in a
// oneof with bytes that keep the JSON text. The configuration file is YAML and needs no second form.
func TestFreeFormPayloadsHaveAnExactForm(t *testing.T) {
	t.Parallel()
	payloads := 0
	for _, m := range messages() {
		if m.ParentFile().Package() != "outrigger.v1" {
			continue
		}
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if f.Message() == nil || (f.Message().FullName() != "google.protobuf.Struct" && f.Message().FullName() != "google.protobuf.Value") {
				continue
			}
			payloads++
			exact := m.Fields().ByName(f.Name() + "_json")
			switch {
			case f.ContainingOneof() == nil || exact == nil || exact.ContainingOneof() != f.ContainingOneof():
				t.Errorf("%s has no %s_json in a oneof with it", f.FullName(), f.Name())
			case exact.Kind() != protoreflect.BytesKind:
				t.Errorf("%s is %s, want bytes", exact.FullName(), exact.Kind())
			case f.ContainingOneof().Name() != f.Name()+"_form":
				t.Errorf("%s: the oneof is called %s, want %s_form", f.FullName(), f.ContainingOneof().Name(), f.Name())
			}
		}
	}
	if payloads == 0 {
		t.Fatal("no payload looked at")
	}
}

// TestOptionsAreReadable: the options are found on a method under their names, with their fixed numbers.
func TestOptionsAreReadable(t *testing.T) {
	t.Parallel()
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, optionsv1.E_Tool, &optionsv1.ToolOptions{Name: "shop.delete_order", Destructive: proto.Bool(true)})
	proto.SetExtension(options, optionsv1.E_Resource, &optionsv1.ResourceOptions{UriTemplate: "shop://orders/{id}"})
	wire, err := proto.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	again := &descriptorpb.MethodOptions{}
	if err := proto.Unmarshal(wire, again); err != nil {
		t.Fatal(err)
	}
	if got := proto.GetExtension(again, optionsv1.E_Tool).(*optionsv1.ToolOptions); got.GetName() != "shop.delete_order" || !got.GetDestructive() {
		t.Errorf("tool option = %v", got)
	}
	if got := proto.GetExtension(again, optionsv1.E_Resource).(*optionsv1.ResourceOptions); got.GetUriTemplate() != "shop://orders/{id}" {
		t.Errorf("resource option = %v", got)
	}
	for ext, want := range map[protoreflect.ExtensionType]protoreflect.FieldNumber{optionsv1.E_Tool: 50717, optionsv1.E_Resource: 50718} {
		if got := ext.TypeDescriptor().Number(); got != want {
			t.Errorf("%s has number %d, want %d: services in the field are compiled with it", ext.TypeDescriptor().FullName(), got, want)
		}
	}
}

// declaration is a line of a formatted .proto file that a reader needs a comment for.
var declaration = regexp.MustCompile(`^\s*((message|enum|oneof|service|rpc|extend) .*|((optional|repeated) )?(map<\w+, [\w.]+>|[\w.]+) \w+ = \d+( \[.*|;)|[A-Z][A-Z0-9_]* = \d+;)$`)

// TestEveryDeclarationHasAComment reads the sources, because generated code carries no comments to reflect on.
func TestEveryDeclarationHasAComment(t *testing.T) {
	t.Parallel()
	declarations := 0
	for _, f := range files() {
		file, err := os.Open(pathOf(f))
		if err != nil {
			t.Fatal(err)
		}
		before, number := "", 0
		for s := bufio.NewScanner(file); s.Scan(); before = strings.TrimSpace(s.Text()) {
			number++
			line := s.Text()
			if !declaration.MatchString(line) || strings.HasPrefix(strings.TrimSpace(line), "extend ") {
				continue
			}
			declarations++
			if !strings.HasPrefix(before, "//") {
				t.Errorf("%s:%d: no comment before %q", f.Path(), number, strings.TrimSpace(line))
			}
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
	fields := 0
	for _, m := range messages() {
		fields += m.Fields().Len()
	}
	if declarations < fields {
		t.Errorf("%d declarations recognised, but there are %d fields alone", declarations, fields)
	}
}

// TestLimitsSayDefaultUnitAndRange: docs/configuration.md is made from these options and comments.
func TestLimitsSayDefaultUnitAndRange(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("outrigger/config/v1/limits.proto")
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(source), "message Limits {")
	if body, _, _ = strings.Cut(body, "\n}\n"); !found {
		t.Fatal("no Limits")
	}
	field := regexp.MustCompile(`((?:  // .*\n)+)  (?:optional )?[\w.]+ (\w+) = \d+`)
	fields := field.FindAllStringSubmatch(body, -1)
	limits := (&configv1.Limits{}).ProtoReflect().Descriptor().Fields()
	single := 0
	for i := range limits.Len() {
		if !limits.Get(i).IsList() { // a list of classes is no limit
			single++
		}
	}
	if len(fields) != single {
		t.Fatalf("%d commented fields found, want %d", len(fields), single)
	}
	for _, m := range fields {
		comment, name := m[1], m[2]
		options := limits.ByName(protoreflect.Name(name)).Options()
		if byDefault, _ := proto.GetExtension(options, configv1.E_Default).([]string); len(byDefault) == 0 && !strings.Contains(comment, "Default: ") {
			t.Errorf("%s: neither its options nor the comment say the default", name)
		}
		if f := limits.ByName(protoreflect.Name(name)); f.Message() == nil || f.Message().FullName() != (&configv1.Rate{}).ProtoReflect().Descriptor().FullName() {
			if !strings.Contains(comment, "Range: ") {
				t.Errorf("%s: the comment does not say the range", name)
			}
		}
		if f := limits.ByName(protoreflect.Name(name)); !f.HasPresence() {
			t.Errorf("%s: absence and zero are the same", name)
		}
	}
}
