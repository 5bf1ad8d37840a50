// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func runStatus(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"status"}, args...), strings.NewReader(""), &out, &errs, nil)
	return code, out.String(), errs.String()
}

// TestStatusOfASidecar asks a real one.
func TestStatusOfASidecar(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "serve", "--demo")
	admin := strings.TrimPrefix(p.admin, "http://")
	code, out, stderr := runStatus(t, "--admin", admin)
	if code != exitOK || !regexp.MustCompile(`(?s)^ready\n.*catalog +ok .*\n\nLIMIT +USED +MAX +REFUSED\n.*max_tools +18 +`).MatchString(out) {
		t.Errorf("exit code %d, %s\n%s", code, stderr, out)
	}
	if _, all, _ := runStatus(t, "--admin", admin, "--all"); strings.Count(all, "\n") <= strings.Count(out, "\n")+20 {
		t.Errorf("--all shows\n%s", all)
	}
	_, raw, _ := runStatus(t, "--admin", admin, "--json")
	var report statusReport
	if err := json.Unmarshal([]byte(raw), &report); err != nil || !report.Ready || len(report.Checks) < 3 || len(report.Limits) < 30 {
		t.Errorf("%v: %s", err, raw)
	}
}

// TestStatusOfOthers: what is not ready, not there, closed or no sidecar has its code and a next step.
func TestStatusOfOthers(t *testing.T) {
	t.Parallel()
	answer := func(ready, metrics int, text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				w.WriteHeader(metrics)
				return
			}
			w.WriteHeader(ready)
			_, _ = w.Write([]byte(text))
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	for name, tt := range map[string]struct {
		address  string
		code     int
		out, err string
	}{
		"not ready":    {answer(503, 200, "not ready: catalog\nbackend  failed  circuit breaker open\n"), exitToolFailed, "not ready: catalog\nbackend  failed  circuit breaker open\n\nNone of 0 limits", ""},
		"nothing":      {testkit.Dead(t), exitRefused, "", "nothing listens there; is the sidecar running, and with --admin "},
		"an operator":  {answer(200, 401, "ready\n"), exitRefused, "", "name a file with a token by --token-file"},
		"another page": {answer(404, 404, ""), exitRefused, "", "is this the admin listener of a sidecar (--admin)?"},
		"no address":   {"off", exitUsage, "", "want host:port"},
	} {
		code, out, err := runStatus(t, "--admin", tt.address)
		if code != tt.code || !strings.HasPrefix(out, tt.out) || !strings.Contains(err, tt.err) || (tt.err == "") != (err == "") {
			t.Errorf("%s: exit code %d, %q, %q", name, code, out, err)
		}
	}
}
