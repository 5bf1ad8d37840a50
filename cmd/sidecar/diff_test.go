// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDiffOfDescriptorSets compares descriptor sets, which are told from lists of tools by what they hold.
func TestDiffOfDescriptorSets(t *testing.T) {
	t.Parallel()
	const v1, v2 = "../../internal/report/testdata/v1.binpb.gz", "../../internal/report/testdata/v2.binpb.gz"
	diff := func(args ...string) (int, string) {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"diff"}, args...), strings.NewReader(""), &stdout, &stderr, nil)
		if stderr.Len() > 0 {
			t.Errorf("%v: %s", args, &stderr)
		}
		return code, stdout.String()
	}
	if code, out := diff(v1, v2); code != 1 || !strings.HasPrefix(out, "Breaking:\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if code, out := diff(v1, v1); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	// The list of tools of the same descriptors is the same catalog.
	var list, stderr bytes.Buffer
	if code := run(t.Context(), []string{"tools", "--descriptors", v1, "--json"}, strings.NewReader(""), &list, &stderr, nil); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	path := filepath.Join(t.TempDir(), "catalog.json")
	if err := os.WriteFile(path, list.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := diff(v1, path); code != 0 || out != "no differences\n" {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// TestDiffOfFoldersAndServers: what serve takes as --descriptors is what diff compares.
func TestDiffOfFoldersAndServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, file := filepath.Join(dir, "folder"), filepath.Join(dir, "new.binpb")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	writeShop(t, filepath.Join(folder, "shop.binpb"), "GetThing", "PutThing")
	writeShop(t, file, "GetThing")
	raw := shopSet(t, "GetThing", "PutThing")
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(raw)
	}))
	t.Cleanup(server.Close)
	ca, credentials := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "credentials")
	write := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	write(credentials, []byte(strings.TrimPrefix(server.URL, "https://")+" bearer s3cret\n"))
	url := server.URL + "/api.binpb?s3cret"
	reach := []string{"--descriptors-ca", ca, "--descriptors-credentials", credentials}
	for _, tc := range []struct {
		args        []string
		code        int
		out, stderr string
	}{
		{[]string{folder, folder}, 0, "no differences", ""},
		{[]string{folder, file}, 1, "shop.put_thing", ""},
		{[]string{folder, url, reach[0], reach[1], reach[2], reach[3]}, 0, "no differences", ""},
		{[]string{url, file, reach[0], reach[1], reach[2], reach[3]}, 1, "shop.put_thing", ""},
		{[]string{url, file}, 3, "", server.URL + "/api.binpb: "},
		{[]string{url, file, reach[0], reach[1]}, 3, "", "the server answered 401 Unauthorized"},
		{[]string{dir, file}, 0, "no differences", ""},
		{[]string{ca, file}, 3, "", "nor a descriptor set"},
		{[]string{"https://ann:s3cret@example.com/", file}, 3, "", "https://example.com/: must not have a user or password"},
		{[]string{"oci://example.com/team/shop:v1", file}, 3, "", "oras resolve example.com/team/shop:v1"},
		{[]string{url, file, "--descriptors-timeout", "0s"}, 2, "", "--descriptors-timeout must be positive"},
		{[]string{t.TempDir(), file}, 3, "", ""},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"diff"}, tc.args...), strings.NewReader(""), &stdout, &stderr, nil)
		if code != tc.code || !strings.Contains(stdout.String(), tc.out) || !strings.Contains(stderr.String(), tc.stderr) || strings.Contains(stderr.String(), "s3cret") {
			t.Errorf("%q: exit code %d\n%s\n%s", tc.args, code, &stdout, &stderr)
		}
	}
}

// TestLockOfFoldersAndServers: the lock of a folder is that of the same descriptors in a file or on a server.
func TestLockOfFoldersAndServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, file := filepath.Join(t.TempDir(), "catalog.lock.json"), filepath.Join(dir, "shop.binpb")
	writeShop(t, file, "GetThing")
	raw := shopSet(t, "GetThing")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(raw) }))
	t.Cleanup(server.Close)
	writeLock(t, dir, lock)
	for _, ref := range []string{dir, file, server.URL + "/shop.binpb"} {
		var stdout, stderr bytes.Buffer
		args := []string{"lock", "check", "--descriptors", ref, "--backend", "http://127.0.0.1:1", "--native", "off", "--catalog-lock", lock}
		if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, nil); code != exitOK || !strings.HasPrefix(stdout.String(), "1 tools match") {
			t.Errorf("%s: exit code %d\n%s\n%s", ref, code, &stdout, &stderr)
		}
	}
}
