// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ErrInvalidSchema is wrapped by every error of Compile.
var ErrInvalidSchema = errors.New("schema: not a usable JSON Schema")

// ErrCostlySchema is wrapped by the errors of Prepare for schemas that would take too much work.
var ErrCostlySchema = errors.New("it costs too much")

// Bounds of a schema that is compiled, of which a derived one stays clear.
const (
	maxSchemaDepth  = 512 // a message takes up to six levels
	maxSchemaValues = 1 << 20
)

// resourceURL names the schema inside the compiler; nothing is ever loaded from it.
const resourceURL = "mem:///schema.json"

// maxDeferred is the size of a schema, in bytes, up to which it takes some milliseconds to compile.
const maxDeferred = 16 << 10

// Validator validates documents against one schema. It is deterministic and safe for concurrent use. Make one with
// Compile or Prepare.
type Validator struct {
	machines *machines
	source   any // the schema as a document, to say what was wanted
	work     int // that one check may take
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

// Prepare is Compile for a declared schema, which comes from others. It also refuses a schema that costs too much, with an
// error that also wraps ErrCostlySchema: one that takes seconds to compile, or puts thousands of schemas to one value. If it is certain that a schema compiles, and quickly,
// it defers that to the first use of the validator: a backend may send thousands and call few.
func Prepare(raw json.RawMessage) (*Validator, error) {
	source, err := readSchema(raw)
	if err != nil {
		return nil, err
	}
	if n := countSubschemas(source); n > maxSubschemas {
		return nil, fmt.Errorf("%w: %w: it has %d schemas within it; at most %d are allowed", ErrInvalidSchema, ErrCostlySchema, n, maxSubschemas)
	}
	if len(raw) <= maxDeferred && isPlain(source) {
		return newValidator(source), nil
	}
	v, err := compileNow(source)
	if err != nil {
		return nil, err
	}
	if err := checkExpansion(graphOf(v.machines.idle[0].root)); err != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrInvalidSchema, ErrCostlySchema, err)
	}
	return v, nil
}

// Later is Compile for a schema that is known to compile, such as a derived one: the first check compiles it. The error is
// only that of a text which is no schema at all.
func Later(raw json.RawMessage) (*Validator, error) {
	source, err := readSchema(raw)
	if err != nil {
		return nil, err
	}
	return newValidator(source), nil
}

// Document returns the parsed schema: objects are map[string]any, numbers json.Number. Do not modify it.
func (v *Validator) Document() any { return v.source }

func compileNow(source any) (*Validator, error) {
	first, err := compile(source)
	if err != nil {
		return nil, err
	}
	return newValidator(source, first), nil
}

func newValidator(source any, idle ...*machine) *Validator {
	return &Validator{machines: newMachines(func() (*machine, error) { return compile(source) }, idle...), source: source, work: maxWork}
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

func compile(source any) (made *machine, err error) {
	defer func() {
		if r := recover(); r != nil {
			made, err = nil, fmt.Errorf("%w: compile: %v", ErrInvalidSchema, r)
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.AssertFormat()
	registerFormats(c)
	m, size := &machine{}, 0
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		p, err := compileECMA(text)
		if err != nil {
			return nil, err
		}
		if size += p.size; size > maxPatternSize {
			return nil, errors.New("the patterns of the schema are too large together; use smaller repetitions")
		}
		return &meteredPattern{Pattern: p, in: m}, nil
	})
	if err := c.AddResource(resourceURL, source); err != nil {
		return nil, fmt.Errorf("%w: add: %w", ErrInvalidSchema, err)
	}
	if m.root, err = c.Compile(resourceURL); err != nil {
		return nil, fmt.Errorf("%w: compile: %w", ErrInvalidSchema, err)
	}
	for _, s := range graphOf(m.root) {
		m.meter(s)
	}
	return m, nil
}

// Validate is ValidateContext for a check that nothing ends early.
func (v *Validator) Validate(doc []byte) ([]Violation, error) {
	return v.ValidateContext(context.Background(), doc)
}

// ValidateContext returns the violations of a document, sorted by path and at most DefaultMaxViolations; nil means that the
// document is valid. The document is inspected first (see Inspect), so text that is not strict JSON gets violations too. So
// does a document whose check takes too much work; a text that is too long for its schema is not matched with a pattern.
//
// An error means that the check itself failed, and says nothing about the document. It wraps the context's error if the
// check ended with the context.
func (v *Validator) ValidateContext(ctx context.Context, doc []byte) ([]Violation, error) {
	if found := Inspect(doc, Bounds{}); len(found) > 0 {
		return found, nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return nil, fmt.Errorf("schema: read document: %w", err)
	}
	m, err := v.machines.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("schema: validate: %w", err)
	}
	defer v.machines.release(m)
	failure := m.run(ctx, v.work, value)
	if failure == nil {
		return nil, nil
	}
	if errors.Is(failure, ErrTooMuchWork) {
		return []Violation{TooMuchWork("")}, nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(failure, &invalid) {
		return nil, fmt.Errorf("schema: validate: %w", failure)
	}
	r := reporter{source: v.source, doc: value, budget: NewBudget(ctx)}
	found := SortViolations(r.flatten(invalid), DefaultMaxViolations)
	switch err := r.budget.Err(); {
	case errors.Is(err, ErrTooMuchWork) && len(found) == 0:
		return []Violation{TooMuchWork("")}, nil
	case err != nil && !errors.Is(err, ErrTooMuchWork):
		return nil, err
	}
	return found, nil
}

// TooMuchWork is the violation of a document that takes too much work to check.
func TooMuchWork(path string) Violation {
	return Violation{Path: path, Keyword: "maxWork", Message: "takes too much work to check against the schema: send shorter texts, fewer items, or less in one call"}
}
