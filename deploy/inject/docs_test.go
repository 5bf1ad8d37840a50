// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/deploy/k8s"
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

// TestFiveCommands: what the page applies renders, its Deployment gets the sidecar by its namespace's label, and the Secret that the page makes is
// the one that the pod waits for. The whole page runs in `make k8s-test`.
func TestFiveCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/five-commands.md")
	if err != nil {
		t.Fatal(err)
	}
	applied := regexp.MustCompile(`kubectl apply -k (deploy/k8s/\S+)`).FindAllStringSubmatch(string(page), -1)
	if len(applied) != 2 {
		t.Fatalf("the page applies %q", applied)
	}
	var rendered []byte
	for _, m := range applied {
		if rendered, err = k8s.Render(filepath.Join("../..", m[1])); err != nil {
			t.Fatal(err)
		}
	}
	injected, results, err := injector(t).Documents(rendered, Manifest{})
	if err != nil || len(results) != 1 || results[0].Decision.Outcome != Injected {
		t.Fatalf("%+v, %v", results, err)
	}
	secret := regexp.MustCompile(`kubectl create secret generic (\S+) --namespace shop --from-file=callers.yaml\n`).FindStringSubmatch(string(page))
	if len(secret) != 2 || !strings.Contains(string(injected), "secretName: "+secret[1]+"\n") {
		t.Errorf("the page makes the Secret %q, the pod waits for another:\n%s", secret, injected)
	}
}
