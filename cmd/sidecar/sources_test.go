// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// shopSet is a descriptor set of the shop with these methods.
func shopSet(t *testing.T, methods ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.binpb")
	writeShop(t, path, methods...)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// lists reports whether callers see a tool.
func (p *process) lists(t *testing.T, tool string) bool {
	t.Helper()
	_, answer := postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`)
	return strings.Contains(answer, `"name":"`+tool+`"`)
}

// operate sends a request to the admin listener.
func (p *process) operate(t *testing.T, method, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.admin+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	return fetch(t, req)
}

// TestDescriptorsFromAServer: callers keep the last good tools while the server is broken, and operators hear why.
func TestDescriptorsFromAServer(t *testing.T) {
	t.Parallel()
	var body atomic.Pointer[[]byte]
	serve := func(raw []byte) { body.Store(&raw) }
	serve(shopSet(t, "GetThing"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw := *body.Load()
		if raw == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
	}))
	t.Cleanup(server.Close)
	p := startProcess(t, "serve", "--demo", "--descriptors", server.URL+"/shop.binpb?token=secret")
	if !p.lists(t, "shop.get_thing") {
		t.Error("the tool is missing")
	}
	serve(nil)
	if status, _ := p.operate(t, http.MethodPost, "/refresh"); status == http.StatusOK {
		t.Error("a load that failed is reported as one that did not")
	}
	if line := string(p.await(t, "descriptors cannot be fetched").raw); !strings.Contains(line, "503 Service Unavailable") || strings.Contains(line, "secret") {
		t.Errorf("the log says %s", line)
	}
	if status, page := p.operate(t, http.MethodGet, "/readyz?verbose"); status != http.StatusOK || !strings.Contains(page, "descriptor set "+server.URL+"/shop.binpb") {
		t.Errorf("/readyz is %d: %s", status, page)
	}
	if !p.lists(t, "shop.get_thing") {
		t.Error("the tool is gone")
	}
	serve(shopSet(t, "GetThing")) // with the same ETag
	if status, answer := p.operate(t, http.MethodPost, "/refresh"); status != http.StatusOK {
		t.Errorf("/refresh is %d: %s", status, answer)
	}
	p.await(t, "descriptors fetched again")
}

// TestDescriptorsFromAFolder swaps a folder as kubelet does.
func TestDescriptorsFromAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	publish := func(version string, files map[string][]byte) {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, raw := range files {
			if err := os.WriteFile(filepath.Join(dir, version, name), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tmp := filepath.Join(dir, "..tmp")
		if err := errors.Join(os.Symlink(version, tmp), os.Rename(tmp, filepath.Join(dir, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	publish("..1", map[string][]byte{"shop.binpb": shopSet(t, "GetThing")})
	p := startProcess(t, "serve", "--demo", "--descriptors", dir, "--reload-interval", "30ms")
	if !p.lists(t, "shop.get_thing") {
		t.Error("the tool is missing")
	}
	publish("..2", map[string][]byte{"shop.binpb": shopSet(t, "GetThing"), "other.pb": shopSet(t, "PutThing")})
	if line := string(p.await(t, "descriptors rejected; keeping the last good catalog").raw); !strings.Contains(line, "other.pb and shop.binpb have different copies of shop.proto") {
		t.Errorf("the log says %s", line)
	}
	publish("..3", map[string][]byte{"shop.binpb": shopSet(t, "PutThing")})
	testkit.Until(t, "the new tool comes", func() bool { return p.lists(t, "shop.put_thing") })
	if p.lists(t, "shop.get_thing") {
		t.Error("the old tool is still there")
	}
}
