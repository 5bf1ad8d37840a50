// SPDX-License-Identifier: Apache-2.0

package front

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestUnixSocket: permissions, the peer's name, and the end of the file.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := listenUnix(t.Context(), path, "0640")
	if err != nil {
		t.Fatal(err)
	}
	if at, err := os.Lstat(path); err != nil || at.Mode().Perm() != 0o640 || at.Mode()&os.ModeSocket == 0 || l.Addr().String() != path {
		t.Errorf("%v, %v, %v", at, err, l.Addr())
	}
	peer := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			peer <- err.Error()
			return
		}
		peer <- conn.RemoteAddr().String()
		_, _ = io.WriteString(conn, "hello")
		_ = conn.Close()
	}()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	want := "unix"
	if runtime.GOOS == "linux" {
		want = fmt.Sprintf("unix:uid=%d,pid=%d", os.Getuid(), os.Getpid())
	}
	if got := <-peer; got != want {
		t.Errorf("the peer is %s, want %s", got, want)
	}
	_ = conn.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestUnixSocketInTheWay: what is in use is kept, what a dead process left is replaced.
func TestUnixSocketInTheWay(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, used, dead := filepath.Join(folder, "file"), filepath.Join(folder, "used"), filepath.Join(folder, "dead")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := listenUnix(t.Context(), used, "0600")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	old, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: dead})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	_ = old.Close()
	for path, want := range map[string]string{
		file: "is not a socket", used: "address already in use", dead: "",
		filepath.Join(folder, "none", "s"): "no such file", filepath.Join(folder, strings.Repeat("x", 200)): "over the limit of 107",
	} {
		l, err := listenUnix(t.Context(), path, "0600")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", filepath.Base(path), err, want)
		}
		if l != nil {
			_ = l.Close()
		}
	}
	if text, _ := os.ReadFile(file); string(text) != "x" {
		t.Error("the file is gone")
	}
	// Another process took the path over: its socket stays.
	second, err := listenUnix(t.Context(), dead, "0600")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dead); err != nil {
		t.Fatal(err)
	}
	third, err := listenUnix(t.Context(), dead, "0600")
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
	if _, err := os.Lstat(dead); err != nil {
		t.Errorf("the socket of the next process is gone: %v", err)
	}
	_ = third.Close()
}

// TestAnAddressInARequestIsNoProcess: a handler in front may have taken it from a header.
func TestAnAddressInARequestIsNoProcess(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/rpc", http.NoBody)
	r.RemoteAddr = "unix:uid=0,pid=1"
	if p := processOf(r.Context()); p != nil {
		t.Errorf("%+v", p)
	}
}
