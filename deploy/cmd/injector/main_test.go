// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const shop = `# kept
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  template:
    metadata:
      labels:
        outrigger.dev/inject: enabled
    spec:
      containers:
        - name: shop # kept too
          image: registry.example/shop:1
          ports: [{containerPort: 9090}]
`

// TestInject runs the command as CI would: injecting, checking and taking out.
func TestInject(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(file, []byte(shop), 0o600); err != nil {
		t.Fatal(err)
	}
	injected, errs := command(t, 0, "", "inject", file)
	for _, want := range []string{"# kept\n", "- name: shop # kept too", "http://127.0.0.1:9090", "image: registry.example/outrigger/sidecar:"} {
		if !strings.Contains(injected, want) {
			t.Errorf("%q is not in\n%s", want, injected)
		}
	}
	if errs != "" {
		t.Errorf("it says %q", errs)
	}
	out, _ := command(t, 1, "", "inject", "--check", file)
	if !strings.Contains(out, "shop.yaml: document 1: Deployment shop differs\n") || !strings.Contains(out, "  spec.template.spec.initContainers: nothing becomes") {
		t.Errorf("--check says %q", out)
	}
	if out, errs := command(t, 0, injected, "inject", "--check", "-"); out != "" || errs != "" {
		t.Errorf("--check of what was injected says %q, %q", out, errs)
	}
	if back, _ := command(t, 0, injected, "inject", "--uninject", "-"); back != shop {
		t.Errorf("taken out:\n%s", back)
	}
	changed := strings.Replace(injected, "terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: 90", 1)
	back, errs := command(t, 0, changed, "inject", "--uninject", "-")
	if want := "Deployment shop: stays as it is: spec.terminationGracePeriodSeconds is no longer the 45 that was injected\n"; !strings.Contains(back, "terminationGracePeriodSeconds: 90\n") || !strings.HasSuffix(errs, want) {
		t.Errorf("it says %q, and the grace period that was changed is lost:\n%s", errs, back)
	}
	newer, _ := command(t, 0, injected, "inject", "--image", "registry.example/sidecar:2", "-")
	if strings.Count(newer, "name: sidecar\n") != 1 || !strings.Contains(newer, "image: registry.example/sidecar:2\n") {
		t.Errorf("with another image:\n%s", newer)
	}
	unlabelled := strings.Replace(shop, "outrigger.dev/inject: enabled", "app: shop", 1)
	all, _ := command(t, 0, unlabelled, "inject", "--all", "-")
	if !strings.Contains(all, "name: sidecar\n") {
		t.Errorf("--all:\n%s", all)
	}
	if again, _ := command(t, 0, all, "inject", "-"); again != all {
		t.Errorf("without --all afterwards:\n%s", again)
	}
	out, _ = command(t, 1, injected, "inject", "--check", "--image", "registry.example/sidecar:2", "-")
	if want := `spec.template.spec.initContainers[0].image: "registry.example/outrigger/sidecar:0.1.0-dev" becomes "registry.example/sidecar:2"`; !strings.Contains(out, want) {
		t.Errorf("--check says %q, want %q", out, want)
	}
}

// TestMistakes: each says what is wrong, and ends with its code.
func TestMistakes(t *testing.T) {
	t.Parallel()
	unlabelled := strings.Replace(shop, "outrigger.dev/inject: enabled", "app: shop", 1)
	for name, tc := range map[string]struct {
		code  int
		stdin string
		args  []string
		want  string
	}{
		"no command":         {2, "", nil, "injector serve"},
		"no such command":    {2, "", []string{"injct"}, `there is no command "injct"`},
		"no file":            {2, "", []string{"inject"}, "takes 1 arguments besides flags, not 0"},
		"flags last":         {2, "", []string{"inject", "-", "--check"}, "flags go first"},
		"no such file":       {1, "", []string{"inject", "nosuch.yaml"}, "nosuch.yaml: no such file"},
		"no such flag":       {2, "", []string{"inject", "--chck", "-"}, "chck"},
		"bad image":          {2, shop, []string{"inject", "--image", "a b", "-"}, `image "a b" is no image reference`},
		"no YAML":            {1, "a: b: c", []string{"inject", "-"}, "-: document 1: yaml:"},
		"the second":         {1, shop + "---\nkind: Pod\nmetadata: {name: x}\n", []string{"inject", "-"}, "document 2: Pod x: spec.containers: there are no containers"},
		"not labelled":       {0, unlabelled, []string{"inject", "-"}, "Deployment shop: not injected: neither the pod nor its namespace has the label"},
		"refused":            {1, strings.Replace(shop, "9090", "8080", 1), []string{"inject", "-"}, "Deployment shop: starts without the sidecar: outrigger.dev/listen-port: container shop uses port 8080"},
		"refused in a check": {1, strings.Replace(shop, "9090", "8080", 1), []string{"inject", "--check", "-"}, "starts without the sidecar"},
		"anchor":             {1, strings.Replace(shop, "    spec:\n", "    spec: &spec\n", 1), []string{"inject", "-"}, "spec.template.spec is shared by a YAML anchor; write it out"},
		"log level":          {2, "", []string{"serve", "--log-level", "warn"}, "must be debug, info or error"},
		"no cluster":         {1, "", []string{"serve", "--kubeconfig", "nosuch"}, "nosuch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs := command(t, tc.code, tc.stdin, tc.args...)
			if !strings.Contains(errs, tc.want) {
				t.Errorf("it says %q, want %q", errs, tc.want)
			}
			if tc.code == 0 && out != tc.stdin {
				t.Errorf("the manifest has changed:\n%s", out)
			}
		})
	}
}

func TestOthers(t *testing.T) {
	t.Parallel()
	for _, tc := range [][2]string{{"annotations", "outrigger.dev/app-sleep\n"}, {"version", "injector dev unknown\n"}, {"help", "injector inject FILE|-"}} {
		if out, _ := command(t, 0, "", tc[0]); !strings.Contains(out, tc[1]) {
			t.Errorf("%s says %q", tc[0], out)
		}
	}
}

// command runs the program, and wants an exit code.
func command(t *testing.T, code int, stdin string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(t.Context(), args, strings.NewReader(stdin), &out, &errs); got != code {
		t.Errorf("%q ends with code %d, want %d: %s", args, got, code, errs.String())
	}
	return out.String(), errs.String()
}
