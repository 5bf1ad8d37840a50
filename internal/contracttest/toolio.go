// SPDX-License-Identifier: Apache-2.0

package contracttest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// ToolIO is a tool's compiled schemas, with which recorded documents are checked.
type ToolIO struct{ *catalog.ToolIO }

// LoadToolIO returns the compiled schemas of a tool of the current catalog, by its canonical or its MCP name.
func (r *SchemaRegistry) LoadToolIO(toolID string) (*ToolIO, error) {
	c := r.current()
	if c == nil {
		return nil, fmt.Errorf("%w: %q", catalog.ErrUnknownTool, toolID)
	}
	io, err := c.LoadToolIO(toolID)
	if err != nil {
		return nil, err
	}
	return &ToolIO{io}, nil
}

// Load is LoadToolIO for a test that ends without the tool.
func (r *SchemaRegistry) Load(tb testing.TB, toolID string) *ToolIO {
	tb.Helper()
	io, err := r.LoadToolIO(toolID)
	if err != nil {
		tb.Fatal(err)
	}
	return io
}

// InvalidError means that a document violates its schema.
type InvalidError struct {
	// Tool is the identifier as requested.
	Tool string
	// Violations are sorted and bounded; there is at least one. Their paths point into
	// the given document.
	Violations []schema.Violation
}

// Error names the first violation and the number of violations.
func (e *InvalidError) Error() string {
	if len(e.Violations) == 0 {
		return fmt.Sprintf("contracttest: document of tool %q is invalid", e.Tool)
	}
	first := e.Violations[0]
	text := fmt.Sprintf("contracttest: document of tool %q is invalid: at %q: %s", e.Tool, first.Path, first.Message)
	if more := len(e.Violations) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// ValidateIO checks a recorded call {"tool", "input", "output"}: tool equals the
// requested identifier, and input and output are objects that satisfy the tool's
// schemas. Other members are allowed. The error is an *InvalidError with all
// violations, unless the check itself failed.
func (t *ToolIO) ValidateIO(doc []byte) error {
	found, err := t.inspect(doc)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	return &InvalidError{Tool: t.Tool, Violations: schema.SortViolations(found, schema.DefaultMaxViolations)}
}

// ValidateInput checks that a document is an object and satisfies the input schema.
func (t *ToolIO) ValidateInput(doc []byte) error { return t.validateOne(t.Input, doc) }

// ValidateOutput checks that a document is an object and satisfies the output schema.
func (t *ToolIO) ValidateOutput(doc []byte) error { return t.validateOne(t.Output, doc) }

func (t *ToolIO) validateOne(v *schema.Validator, doc []byte) error {
	found := schema.Inspect(doc, schema.Bounds{})
	if len(found) == 0 {
		var err error
		if found, err = checkObject(v, bytes.TrimLeft(doc, " \t\r\n"), ""); err != nil {
			return fmt.Errorf("contracttest: tool %q: %w", t.Tool, err)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &InvalidError{Tool: t.Tool, Violations: found}
}

func (t *ToolIO) inspect(doc []byte) ([]schema.Violation, error) {
	if found := schema.Inspect(doc, schema.Bounds{}); len(found) > 0 {
		return found, nil // not readable without doubt, so nothing is looked up in it
	}
	doc = bytes.TrimLeft(doc, " \t\r\n")
	if !jsontext.IsObject(doc) {
		return []schema.Violation{{Keyword: "type", Message: "wanted an object with the members tool, input and output"}}, nil
	}
	found := t.checkTool(doc)
	for _, part := range []struct {
		member string
		schema *schema.Validator
	}{{"input", t.Input}, {"output", t.Output}} {
		value, ok := jsontext.Lookup(doc, part.member)
		if !ok {
			found = append(found, missing(part.member))
			continue
		}
		wrong, err := checkObject(part.schema, value, "/"+part.member)
		if err != nil {
			return nil, fmt.Errorf("contracttest: tool %q: %s: %w", t.Tool, part.member, err)
		}
		found = append(found, wrong...)
	}
	return found, nil
}

func (t *ToolIO) checkTool(doc []byte) []schema.Violation {
	raw, ok := jsontext.Lookup(doc, "tool")
	if !ok {
		return []schema.Violation{missing("tool")}
	}
	if name, ok := jsontext.Text(raw); !ok || name != t.Tool {
		return []schema.Violation{{
			Path: "/tool", Keyword: "const", Message: fmt.Sprintf("wanted %q, the tool that was asked for", t.Tool),
		}}
	}
	return nil
}

func missing(member string) schema.Violation {
	return schema.Violation{Path: "/" + member, Keyword: "required", Message: "wanted this member, found nothing"}
}

// checkObject checks a value that is at path.
func checkObject(v *schema.Validator, value []byte, path string) ([]schema.Violation, error) {
	if !jsontext.IsObject(value) {
		return []schema.Violation{{Path: path, Keyword: "type", Message: "wanted an object"}}, nil
	}
	found, err := v.Validate(value)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Path = path + found[i].Path
	}
	return found, nil
}
