// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// PageOptions are the facts about a sidecar that a tool does not know. Zero ones are left out of the page.
type PageOptions struct {
	// Timeout bounds a call of a tool without a timeout.
	Timeout time.Duration
	// Trust is the trust state, "untrusted" or "trusted".
	Trust string
	// Held reports whether the gate holds a tool back from callers that are not trusted; nil for one that holds back what
	// is marked destructive.
	Held func(t *catalog.Tool) bool
	// MaxMessageBytes, MaxResultBytes and MaxDepth are the limits on a request, a result and the nesting of arguments.
	MaxMessageBytes, MaxResultBytes, MaxDepth int
	// CallerRate and ToolRate are the calls a second that one caller may make, and all callers of one tool together.
	CallerRate, ToolRate float64
}

// Page is a tool's specification. Every section is always there.
type Page struct {
	Tool        string      `json:"tool"`
	Version     string      `json:"version"`
	Fingerprint string      `json:"fingerprint"`
	Purpose     Purpose     `json:"purpose"`
	Invocation  Invocation  `json:"invocation"`
	Input       Side        `json:"input"`
	Output      Side        `json:"output"`
	Errors      Errors      `json:"errors"`
	Idempotency Idempotency `json:"idempotency"`
	Examples    []Example   `json:"examples"`
	Security    Security    `json:"security"`
	// Missing is what is not documented, by section in their order.
	Missing []Gap `json:"missing"`
}

// Purpose says what the tool is for.
type Purpose struct {
	Title        string   `json:"title"`
	Description  string   `json:"description"`
	Module       string   `json:"module"`
	Tags         []string `json:"tags"`
	DeprecatedIn *string  `json:"deprecated_in"`
}

// Invocation says under which names it is called, and how.
type Invocation struct {
	// Canonical is the name everywhere, MCP the one that MCP shows, RPC the path of the method behind them.
	Canonical string `json:"canonical"`
	MCP       string `json:"mcp"`
	RPC       string `json:"rpc"`
	// RequestType and ResponseType are the full names of its messages.
	RequestType  string `json:"request_type"`
	ResponseType string `json:"response_type"`
	// ClientStreaming and ServerStreaming say whether the RPC takes or sends more than one message.
	ClientStreaming bool `json:"client_streaming"`
	ServerStreaming bool `json:"server_streaming"`
	// TaskSupport is "forbidden", "optional" or "required".
	TaskSupport string `json:"task_support"`
}

// Side is the input or the output.
type Side struct {
	// Fields are the members of the advertised schema's root, in their order.
	Fields []Field `json:"fields"`
	// Schema is what clients see, Canonical what is enforced.
	Schema    json.RawMessage `json:"schema"`
	Canonical json.RawMessage `json:"canonical_schema"`
}

// Field is one member.
type Field struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Required    bool   `json:"required"`
	Description string `json:"description"`
}

// Errors are what a call may be answered with instead of a result.
type Errors struct {
	// Canonical are the sidecar's, Own what the tool itself answers: both as the canonical table has them.
	Canonical []Failure `json:"canonical"`
	Own       []Failure `json:"own"`
}

// Failure is one way in which a call fails.
type Failure struct {
	// Code is the canonical code, or the status of the tool service for its own.
	Code      string `json:"code"`
	ErrorType string `json:"error_type"`
	HTTP      int    `json:"http"`
	JSONRPC   int    `json:"json_rpc"`
	// Retryable says whether the same call of this tool may be sent again.
	Retryable bool   `json:"retryable"`
	When      string `json:"when"`
}

// Idempotency says what a second call does.
type Idempotency struct {
	// Level is "no_side_effects", "idempotent", "not_idempotent" or "unknown".
	Level string `json:"level"`
	Text  string `json:"text"`
}

// Example is a call to learn from.
type Example = catalog.Example

// Security says who may call it, what it may do, and what bounds it.
type Security struct {
	// Destructive is the mark that makes the gate hold it back; Trust what a caller needs, TrustNow what the sidecar is
	// set to.
	Destructive bool   `json:"destructive"`
	Trust       string `json:"trust_needed"`
	TrustNow    string `json:"trust_now,omitempty"`
	// Hints are MCP's annotations as clients read them.
	Hints []Hint `json:"hints"`
	// Limits bound a call.
	Limits []Limit `json:"limits"`
	// Sensitive are the fields that are marked debug_redact, which logs and records should not show.
	Sensitive []string `json:"sensitive_fields"`
}

// Hint is one annotation. Declared is false where the value is MCP's default.
type Hint struct {
	Name     string `json:"name"`
	Value    bool   `json:"value"`
	Declared bool   `json:"declared"`
}

// Limit is one bound, with its unit.
type Limit struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Gap is something that is missing, with the way to add it.
type Gap struct {
	Section string `json:"section"`
	Text    string `json:"text"`
}

// NewPage writes the page of a tool. It keeps nothing of what it is given, except the schemas' bytes.
func NewPage(t *catalog.Tool, o PageOptions) *Page {
	p := &Page{
		Tool: t.Name, Version: t.Version, Fingerprint: t.Fingerprint(),
		Purpose: Purpose{Title: t.Title, Description: t.Description, Module: t.Metadata.Module, Tags: nonNil(t.Tags)},
		Invocation: Invocation{
			Canonical: t.Name, MCP: t.MCPName, RPC: t.Method.Procedure,
			RequestType:     string(t.Method.Descriptor.Input().FullName()),
			ResponseType:    string(t.Method.Descriptor.Output().FullName()),
			ClientStreaming: t.Method.ClientStreaming, ServerStreaming: t.Method.ServerStreaming,
			TaskSupport: t.TaskSupport,
		},
		Input:       sideOf(t.Input),
		Output:      sideOf(t.Output),
		Errors:      errorsOf(t, o),
		Idempotency: idempotencyOf(t),
		Examples:    nonNil(t.Examples),
		Security:    securityOf(t, o),
	}
	if since := t.Metadata.DeprecatedIn; since != "" {
		p.Purpose.DeprecatedIn = &since
	}
	p.Missing = gaps(t, p)
	return p
}

// nonNil makes an empty list of none, which JSON then shows as [].
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// WriteMarkdown writes the page as Markdown. Texts that come from descriptors cannot break out of their place: they hold
// no markup that a page would act on, except what comments use it for (lists, emphasis, code).
func (p *Page) WriteMarkdown(out io.Writer) error {
	w := &pageWriter{Writer: bufio.NewWriter(out), missing: p.Missing}
	w.line("# %s", code(p.Tool))
	w.line("Version %s. Fingerprint %s.", plain(p.Version), code(p.Fingerprint))
	w.purpose(p.Purpose)
	w.invocation(p.Invocation)
	w.section(3, "Input", sectionInput)
	w.side(p.Input, "It takes no parameters.")
	w.section(4, "Output", sectionOutput)
	if len(p.Output.Schema) > 0 {
		w.side(p.Output, "The result has no fields.")
	} else {
		w.side(p.Output, "The result has no schema.")
	}
	w.failures(p.Errors)
	w.section(6, "Idempotency", sectionIdempotency)
	w.line("%s", p.Idempotency.Text)
	w.gaps(sectionIdempotency)
	w.examples(p.Examples)
	w.security(p.Security)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write specification page: %w", err)
	}
	return nil
}

// pageWriter writes paragraphs: each line of a page is followed by an empty one. What goes wrong is kept until Flush.
type pageWriter struct {
	*bufio.Writer
	missing []Gap
	current string
	begun   bool
}

func (w *pageWriter) line(format string, args ...any) {
	if w.begun {
		_ = w.WriteByte('\n')
	}
	w.begun = true
	fmt.Fprintf(w, format+"\n", args...)
}

func (w *pageWriter) section(number int, title, name string) {
	w.current = name
	w.line("## %d. %s", number, title)
}

// gaps ends a section with what is missing in it.
func (w *pageWriter) gaps(section string) {
	var items []string
	for _, g := range w.missing {
		if g.Section == section {
			items = append(items, "- Missing: "+plain(g.Text)+".")
		}
	}
	if len(items) > 0 {
		w.line("%s", strings.Join(items, "\n"))
	}
}

func (w *pageWriter) purpose(p Purpose) {
	w.section(1, "Purpose", sectionPurpose)
	// A title is mostly the description's first sentence, which need not be said twice.
	if !strings.HasPrefix(p.Description, p.Title) {
		w.line("%s.", prose(p.Title))
	}
	w.line("%s", prose(p.Description))
	facts := "Module " + code(p.Module) + "."
	if len(p.Tags) > 0 {
		facts += " Tags: " + codes(p.Tags) + "."
	}
	switch {
	case p.DeprecatedIn == nil:
	case *p.DeprecatedIn == "unknown":
		facts += " Deprecated."
	default:
		facts += " Deprecated since " + plain(*p.DeprecatedIn) + "."
	}
	w.line("%s", facts)
	w.gaps(sectionPurpose)
}

func (w *pageWriter) invocation(i Invocation) {
	w.section(2, "Invocation name", sectionInvocation)
	w.line("| where | name |\n|---|---|\n| canonical | %s |\n| MCP | %s |\n| RPC | %s |", code(i.Canonical), code(i.MCP), code(i.RPC))
	text := fmt.Sprintf("The RPC takes %s%s and returns %s%s.",
		map[bool]string{true: "a stream of "}[i.ClientStreaming], code(i.RequestType),
		map[bool]string{true: "a stream of "}[i.ServerStreaming], code(i.ResponseType))
	switch i.TaskSupport {
	case "optional":
		text += " A call may run as a task."
	case "required":
		text += " A call runs as a task."
	}
	w.line("%s", text)
	w.gaps(sectionInvocation)
}

func (w *pageWriter) side(s Side, none string) {
	if len(s.Fields) == 0 {
		w.line("%s", none)
	} else {
		rows := []string{"| name | type | required | description |", "|---|---|---|---|"}
		for _, f := range s.Fields {
			rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", code(f.Name), plain(f.Type), yesNo(f.Required), plain(f.Description)))
		}
		w.line("%s", strings.Join(rows, "\n"))
	}
	if len(s.Schema) > 0 {
		w.json(s.Schema)
	}
	w.gaps(w.current)
}

func (w *pageWriter) json(raw json.RawMessage) {
	var indented bytes.Buffer
	if err := json.Indent(&indented, raw, "", "  "); err != nil {
		indented.Write(raw)
	}
	w.line("```json\n%s\n```", indented.Bytes())
}

func (w *pageWriter) failures(e Errors) {
	w.section(5, "Errors", sectionErrors)
	w.line("The sidecar returns these errors:")
	w.table("code", e.Canonical)
	w.line("The tool's own errors are %s. By the status of the tool service (%s) they are:", code("TOOL_EXECUTION_FAILED"), code("backendCode"))
	w.table("status", e.Own)
	w.gaps(sectionErrors)
}

func (w *pageWriter) table(first string, list []Failure) {
	rows := []string{"| " + first + " | error type | HTTP | JSON-RPC | retry | when |", "|---|---|---|---|---|---|"}
	for _, f := range list {
		rows = append(rows, fmt.Sprintf("| %s | %s | %d | %d | %s | %s |", code(f.Code), f.ErrorType, f.HTTP, f.JSONRPC, yesNo(f.Retryable), f.When))
	}
	w.line("%s", strings.Join(rows, "\n"))
}

func (w *pageWriter) examples(list []Example) {
	w.section(7, "Examples", sectionExamples)
	for _, e := range list {
		w.line("### %s", plain(e.Name))
		if e.Description != "" {
			w.line("%s", prose(e.Description))
		}
		w.json(e.Arguments)
		if len(e.Data) > 0 {
			w.line("gives")
			w.json(e.Data)
		}
		if e.Status != "" {
			w.line("fails with %s.", code(strings.ToLower(e.Status)))
		}
	}
	w.gaps(sectionExamples)
}

func (w *pageWriter) security(s Security) {
	w.section(8, "Security", sectionSecurity)
	switch {
	case s.Trust == "none":
		w.line("It is not marked destructive, so the gate allows it.")
	default:
		why := "It is marked destructive"
		if !s.Destructive {
			why = "It is not marked destructive, but the gate of this sidecar blocks it"
		}
		now := ""
		if s.TrustNow != "" {
			now = " This sidecar's callers are " + plain(s.TrustNow) + "."
		}
		w.line("%s: only trusted callers may call it.%s", why, now)
	}
	rows := []string{"| hint | value | declared |", "|---|---|---|"}
	for _, h := range s.Hints {
		rows = append(rows, fmt.Sprintf("| %s | %t | %s |", code(h.Name), h.Value, yesNo(h.Declared)))
	}
	w.line("%s", strings.Join(rows, "\n"))
	if len(s.Limits) > 0 {
		rows = []string{"| limit | value |", "|---|---|"}
		for _, l := range s.Limits {
			rows = append(rows, fmt.Sprintf("| %s | %s |", l.Name, plain(l.Value)))
		}
		w.line("%s", strings.Join(rows, "\n"))
	}
	if len(s.Sensitive) > 0 {
		w.line("Fields that logs and records should not show: %s.", codes(s.Sensitive))
	}
	w.gaps(sectionSecurity)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// code is a name as code.
func code(s string) string {
	return "`" + strings.NewReplacer("`", "'", "\n", " ", "|", `\|`).Replace(s) + "`"
}

func codes(list []string) string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, code(s))
	}
	return strings.Join(out, ", ")
}

// plain keeps a text on its line and in its cell.
func plain(s string) string {
	return strings.NewReplacer("\n", " ", "|", `\|`, "<", "&lt;").Replace(s)
}

// prose keeps the paragraphs of a comment, but no headings and no HTML.
func prose(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "<", "&lt;"), "\n")
	for i, l := range lines {
		if trimmed := strings.TrimLeft(l, " "); strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
			lines[i] = `\` + trimmed
		}
	}
	return strings.Join(lines, "\n")
}

func sideOf(s *schema.Lazy) Side {
	advertised := s.Advertised()
	return Side{Fields: fieldsOf(advertised), Schema: advertised, Canonical: s.Canonical()}
}

// shape is what a field's line says of its schema.
type shape struct {
	Type        any             `json:"type"`
	Format      string          `json:"format"`
	Encoding    string          `json:"contentEncoding"`
	Enum        []any           `json:"enum"`
	Ref         string          `json:"$ref"`
	Description string          `json:"description"`
	Items       *shape          `json:"items"`
	AnyOf       []*shape        `json:"anyOf"`
	Others      json.RawMessage `json:"additionalProperties"`
	Properties  json.RawMessage `json:"properties"`
	Required    []string        `json:"required"`
}

// fieldsOf lists the members of an object schema, in the order in which they were written. A schema that says nothing
// about members has none.
func fieldsOf(raw json.RawMessage) []Field {
	fields := []Field{}
	var root shape
	if json.Unmarshal(raw, &root) != nil || len(root.Properties) == 0 {
		return fields
	}
	for name, member := range jsontext.Members(root.Properties) {
		var s shape
		_ = json.Unmarshal(member, &s) // what has another form, such as true, says nothing of a type
		fields = append(fields, Field{
			Name: name, Type: s.typeText(0), Required: slices.Contains(root.Required, name), Description: s.Description,
		})
	}
	return fields
}

// maxTypeDepth is how far a field's line looks into lists and maps; the schema below it has the rest.
const maxTypeDepth = 3

// typeText names a type for people.
func (s *shape) typeText(depth int) string {
	if s == nil || depth > maxTypeDepth {
		return "any"
	}
	if len(s.AnyOf) > 0 {
		var forms []string
		for _, f := range s.AnyOf {
			if text := f.typeText(depth + 1); !slices.Contains(forms, text) {
				forms = append(forms, text)
			}
		}
		return strings.Join(forms, " or ")
	}
	if s.Ref != "" {
		if s.Ref == "#" {
			return "the whole again"
		}
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	}
	switch s.Type {
	case nil:
		if len(s.Enum) > 0 {
			return "enum"
		}
		return "any"
	case "array":
		return "list of " + s.Items.typeText(depth+1)
	case "object":
		var values *shape
		if len(s.Properties) == 0 && json.Unmarshal(s.Others, &values) == nil && values != nil {
			return "map to " + values.typeText(depth+1)
		}
		return "object"
	case "string":
		switch {
		case len(s.Enum) > 0:
			return "enum"
		case s.Encoding != "":
			return s.Encoding
		case s.Format != "":
			return "string (" + s.Format + ")"
		}
	}
	if name, ok := s.Type.(string); ok {
		return name
	}
	return fmt.Sprint(s.Type)
}
