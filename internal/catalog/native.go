// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// native makes tools of what a backend declares itself. What is wrong with one of them costs that one.
func (b *builder) native(load *source.Loaded) {
	if load.Native == nil {
		return
	}
	b.describeServer(load)
	tools := load.Native.Tools
	if len(tools) > b.limits.MaxTools {
		b.problems = append(b.problems, Problem{load.Source,
			fmt.Sprintf("it declares %d tools; the limit is %d", len(tools), b.limits.MaxTools)})
		return
	}
	service := nativeService(load.Native.Description.GetName())
	behind := isSidecar(load.Native)
	for _, declared := range tools {
		b.seen++
		t, err := b.nativeTool(declared, service, load.Source)
		switch {
		case err != nil:
			b.warn(service+"/"+shown.Clip(declared.GetName()), "tool omitted: "+err.Error())
		case t != nil:
			t.CheckedBehind = behind
			b.tools = append(b.tools, t)
		}
	}
}

// describeServer keeps what the first native backend says about itself.
func (b *builder) describeServer(load *source.Loaded) {
	said := load.Native.Description
	switch {
	case said == nil:
	case b.description != nil:
		b.warn(load.Source, "its description is not shown, because another native backend was named first")
	default:
		if err := b.rules.check(said); err != nil {
			b.warn(load.Source, "its description is omitted: "+err.Error())
			return
		}
		b.description = said
	}
}

// nativeTool makes one tool; nil where it is not selected, or where a problem was noted. An error costs the tool.
func (b *builder) nativeTool(declared *outriggerv1.Tool, service, source string) (*Tool, error) {
	if !isMCPName(declared.GetName()) {
		return nil, fmt.Errorf("a name has 1 to %d of the characters A-Z a-z 0-9 _ - . and this one does not", nativeNameLimit)
	}
	if err := b.rules.check(declared); err != nil {
		return nil, err
	}
	t := &Tool{
		Name:   nativeName(service, declared.GetName(), b.limits.MaxNameBytes),
		Native: true, NativeName: declared.GetName(),
		// A sidecar behind this one has given its tools both forms already.
		MCPName: cmp.Or(declared.GetMcpName(), declared.GetName()),
		Method:  nativeMethod(source),
		id:      service + "/" + declared.GetName(),
	}
	names := []string{t.Name, t.MCPName, t.NativeName}
	if rpc := declared.GetBinding(); rpc != nil {
		t.behind = "/" + rpc.GetService() + "/" + rpc.GetMethod()
		// The globs of an operator who knows the RPC go on to mean it where a sidecar is in between.
		names = append(names, rpc.GetService(), rpc.GetService()+"/"+rpc.GetMethod())
		if t.Alias = aliasOf(t.Name, rpc.GetService(), rpc.GetMethod()); t.Alias != "" {
			names = append(names, t.Alias, MCPName(t.Alias))
		}
	}
	if b.prefix != "" {
		t.Name, t.Alias, t.MCPName = b.prefixed(t.Name), b.prefixed(t.Alias), strings.ReplaceAll(b.prefix, ".", "_")+"_"+t.MCPName
		if len(t.MCPName) > mcpNameLimit {
			t.MCPName = MCPName(t.MCPName)
		}
		names = append(names, t.names()...)
	}
	options, schemas, _ := b.overlaid(service, t.id, names, nativeOptions(declared))
	if options.GetName() != "" {
		t.Name, t.Alias = options.GetName(), ""
	}
	if !b.selection.takes(service, t.id, append(names, t.Name)...) {
		b.unselect(t.id)
		return nil, nil
	}
	// What the tool says of itself keeps the rules, so it is the overlay that does not.
	if err := b.rules.checkOptions(options); err != nil {
		b.problems = append(b.problems, Problem{t.id, "overlay: " + oneLine(err)})
		return nil, nil
	}
	if schemas.isForRPC() {
		b.problems = append(b.problems, Problem{t.id, "overlay: its backend runs it, so its schemas cannot be others, and it is no source of resources"})
		return nil, nil
	}
	if !IsCanonicalName(t.Name) || len(t.Name) > b.limits.MaxNameBytes {
		return nil, fmt.Errorf("its canonical name would be %q; the limit is %d bytes", t.Name, b.limits.MaxNameBytes)
	}
	if err := t.declareNative(declared, b.types); err != nil {
		return nil, err
	}
	t.Hidden = options.GetHidden()
	t.Classes = b.classes(t, service, t.id, names)
	b.describeNative(t, declared, options, service)
	return t, nil
}

// nativeMethod is the RPC by which all native tools of a source are called.
func nativeMethod(source string) *Method {
	service := outriggerv1.File_outrigger_v1_tool_service_proto.Services().ByName("ToolService")
	md := service.Methods().ByName("CallTool")
	return &Method{
		Procedure: "/" + methodName(md), Service: string(service.FullName()), Source: source, Descriptor: md,
	}
}

// declareNative gives the tool the schemas and the metadata that its backend declares.
func (t *Tool) declareNative(declared *outriggerv1.Tool, types *Types) error {
	raw, err := freeForm(declared.GetInputSchemaJson(), declared.GetInputSchema())
	if err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	input, faults := compileDeclared(raw)
	if len(faults) > 0 {
		return fmt.Errorf("input schema: %s", faultText(faults))
	}
	var output declaration
	if raw, err = freeForm(declared.GetOutputSchemaJson(), declared.GetOutputSchema()); err != nil {
		return fmt.Errorf("output schema: %w", err)
	}
	if raw != nil {
		if output, faults = compileSchema(raw); len(faults) > 0 {
			return fmt.Errorf("output schema: %s", faultText(faults))
		}
	}
	if t.Meta, err = freeForm(declared.GetMetaJson(), declared.GetMeta()); err != nil {
		return fmt.Errorf("_meta: %w", err)
	}
	none := schema.Fixed(&schema.Schema{})
	t.Input, t.Output, t.print = none, none, newFingerprint(none, none)
	return t.declare(input, output, types)
}

// freeForm is the text of a free-form payload in either of its forms, without white space; nil where neither is there.
// It is one strict JSON object.
func freeForm(raw []byte, form *structpb.Struct) ([]byte, error) {
	if form != nil {
		var err error
		if raw, err = protojson.Marshal(form); err != nil {
			return nil, err
		}
	}
	if raw == nil {
		return nil, nil
	}
	if faults := schema.Inspect(raw, schema.Bounds{MaxValues: maxFreeFormValues, MaxDepth: maxFreeFormDepth}); len(faults) > 0 {
		return nil, errors.New(faultText(faults))
	}
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(out.Bytes(), []byte("{")) {
		return nil, errors.New("it is not a JSON object")
	}
	return out.Bytes(), nil
}

const (
	// maxFreeFormDepth and maxFreeFormValues bound what a backend declares as JSON: they are those of a schema that is
	// compiled, which is the largest of it.
	maxFreeFormDepth  = 512
	maxFreeFormValues = 1 << 20
)

// faultText says the first faults on one line.
func faultText(faults []schema.Violation) string {
	var all []string
	for _, f := range faults {
		all = append(all, strings.TrimPrefix(f.Path+": "+f.Message, ": "))
	}
	return shown.ClipList(all)
}

// nativeOptions are the facts of a declared tool in the form that the overlay changes. Hints are not among them, except
// for the mark as destructive, because one that says nothing differs from one that the overlay leaves alone.
func nativeOptions(declared *outriggerv1.Tool) *configv1.ToolOptions {
	facts := declared.GetMetadata()
	o := &configv1.ToolOptions{
		Title: declared.GetTitle(), Description: declared.GetDescription(), Version: declared.GetVersion(),
		Timeout: declared.GetExecution().GetTimeout(), TaskSupport: declared.GetExecution().GetTaskSupport(),
		Module: facts.GetModule(), DeprecatedIn: facts.GetDeprecatedIn(), CacheTtl: facts.GetCacheTtl(),
		Examples: declared.GetExamples(), Tags: declared.GetTags(), Icons: declared.GetIcons(),
	}
	if facts.GetDestructive() {
		yes := true
		o.Destructive = &yes
	}
	return o
}

// describeNative fills in all of a native tool that is for reading.
func (b *builder) describeNative(t *Tool, declared *outriggerv1.Tool, o *configv1.ToolOptions, service string) {
	b.applyDeclared(t, o, service)
	hints := declared.GetAnnotations()
	t.Annotations = annotate(methodOptions{}, o).over(hintsOf(hints))
	t.markDestructive(b.declaredOnly)
	human := humanName(strings.NewReplacer(".", "_", "-", "_").Replace(t.NativeName))
	// Neither text is cut, because the backend chose the words.
	t.Title = cmp.Or(shown.OneSpaced(o.GetTitle()), shown.OneSpaced(hints.GetTitle()), human)
	text := cmp.Or(strings.TrimSpace(shown.Clean(o.GetDescription())), fmt.Sprintf("%s: the tool %s of %s.", human, t.NativeName, service))
	// A sidecar behind this one has said already that the tool is deprecated.
	deprecated := deprecation(t.Metadata.DeprecatedIn)
	t.Description = deprecated + strings.TrimPrefix(text, deprecated)
	t.Examples = b.examples(t, o.GetExamples())
}

// hintsOf are hints as a backend declares them.
func hintsOf(hints *outriggerv1.ToolAnnotations) Annotations {
	if hints == nil {
		return Annotations{}
	}
	return Annotations{
		ReadOnly: hints.ReadOnlyHint, Destructive: hints.DestructiveHint, //nolint:protogetter // nil is what was not said
		Idempotent: hints.IdempotentHint, OpenWorld: hints.OpenWorldHint, //nolint:protogetter // nil is what was not said
	}
}

// isSidecar reports whether a native backend is a sidecar itself. Only such a one serves MCP: a backend leaves that to the
// sidecar in front of it.
func isSidecar(n *source.Native) bool {
	return n != nil && len(n.Description.GetProtocolVersions()) > 0
}

// typedTools are the RPCs behind the tools that a sidecar lists, for typed callers. Each is known to the policy as the tool
// that was made of it, so that neither way leads around what the other is held to. An RPC without a tool here, because the
// sidecar has none or a glob left it out, cannot be reached.
func (b *builder) typedTools() []*Tool {
	made := map[string][]*Tool{}
	for _, t := range b.tools {
		if t.behind != "" && !t.Hidden {
			made[t.behind] = append(made[t.behind], t)
		}
	}
	out := b.operations
	for _, rpc := range b.typed {
		tools := made[rpc.Method.Procedure]
		if len(tools) == 0 {
			continue
		}
		slices.SortFunc(tools, inOrder)
		as := tools[0]
		if i := slices.IndexFunc(tools, func(t *Tool) bool { return t.Name == rpc.Name || t.Name == rpc.Alias }); i >= 0 {
			as = tools[i]
		}
		rpc.Name, rpc.MCPName, rpc.Version, rpc.Timeout = as.Name, as.MCPName, as.Version, as.Timeout
		rpc.Alias, rpc.Annotations, rpc.Metadata = as.Alias, as.Annotations, as.Metadata
		if i := slices.IndexFunc(tools, func(t *Tool) bool { return t.Metadata.Destructive }); i >= 0 {
			// What the RPC may destroy it destroys under every name.
			rpc.Annotations, rpc.Metadata.Destructive = tools[i].Annotations, true
		}
		out = append(out, rpc)
	}
	return out
}
