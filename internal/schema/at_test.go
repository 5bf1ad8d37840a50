// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Each place has its own address, the same by each way that leads there.
func TestAt(t *testing.T) {
	t.Parallel()
	root := schema.ViewOf([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/T"},"b":{"$ref":"#/$defs/T"},"c":{"type":"string"},"d":{"type":"number"},"self":{"$ref":"#"}},
		"$defs":{"T":{"type":"object","properties":{"x":{"type":"string"}}}}}`))
	at := map[string]*byte{}
	for name, place := range root.Properties() {
		at[name] = place.At()
	}
	if at["self"] != root.At() || at["a"] != at["b"] || at["a"] == at["c"] || at["c"] == at["d"] || at["c"] == nil {
		t.Errorf("got %v", at)
	}
	if (schema.View{}).At() != nil {
		t.Error("nothing is somewhere")
	}
}
