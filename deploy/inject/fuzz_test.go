// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
)

// FuzzAnnotation gives any annotation any value: the pod gets a whole sidecar, or a
// refusal that names the annotation.
func FuzzAnnotation(f *testing.F) {
	for _, a := range Annotations() {
		for _, v := range []string{"", "8080", "true", "tokens", "a/b", "10s", "64Mi", "-1", "registry.example/a:1@sha256:00", "namespace", "\x00"} {
			f.Add(a.Name, v)
		}
	}
	i := injector(f)
	f.Fuzz(func(t *testing.T, name, value string) {
		pod := podOf(t, plainPod)
		if Prefix+name == MarkAnnotation {
			return
		}
		pod.Annotations[Prefix+name] = value
		d := i.Decide(pod, Namespace{Name: "shop"})
		switch d.Outcome {
		case Injected:
			got := applied(t, d, pod)
			c := got.Spec.InitContainers[0]
			if c.Name != containerName || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways || c.Image == "" || *c.SecurityContext.AllowPrivilegeEscalation {
				t.Errorf("%s: %q gives %+v", name, value, c)
			}
			if again := i.Decide(got, Namespace{Name: "shop"}); again.Outcome != Present {
				t.Errorf("%s: %q: again: %+v", name, value, again)
			}
		case Refused:
			if !strings.HasPrefix(d.Message, Prefix) || len(d.Message) > 2000+len(name) {
				t.Errorf("%s: %q is refused with %q", name, value, d.Message)
			}
		case Present, Skipped:
			t.Errorf("%s: %q: %+v", name, value, d)
		}
	})
}

// FuzzManifest injects into any text. What comes out is YAML, injecting again changes
// nothing, and taking out gives the same content.
func FuzzManifest(f *testing.F) {
	files, err := filepath.Glob("testdata/*.[yj]*")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	i := injector(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte(MarkAnnotation)) {
			return // the mark of another says what to take out
		}
		got, results, err := i.Documents(text, Manifest{All: true})
		if err != nil {
			return
		}
		again, _, err := i.Documents(got, Manifest{All: true})
		if err != nil {
			t.Fatalf("again: %v\n%s", err, got)
		}
		if !bytes.Equal(got, again) {
			t.Errorf("again (-once +twice):\n%s", cmp.Diff(string(got), string(again)))
		}
		injected := false
		for _, r := range results {
			injected = injected || r.Decision.Outcome == Injected
		}
		back, _, err := i.Documents(got, Manifest{Remove: true})
		if err != nil {
			t.Fatalf("taken out: %v\n%s", err, got)
		}
		if !injected && !bytes.Equal(text, got) {
			t.Error("nothing is injected, and the text has changed")
		}
		if before, after := content(text), content(back); before != after {
			t.Errorf("taken out (-original +now):\n%s", cmp.Diff(before, after))
		}
	})
}

// content is what the documents of a text say, without what is empty.
func content(text []byte) string {
	var b strings.Builder
	for _, chunk := range split(text) {
		var tree any
		if yaml.Unmarshal(chunk, &tree) == nil {
			_ = json.NewEncoder(&b).Encode(withoutEmpty(tree))
		}
	}
	return b.String()
}

func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if v[k] = withoutEmpty(e); v[k] == nil {
				delete(v, k)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for n := range v {
			v[n] = withoutEmpty(v[n])
		}
		if len(v) == 0 {
			return nil
		}
	}
	return v
}
