// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ErrInvalidSchema is wrapped by every error of Compile.
var ErrInvalidSchema = errors.New("schema: not a usable JSON Schema")

// Bounds of a schema that is compiled, of which a derived one stays clear.
const (
	maxSchemaDepth  = 512 // a message takes up to six levels
	maxSchemaValues = 1 << 20
)

// resourceURL names the schema inside the compiler; nothing is ever loaded from it.
const resourceURL = "mem:///schema.json"

// Validator validates documents against one schema. It is deterministic and safe for concurrent use. Make one with
// Compile or Prepare.
type Validator struct {
	// compiled returns the compiled schema, which may be made when it is first needed.
	compiled func() (*jsonschema.Schema, error)
	source   any // the schema as a document, to say what was wanted
}

// Compile compiles a schema: JSON Schema 2020-12 unless $schema names another draft. References outside the schema are
// refused: nothing is loaded from a file or the network. Formats of Protobuf's types are asserted, others are
// annotations. Every error wraps ErrInvalidSchema.
func Compile(raw json.RawMessage) (*Validator, error) {
	source, err := readSchema(raw)
	if err != nil {
		return nil, err
	}
	return compileNow(source)
}

// Prepare is Compile for a schema that may not be needed soon. It refuses the same schemas with the same errors. If it is
// certain that a schema compiles, it defers compilation to the first use of the validator, which is ten times as fast.
// Use it for declared schemas: a backend may send thousands and call few.
func Prepare(raw json.RawMessage) (*Validator, error) {
	source, err := readSchema(raw)
	if err != nil {
		return nil, err
	}
	if !isPlain(source) {
		return compileNow(source)
	}
	return &Validator{compiled: sync.OnceValues(func() (*jsonschema.Schema, error) { return compile(source) }), source: source}, nil
}

// Document returns the parsed schema: objects are map[string]any, numbers json.Number. Do not modify it.
func (v *Validator) Document() any { return v.source }

func compileNow(source any) (*Validator, error) {
	compiled, err := compile(source)
	if err != nil {
		return nil, err
	}
	return &Validator{compiled: func() (*jsonschema.Schema, error) { return compiled, nil }, source: source}, nil
}

func readSchema(raw json.RawMessage) (any, error) {
	if faults := Inspect(raw, Bounds{MaxDepth: maxSchemaDepth, MaxValues: maxSchemaValues}); len(faults) > 0 {
		return nil, fmt.Errorf("%w: at %q: %s", ErrInvalidSchema, faults[0].Path, faults[0].Message)
	}
	source, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: read: %w", ErrInvalidSchema, err)
	}
	return source, nil
}

func compile(source any) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			compiled, err = nil, fmt.Errorf("%w: compile: %v", ErrInvalidSchema, r)
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.AssertFormat()
	registerFormats(c)
	if err := c.AddResource(resourceURL, source); err != nil {
		return nil, fmt.Errorf("%w: add: %w", ErrInvalidSchema, err)
	}
	if compiled, err = c.Compile(resourceURL); err != nil {
		return nil, fmt.Errorf("%w: compile: %w", ErrInvalidSchema, err)
	}
	return compiled, nil
}

// Validate returns the violations of a document, sorted by path and at most DefaultMaxViolations; nil means that the
// document is valid. The document is inspected first (see Inspect), so text that is not strict JSON gets violations too.
// An error means that the check itself failed, and says nothing about the document.
func (v *Validator) Validate(doc []byte) (found []Violation, err error) {
	if found := Inspect(doc, Bounds{}); len(found) > 0 {
		return found, nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return nil, fmt.Errorf("schema: read document: %w", err)
	}
	defer func() {
		// The library panics on numbers that its arithmetic cannot hold. Inspect refuses those that are known.
		if r := recover(); r != nil {
			found, err = nil, fmt.Errorf("schema: validate: %v", r)
		}
	}()
	compiled, err := v.compiled()
	if err != nil {
		return nil, err
	}
	failure := compiled.Validate(value)
	if failure == nil {
		return nil, nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(failure, &invalid) {
		return nil, fmt.Errorf("schema: validate: %w", failure)
	}
	r := reporter{source: v.source, doc: value}
	return SortViolations(r.flatten(invalid), DefaultMaxViolations), nil
}
