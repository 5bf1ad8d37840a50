// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// TestASchemaThatDoesNotCompile: a tool that should never have got into a catalog.
func TestASchemaThatDoesNotCompile(t *testing.T) {
	t.Parallel()
	fixed := func(text string) *schema.Lazy { return schema.Fixed(&schema.Schema{Canonical: json.RawMessage(text)}) }
	for name, tool := range map[string]*Tool{
		"input":  {Name: "a.b", Input: fixed(`{"type":3}`), Output: fixed(`{"type":"object"}`)},
		"output": {Name: "a.b", Input: fixed(`{"type":"object"}`), Output: fixed(`{"$ref":"https://example.com/x"}`)},
	} {
		c := &Catalog{byName: map[string]*Tool{"a.b": tool}}
		for range 2 { // the fault is kept, too
			if io, err := c.LoadToolIO("a.b"); io != nil || !errors.Is(err, schema.ErrInvalidSchema) || !strings.Contains(err.Error(), name+" schema of a.b") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
