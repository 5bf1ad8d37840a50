// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"testing"
)

// What is remembered of names is bounded, and the verdict is the same before and
// behind the bound, the first time and the second.
func TestNamesAreRememberedUpToABound(t *testing.T) {
	t.Parallel()
	rules, err := NewMetadataRules([]string{"x-ok-*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for i := range 3 * maxKnownNames {
			name := fmt.Sprintf("X-Ok-%d", i)
			if i%2 == 1 {
				name = fmt.Sprintf("X-No-%d", i)
			}
			if got := rules.in.admits(name); got != (i%2 == 0) {
				t.Fatalf("%s: %v", name, got)
			}
		}
	}
	kept := 0
	rules.in.names.Range(func(any, any) bool { kept++; return true })
	if kept != maxKnownNames {
		t.Errorf("%d names are kept", kept)
	}
}
