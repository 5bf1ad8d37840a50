// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocumentedAnnotations compares the table of the documentation with the code.
func TestDocumentedAnnotations(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for _, a := range Annotations() {
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", a.Name, a.Values, a.Default, a.Does)
	}
	text, err := os.ReadFile("../../docs/injection.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if table+"\n" != want.String() {
		t.Errorf("the table of docs/injection.md must be\n%s", want.String())
	}
}
