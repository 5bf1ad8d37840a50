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

// TestKustomizationsOfPages renders what readers copy from pages: the images are
// theirs.
func TestKustomizationsOfPages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		page, there, folder string
		wants               []string
	}{
		{"injection", "../../outrigger/deploy/k8s/injector", "injector", []string{"image: REGISTRY/injector:", "- --image=REGISTRY/sidecar:TAG\n"}},
		{"five-commands", "../outrigger/deploy/k8s/examples/labelled", "examples/labelled", []string{"image: REGISTRY/toolservice:", "namespace: shop\n"}},
	} {
		page, err := os.ReadFile("../../docs/" + tc.page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(page), "```yaml\n")
		text, _, _ = strings.Cut(text, "```\n")
		folder := t.TempDir()
		base, err := filepath.Abs(tc.folder)
		if err == nil {
			base, err = filepath.Rel(folder, base)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, tc.there) {
			t.Fatalf("the first example of docs/%s.md does not name %s:\n%s", tc.page, tc.there, text)
		}
		if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(strings.ReplaceAll(text, tc.there, base)), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Render(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.wants {
			if !strings.Contains(string(got), want) {
				t.Errorf("%s: %q is not in\n%s", tc.page, want, got)
			}
		}
		if strings.Contains(string(got), "image: registry.example/") {
			t.Errorf("%s: an image is still the clone's:\n%s", tc.page, got)
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
