// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// ErrUnknownTool is wrapped by the error for a name that no visible tool has.
var ErrUnknownTool = errors.New("registry: unknown tool")

// ToolIO holds the compiled schemas of one tool.
type ToolIO struct {
	// Tool is the identifier as requested, in either form.
	Tool string
	// Name is the tool's canonical name. Fingerprint is that of its schemas.
	Name, Fingerprint string
	// Input is the canonical input schema: every form that ProtoJSON accepts.
	// Output is the canonical output schema. If the response's ProtoJSON form is not
	// an object, it is the advertised one, which describes the object {"value": ...}
	// that callers get. If the tool has no output schema, Output accepts everything.
	Input, Output *schema.Validator
}

// LoadToolIO returns the compiled schemas of a tool of the current catalog, by its
// canonical or its MCP name. They are compiled once for each fingerprint. The
// error wraps ErrUnknownTool or schema.ErrInvalidSchema.
func (r *SchemaRegistry) LoadToolIO(toolID string) (*ToolIO, error) {
	tool, ok := r.tools.Lookup(toolID)
	if !ok {
		r.cache.drop(toolID)
		return nil, fmt.Errorf("%w: %q", ErrUnknownTool, clip(toolID))
	}
	pair, err := r.cache.get(tool)
	if err != nil {
		return nil, err
	}
	return &ToolIO{
		Tool: toolID, Name: tool.Name, Fingerprint: tool.Fingerprint(),
		Input: pair.input, Output: pair.output,
	}, nil
}

// Prune drops the compiled schemas of tools that were removed or have changed. Call
// it when there is a new catalog. Otherwise they are dropped at the next request
// for the tool, or when the registry is full.
func (r *SchemaRegistry) Prune() {
	r.cache.prune(r.tools)
}

// maxQuotedName is more than any tool's name has, and keeps an error readable
// whose name somebody else made up.
const maxQuotedName = 128

func clip(name string) string {
	if len(name) > maxQuotedName {
		return strings.ToValidUTF8(name[:maxQuotedName], "") + "..."
	}
	return name
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
		return fmt.Sprintf("registry: document of tool %q is invalid", clip(e.Tool))
	}
	first := e.Violations[0]
	text := fmt.Sprintf("registry: document of tool %q is invalid: at %q: %s", clip(e.Tool), first.Path, first.Message)
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
			return fmt.Errorf("registry: tool %q: %w", clip(t.Tool), err)
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
			return nil, fmt.Errorf("registry: tool %q: %s: %w", clip(t.Tool), part.member, err)
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
			Path: "/tool", Keyword: "const", Message: fmt.Sprintf("wanted %q, the tool that was asked for", clip(t.Tool)),
		}}
	}
	return nil
}

func missing(member string) schema.Violation {
	return schema.Violation{Path: "/" + member, Keyword: "required", Message: "wanted this member, found nothing"}
}

// checkObject checks a value that stands at path.
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

// compiled is the validators of one tool.
type compiled struct{ input, output *schema.Validator }

func compileTool(t *catalog.Tool) (compiled, error) {
	input, err := schema.Compile(t.Input.Canonical())
	if err != nil {
		return compiled{}, fmt.Errorf("registry: input schema of %s: %w", t.Name, err)
	}
	described := t.Output.Canonical()
	if t.OutputNotObject {
		described = t.Output.Advertised()
	}
	if len(described) == 0 {
		described = []byte("true")
	}
	output, err := schema.Compile(described)
	if err != nil {
		return compiled{}, fmt.Errorf("registry: output schema of %s: %w", t.Name, err)
	}
	return compiled{input: input, output: output}, nil
}
