// SPDX-License-Identifier: Apache-2.0

package mcpschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Check checks a JSON document against one definition. The error says every
// fault, in an order that does not vary.
func (s *Schema) Check(def string, doc []byte) error {
	if fault := jsonrpc.Check(doc, jsonrpc.Limits{}); fault != nil {
		return s.errorf("%s: not JSON: %w", def, fault)
	}
	schema := s.defs[def]
	if schema == nil {
		return s.errorf("there is no definition %s", def)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return s.errorf("%s: %w", def, err)
	}
	if err := checkNumbers(value); err != nil {
		return s.errorf("%s: %w", def, err)
	}
	if err := validate(schema, value); err != nil {
		return s.errorf("%s:%w", def, err)
	}
	return nil
}

// errorf names the revision first.
func (s *Schema) errorf(format string, args ...any) error {
	return fmt.Errorf("MCP "+s.revision+": "+format, args...)
}

// validate orders what is wrong, which the library finds in any order, and
// survives numbers that its arithmetic does not.
func validate(schema *jsonschema.Schema, value any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf(" the check itself failed: %v", r)
		}
	}()
	failure := schema.Validate(value)
	if failure == nil {
		return nil
	}
	lines := strings.Split(failure.Error(), "\n")[1:] // the first names the schema
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, " -")
	}
	slices.Sort(lines)
	return errors.New("\n\t" + strings.Join(slices.Compact(lines), "\n\t"))
}

// Bounds of a number that the library compares quickly: no official message has
// one near them.
const (
	maxNumberBytes = 400
	maxExponent    = 400
)

// checkNumbers refuses numbers that the library would take minutes for, or panic
// at.
func checkNumbers(value any) error {
	switch v := value.(type) {
	case json.Number:
		text := strings.ToLower(string(v))
		_, exponent, _ := strings.Cut(text, "e")
		n, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
		if len(text) > maxNumberBytes || exponent != "" && (err != nil || max(n, -n) > maxExponent) {
			return fmt.Errorf("a number of %d bytes is beyond what can be checked", len(text))
		}
	case []any:
		for _, element := range v {
			if err := checkNumbers(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, member := range v {
			if err := checkNumbers(member); err != nil {
				return err
			}
		}
	}
	return nil
}
