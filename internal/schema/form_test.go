// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// TestBooleanForm: the form is a schema that takes one yes or no, and its texts are escaped.
func TestBooleanForm(t *testing.T) {
	t.Parallel()
	form := schema.BooleanForm("ok", `Say "yes"`, "a\nb")
	const want = `{"type":"object","properties":{"ok":{"type":"boolean","title":"Say \"yes\"","description":"a\nb"}},"required":["ok"]}`
	if string(form) != want {
		t.Errorf("got %s, want %s", form, want)
	}
	validator, err := schema.Prepare(form)
	if err != nil {
		t.Fatal(err)
	}
	for doc, fits := range map[string]bool{`{"ok":true}`: true, `{"ok":false}`: true, `{}`: false, `{"ok":"yes"}`: false, `[]`: false} {
		found, err := validator.Validate([]byte(doc))
		if err != nil || (len(found) == 0) != fits {
			t.Errorf("%s: %v, %v", doc, found, err)
		}
	}
}
