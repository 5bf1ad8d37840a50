// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes the page as Markdown. Texts that come from descriptors cannot break out of their place: they hold
// no markup that a page would act on, except what comments use it for (lists, emphasis, code).
func (p *Page) WriteMarkdown(out io.Writer) error {
	w := &writer{Writer: bufio.NewWriter(out), missing: p.Missing}
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

// writer writes paragraphs: each line of a page is followed by an empty one. What goes wrong is kept until Flush.
type writer struct {
	*bufio.Writer
	missing []Gap
	current string
	begun   bool
}

func (w *writer) line(format string, args ...any) {
	if w.begun {
		_ = w.WriteByte('\n')
	}
	w.begun = true
	fmt.Fprintf(w, format+"\n", args...)
}

func (w *writer) section(number int, title, name string) {
	w.current = name
	w.line("## %d. %s", number, title)
}

// gaps ends a section with what is missing in it.
func (w *writer) gaps(section string) {
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

func (w *writer) purpose(p Purpose) {
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

func (w *writer) invocation(i Invocation) {
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

func (w *writer) side(s Side, none string) {
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

func (w *writer) json(raw json.RawMessage) {
	var indented bytes.Buffer
	if err := json.Indent(&indented, raw, "", "  "); err != nil {
		indented.Write(raw)
	}
	w.line("```json\n%s\n```", indented.Bytes())
}

func (w *writer) failures(e Errors) {
	w.section(5, "Errors", sectionErrors)
	w.line("The sidecar returns these errors:")
	w.table("code", e.Canonical)
	w.line("The tool's own errors are %s. By the status of the tool service (%s) they are:", code("TOOL_EXECUTION_FAILED"), code("backendCode"))
	w.table("status", e.Own)
	w.gaps(sectionErrors)
}

func (w *writer) table(first string, list []Failure) {
	rows := []string{"| " + first + " | error type | HTTP | JSON-RPC | retry | when |", "|---|---|---|---|---|---|"}
	for _, f := range list {
		rows = append(rows, fmt.Sprintf("| %s | %s | %d | %d | %s | %s |", code(f.Code), f.ErrorType, f.HTTP, f.JSONRPC, yesNo(f.Retryable), f.When))
	}
	w.line("%s", strings.Join(rows, "\n"))
}

func (w *writer) examples(list []Example) {
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

func (w *writer) security(s Security) {
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
