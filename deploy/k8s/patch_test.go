// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestPatchOfTheReadme applies the patch that readers copy to a Deployment that
// was there before. It must give the pod that the component gives, but for the
// order of lists that are kept by name.
func TestPatchOfTheReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(readme), "kubectl patch deployment")
	_, after, _ = strings.Cut(after, "```yaml\n")
	patch, _, ok := strings.Cut(after, "\n```")
	if !ok {
		t.Fatal("README.md has no patch")
	}
	folder := t.TempDir()
	deployment, err := os.ReadFile("examples/existing/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"deployment.yaml": string(deployment),
		"patch.yaml":      "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\n" + patch + "\n",
		"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n" +
			"resources: [deployment.yaml]\npatches: [{path: patch.yaml}]\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, want := parse(t, folder), parse(t, "examples/existing")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the README's patch gives another Deployment than the component (-component +patch):\n%s", diff)
	}
}

// TestKustomizationOfTheInjector renders what readers of docs/injection.md copy: the
// images are theirs.
func TestKustomizationOfTheInjector(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/injection.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```\n")
	folder := t.TempDir()
	base, err := filepath.Abs("injector")
	if err == nil {
		base, err = filepath.Rel(folder, base)
	}
	if err != nil {
		t.Fatal(err)
	}
	const there = "../../outrigger/deploy/k8s/injector"
	if !strings.Contains(text, there) {
		t.Fatalf("the first example of docs/injection.md does not name %s:\n%s", there, text)
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(strings.ReplaceAll(text, there, base)), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Render(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image: REGISTRY/injector:", "- --image=REGISTRY/sidecar:TAG\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func parse(t *testing.T, folder string) map[string]any {
	t.Helper()
	text, err := Render(folder)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
