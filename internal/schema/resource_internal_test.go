// SPDX-License-Identifier: Apache-2.0

package schema

import "testing"

// TestResourceWithoutANameFieldHasName: also one that says so with an empty text.
func TestResourceWithoutANameFieldHasName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"\x0a\x01t": "name", "\x0a\x01t\x1a\x00": "name", "\x0a\x01t\x1a\x02id": "id"} {
		if r, ok := readResource([]byte(in)); !ok || r.NameField != want {
			t.Errorf("%q: %v, %v", in, r, ok)
		}
	}
}
