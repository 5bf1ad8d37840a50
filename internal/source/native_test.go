// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestNativeOffersThatDiffer: a backend's offer is loaded again where its tools or its description changed, and only there.
func TestNativeOffersThatDiffer(t *testing.T) {
	t.Parallel()
	tool := func(name string) []*outriggerv1.Tool { return []*outriggerv1.Tool{{Name: name}} }
	for name, tt := range map[string]struct {
		then, now *source.Native
		isNew     bool
	}{
		"the same": {
			then: &source.Native{Tools: tool("a"), Description: &outriggerv1.ServerDescription{Name: "desk"}},
			now:  &source.Native{Tools: tool("a"), Description: &outriggerv1.ServerDescription{Name: "desk"}},
		},
		"another tool": {then: &source.Native{Tools: tool("a")}, now: &source.Native{Tools: tool("b")}, isNew: true},
		"another description": {
			then:  &source.Native{Tools: tool("a"), Description: &outriggerv1.ServerDescription{Name: "desk"}},
			now:   &source.Native{Tools: tool("a"), Description: &outriggerv1.ServerDescription{Name: "shop"}},
			isNew: true,
		},
		"nothing any more": {then: &source.Native{Tools: tool("a")}, isNew: true},
	} {
		offer := tt.then
		native := source.NewNative("backend", func(context.Context) (*source.Native, error) { return offer, nil }).(source.Conditional)
		first, err := native.LoadUnless(t.Context(), nil)
		if err != nil || first == nil {
			t.Fatalf("%s: %v, %v", name, first, err)
		}
		offer = tt.now
		if again, err := native.LoadUnless(t.Context(), first.Revision); err != nil || (again != nil) != tt.isNew {
			t.Errorf("%s: %v, %v", name, again, err)
		}
	}
}
