// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// TestCommandsWaitForServersOfDescriptors as long as --descriptors-timeout says, beside what they do otherwise.
func TestCommandsWaitForServersOfDescriptors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		descriptors []string
		want        time.Duration
	}{
		{"reflection", nil, clientTimeout},
		{"a file", []string{"api.binpb"}, clientTimeout},
		{"a server", []string{"https://example.com/api.binpb"}, clientTimeout + time.Minute},
		{"two and a file", []string{"https://example.com/api.binpb", "api.binpb", "oci://example.com/api"}, clientTimeout + 2*time.Minute},
	} {
		cfg := &configv1.Config{Catalog: &configv1.Catalog{Descriptors: tc.descriptors, FetchTimeout: durationpb.New(time.Minute)}}
		if got := patience(cfg); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestACommandNamesTheServerThatDoesNotAnswer, and the setting.
func TestACommandNamesTheServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"tools": {[]string{"tools", "--demo"}, []string{"descriptor set " + server.URL + "/api.binpb", "no complete response within 1s (catalog.fetch_timeout)"}},
		"lint":  {[]string{"lint", "--demo"}, []string{"descriptor set " + server.URL + "/api.binpb", "no complete response within 1s (catalog.fetch_timeout)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			code := run(context.Background(), append(tc.args, "--descriptors", server.URL+"/api.binpb", "--descriptors-timeout", "1s"), strings.NewReader(""), &stdout, &stderr, nil)
			for _, want := range tc.want {
				if code == exitOK || !strings.Contains(stderr.String(), want) {
					t.Errorf("exit %d: %s", code, stderr.String())
				}
			}
		})
	}
}
