// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Tool is a tool as its sidecar describes it.
type Tool struct {
	// Name is the canonical name, or that of MCP where the edge tells no other. MCPName may be empty.
	Name, MCPName      string
	Title, Description string
	// Input and Output are the schemas that clients see; Output is nil for none, and in lists that leave it out.
	Input, Output json.RawMessage
	// CanonicalInput and CanonicalOutput are what arguments and results are checked against, on edges that tell.
	CanonicalInput, CanonicalOutput json.RawMessage
	// Hints are what is known of its behaviour, such as "read-only,streaming"; "-" for nothing.
	Hints                string
	Version, Fingerprint string
	// Examples are arguments that work.
	Examples []json.RawMessage
	// Annotations and Metadata are the objects as /rpc shows them, or nil.
	Annotations, Metadata json.RawMessage
}

// readTool reads a tool of /rpc, of a list of MCP, or of catalog.describe. They differ in what they leave out.
func readTool(raw json.RawMessage) *Tool {
	t := &Tool{}
	t.Name, _ = text(raw, "name")
	t.Title, _ = text(raw, "title")
	t.Description, _ = text(raw, "description")
	t.Input, _ = jsontext.Lookup(raw, "inputSchema")
	t.Output = present(raw, "outputSchema")
	t.CanonicalInput, t.CanonicalOutput = present(raw, "canonicalInputSchema"), present(raw, "canonicalOutputSchema")
	t.Annotations = present(raw, "annotations")
	facts := raw
	if meta, ok := jsontext.Lookup(raw, "_meta"); ok {
		t.MCPName = t.Name
		if own, ok := jsontext.Lookup(meta, toolKey); ok {
			facts = own
			if name, ok := text(own, "name"); ok {
				t.Name = name
			}
		}
	}
	if t.Title == "" {
		t.Title, _ = text(t.Annotations, "title")
	}
	t.Version, _ = text(facts, "version")
	t.Fingerprint, _ = text(facts, "fingerprint")
	t.tidy()
	t.Metadata = present(facts, "metadata")
	examples, _ := jsontext.Lookup(raw, "examples")
	for e := range jsontext.Elements(examples) {
		if status, _ := text(e, "status"); status != "" {
			continue // how the tool fails
		}
		if arguments, ok := jsontext.Lookup(e, "arguments"); ok {
			t.Examples = append(t.Examples, arguments)
		}
	}
	deprecated := present(t.Metadata, "deprecated_in")
	t.Hints = hints(map[string]bool{
		"read-only":   isTrue(t.Annotations, "readOnlyHint"),
		"destructive": isTrue(t.Metadata, "destructive") || isTrue(t.Annotations, "destructiveHint"),
		"idempotent":  isTrue(t.Annotations, "idempotentHint"), "streaming": isStream(t.Output), "deprecated": deprecated != nil,
	})
	return t
}

// tidy replaces what no name has, such as the end of a line: names are shown in lines that people and agents copy.
func (t *Tool) tidy() {
	for _, name := range []*string{&t.Name, &t.MCPName, &t.Version, &t.Fingerprint} {
		*name = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return '?'
			}
			return r
		}, *name)
	}
}

// toolFromMessage is a tool of ToolService.
func toolFromMessage(m *outriggerv1.Tool) *Tool {
	a := m.GetAnnotations()
	t := &Tool{
		Name: m.GetName(), MCPName: m.GetMcpName(), Title: m.GetTitle(), Description: m.GetDescription(),
		Input: m.GetInputSchemaJson(), Output: m.GetOutputSchemaJson(),
		CanonicalInput: m.GetCanonicalInputSchemaJson(), CanonicalOutput: m.GetCanonicalOutputSchemaJson(),
		Version: m.GetVersion(), Fingerprint: m.GetFingerprint(),
		Hints: hints(map[string]bool{
			"read-only": a.GetReadOnlyHint(), "destructive": m.GetMetadata().GetDestructive(), "idempotent": a.GetIdempotentHint(),
			"streaming":  m.GetExecution().GetServerStreaming() || m.GetExecution().GetClientStreaming(),
			"deprecated": m.GetMetadata().GetDeprecatedIn() != "",
		}),
	}
	t.tidy()
	for _, e := range m.GetExamples() {
		if e.GetStatus() == "" && e.GetArgumentsJson() != "" {
			t.Examples = append(t.Examples, json.RawMessage(e.GetArgumentsJson()))
		}
	}
	var hints []byte
	for _, hint := range []struct {
		name  string
		value *bool
	}{{"readOnlyHint", a.ReadOnlyHint}, {"destructiveHint", a.DestructiveHint}, {"idempotentHint", a.IdempotentHint}, {"openWorldHint", a.OpenWorldHint}} {
		if hint.value != nil {
			hints = strconv.AppendBool(append(member(hints, hint.name), ':'), *hint.value)
		}
	}
	t.Annotations = append(append([]byte{'{'}, hints...), '}')
	meta := m.GetMetadata()
	t.Metadata = append(jsontext.AppendString([]byte(`{"module":`), meta.GetModule()), `,"destructive":`...)
	t.Metadata = append(strconv.AppendBool(t.Metadata, meta.GetDestructive()), `,"deprecated_in":`...)
	t.Metadata = append(orNull(t.Metadata, meta.GetDeprecatedIn()), `,"cache_ttl":`...)
	t.Metadata = append(strconv.AppendInt(t.Metadata, int64(meta.GetCacheTtl().AsDuration().Seconds()), 10), '}')
	return t
}

// JSON is the tool as /rpc shows one.
func (t *Tool) JSON() json.RawMessage {
	dst := jsontext.AppendString([]byte(`{"name":`), t.Name)
	for _, m := range []struct{ name, value string }{{"title", t.Title}, {"description", t.Description}} {
		dst = jsontext.AppendString(append(member(dst, m.name), ':'), m.value)
	}
	for _, m := range []struct {
		name  string
		value json.RawMessage
	}{{"inputSchema", t.Input}, {"outputSchema", t.Output}, {"annotations", t.Annotations}} {
		dst = append(append(member(dst, m.name), ':'), valueOrNull(m.value)...)
	}
	for _, m := range []struct{ name, value string }{{"version", t.Version}, {"fingerprint", t.Fingerprint}} {
		dst = orNull(append(member(dst, m.name), ':'), m.value)
	}
	dst = append(append(member(dst, "metadata"), ':'), valueOrNull(t.Metadata)...)
	if len(t.CanonicalInput) > 0 {
		dst = append(append(member(dst, "canonicalInputSchema"), ':'), t.CanonicalInput...)
		dst = append(append(member(dst, "canonicalOutputSchema"), ':'), valueOrNull(t.CanonicalOutput)...)
	}
	return append(dst, '}')
}

// hints puts what is known about a tool's behaviour in a few words.
func hints(is map[string]bool) string {
	var out []string
	for _, effect := range []string{"read-only", "destructive", "idempotent"} {
		if is[effect] {
			out = append(out, effect)
			break
		}
	}
	for _, more := range []string{"streaming", "deprecated"} {
		if is[more] {
			out = append(out, more)
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ",")
}

// Summary is what the tool does, in one sentence.
func (t *Tool) Summary() string {
	line, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
	if first, _, ok := strings.Cut(line, ". "); ok {
		line = first + "."
	}
	if line == "" {
		return t.Title
	}
	return line
}

// member begins a member of an object.
func member(dst []byte, name string) []byte {
	if len(dst) > 0 && dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return jsontext.AppendString(dst, name)
}

func orNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsontext.AppendString(dst, s)
}

func valueOrNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// present is a member that is there and not null.
func present(object json.RawMessage, name string) json.RawMessage {
	raw, ok := jsontext.Lookup(object, name)
	if !ok || jsontext.IsNull(raw) {
		return nil
	}
	return raw
}

func isTrue(object json.RawMessage, name string) bool {
	raw, _ := jsontext.Lookup(object, name)
	return string(raw) == "true"
}

// isStream reports whether a schema is that of a result of a streaming RPC: a list of items that may be cut.
func isStream(schema json.RawMessage) bool {
	properties, _ := jsontext.Lookup(schema, "properties")
	_, hasItems := jsontext.Lookup(properties, itemsMember)
	_, isCut := jsontext.Lookup(properties, truncatedMember)
	return hasItems && isCut
}

// The members of the result of a streaming RPC.
const (
	itemsMember     = "items"
	truncatedMember = "truncated"
)

// Items are the items of the result of a streaming RPC, and whether there were more. It is false for any other result.
func Items(data json.RawMessage) (items []json.RawMessage, isCut, ok bool) {
	list, hasItems := jsontext.Lookup(data, itemsMember)
	cut, hasCut := jsontext.Lookup(data, truncatedMember)
	if !hasItems || !hasCut || list[0] != '[' {
		return nil, false, false
	}
	for item := range jsontext.Elements(list) {
		items = append(items, item)
	}
	return items, string(cut) == "true", true
}
