// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/demo"
)

// TestCallTakesTheTraceContextOfItsEnvironment looks at what the backend gets.
func TestCallTakesTheTraceContextOfItsEnvironment(t *testing.T) {
	t.Parallel()
	service, err := demo.Handler(demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got []string
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == demov1connect.LabEchoProcedure {
			mu.Lock()
			got = append(got, r.Header.Get("Traceparent")+" "+r.Header.Get("Tracestate"))
			mu.Unlock()
		}
		service.ServeHTTP(w, r)
	}))
	backend.Config.Protocols = new(http.Protocols)
	backend.Config.Protocols.SetHTTP1(true)
	backend.Config.Protocols.SetUnencryptedHTTP2(true)
	backend.Start()
	t.Cleanup(backend.Close)
	for _, tt := range []struct {
		environ []string
		want    string
	}{
		{nil, " "},
		{[]string{"TRACEPARENT=" + traceParent, "TRACESTATE=vendor=value"}, traceParent + " vendor=value"},
		{[]string{"TRACEPARENT=" + traceParent + "\r\nX: y", "TRACESTATE="}, " "},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"call", "lab.echo", `{"nonce":"n"}`, "--backend", backend.URL}, strings.NewReader(""), &stdout, &stderr, tt.environ)
		mu.Lock()
		if code != exitOK || len(got) != 1 || got[0] != tt.want {
			t.Errorf("%q: exit %d, the backend got %q, want %q: %s", tt.environ, code, got, tt.want, stderr.String())
		}
		got = nil
		mu.Unlock()
	}
}
