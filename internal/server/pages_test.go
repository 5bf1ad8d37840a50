// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// page gets a page as it comes.
func page(t *testing.T, url string, header map[string]string) (http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %.300s", url, res.StatusCode, err, body)
	}
	return res.Header, body
}

// TestPagesOfOperatorsAreCompressed, once: what a scraper decodes is the page.
func TestPagesOfOperatorsAreCompressed(t *testing.T) {
	t.Parallel()
	operators := mcptest.Start(t, mcptest.Options{}).Operators(t)
	for _, tt := range []struct{ path, accept, contains string }{
		{"/metrics", "", "\noutrigger_"},
		{"/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "\n# EOF"},
		{"/debug/pprof/goroutine?debug=1", "", "goroutine profile:"},
	} {
		for _, encoding := range []string{"", "gzip", "zstd"} {
			header, body := page(t, operators+tt.path, map[string]string{"Accept": tt.accept, "Accept-Encoding": encoding})
			if header.Get("Content-Encoding") != encoding || !slices.Contains(header.Values("Vary"), "Accept-Encoding") {
				t.Errorf("%s as %q: %v", tt.path, encoding, header)
			}
			if got := decoded(t, encoding, body); !strings.Contains(string(got), tt.contains) {
				t.Errorf("%s as %q has no %q: %.300s", tt.path, encoding, tt.contains, got)
			} else if encoding != "" && len(body) > len(got)/2 {
				t.Errorf("%s as %q: %d bytes of %d", tt.path, encoding, len(body), len(got))
			}
		}
	}
	// A profile is compressed already, and has no text.
	header, body := page(t, operators+"/debug/pprof/heap", map[string]string{"Accept-Encoding": "gzip"})
	if header.Get("Content-Encoding") != "" || !bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		t.Errorf("a profile: %v, % .8x", header, body)
	}
	if header, body := page(t, operators+"/readyz", map[string]string{"Accept-Encoding": "gzip"}); header.Get("Content-Encoding") != "" || !strings.HasPrefix(string(body), "ready") {
		t.Errorf("a probe: %v, %q", header, body)
	}
	off := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) { c.Listeners.CompressAboveBytes = proto.Int32(0) }}).Operators(t)
	if header, _ := page(t, off+"/metrics", map[string]string{"Accept-Encoding": "gzip"}); header.Get("Content-Encoding") != "" {
		t.Errorf("compression is off: %v", header)
	}
}
