// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// socketFolder is a folder whose name is short enough for the path of a socket, and that other users can enter.
func socketFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// asUser runs f with the effective user and group of another, which a process of root can do for one thread. The thread ends with it.
func asUser(t *testing.T, uid, gid int, f func()) {
	t.Helper()
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that nothing else runs on it
		_, _, gidErr := syscall.RawSyscall(unix.SYS_SETRESGID, ^uintptr(0), uintptr(gid), ^uintptr(0))
		_, _, uidErr := syscall.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
		if gidErr != 0 || uidErr != 0 {
			failed <- errors.Join(gidErr, uidErr)
			return
		}
		f()
		failed <- nil
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// callOverSocket calls a tool on the edge of JSON-RPC and returns the status.
func callOverSocket(t *testing.T, conn net.Conn, header http.Header, tool, arguments string) (status int, body string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/rpc",
		strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(raw)
}

// TestCallersByTheirProcesses: on a Unix socket, entries of the callers file name users and groups. Permissions and the audit trail follow.
// The file of the socket has its mode and the group of its folder, and goes with the process.
func TestCallersByTheirProcesses(t *testing.T) {
	t.Parallel()
	const stranger, member, team = 61234, 61235, 61240
	dir := socketFolder(t)
	socket, callers, trail := filepath.Join(dir, "s.sock"), filepath.Join(dir, "callers.yaml"), filepath.Join(dir, "audit.jsonl")
	rewrite(t, callers, fmt.Sprintf("callers:\n- {name: me, unix_uids: [%d], tools: ['*']}\n- {name: team, unix_gids: [%d], tools: ['lab.*']}\n", os.Getuid(), team))
	if os.Getuid() == 0 {
		if err := errors.Join(os.Chown(dir, -1, team), os.Chmod(dir, 0o755|os.ModeSetgid)); err != nil {
			t.Fatal(err)
		}
	}
	p := startBinary(t, "serve", "--demo", "--listen", "unix://"+socket, "--socket-mode", "0666", "--experimental", "unix-socket",
		"--tokens", callers, "--audit", trail, "--record-dir", "off")
	at, err := os.Lstat(socket)
	if err != nil || at.Mode().Perm() != 0o666 {
		t.Fatalf("%v, %v", at, err)
	}
	for _, path := range []string{"", ":/mcp", ":/rpc"} {
		a := newAgent(t, "unix://"+socket+path, "")
		if out, said, code := a.sh(`sidecar call lab.echo '{"nonce":"n"}'`); code != 0 || !strings.Contains(out, `"nonce": "n"`) {
			t.Errorf("%q: exit %d\n%s%s", path, code, out, said)
		}
	}
	dial := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", socket)
		if err != nil {
			t.Error(err)
		}
		return conn
	}
	const echo, vehicle = `{"nonce":"x"}`, `{"vehicleId":"v1"}`
	if status, body := callOverSocket(t, dial(), http.Header{"Authorization": {"Bearer a-token-that-is-of-no-caller"}}, "lab.echo", echo); status != http.StatusUnauthorized {
		t.Errorf("an unknown token of a known user: %d %s", status, body)
	}
	if os.Getuid() == 0 {
		if of, ok := at.Sys().(*syscall.Stat_t); !ok || of.Gid != team {
			t.Errorf("the group of the socket: %+v", of)
		}
		for _, tt := range []struct {
			uid, gid  int
			tool      string
			arguments string
			want      int
		}{
			{stranger, stranger, "lab.echo", echo, http.StatusUnauthorized},
			{member, team, "lab.echo", echo, http.StatusOK},
			{member, team, "fleet.get_vehicle", vehicle, http.StatusForbidden},
			{0, team, "fleet.list_vehicles", "{}", http.StatusOK}, // the entry of the user comes first
		} {
			var conn net.Conn
			asUser(t, tt.uid, tt.gid, func() { conn = dial() })
			// What the request says of itself changes nothing.
			forged := http.Header{"X-Forwarded-For": {"unix:uid=0,pid=1"}, "X-Real-Ip": {"unix:uid=0,pid=1"}, "Forwarded": {`for="unix:uid=0,pid=1"`}}
			if status, body := callOverSocket(t, conn, forged, tt.tool, tt.arguments); status != tt.want {
				t.Errorf("%+v: %d %s", tt, status, body)
			}
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // its lines are there then
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
	raw, err := os.ReadFile(trail)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for line := range bytes.Lines(raw) {
		var l struct {
			Tool   string
			Caller struct{ Name, Address string }
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		if l.Tool != "" {
			calls[l.Caller.Name]++
		}
	}
	want := map[string]int{"me": 3}
	if os.Getuid() == 0 {
		want = map[string]int{"me": 4, "team": 2}
	}
	if fmt.Sprint(calls) != fmt.Sprint(want) {
		t.Errorf("calls in the trail %v, want %v:\n%s", calls, want, raw)
	}
}

// TestProcessesWithoutAnEntry: without a callers file each user is a caller of the name uid:N, whom the permissions of the socket let in.
// All experiments are on: they start and serve together.
func TestProcessesWithoutAnEntry(t *testing.T) {
	t.Parallel()
	dir := socketFolder(t)
	socket, trail := filepath.Join(dir, "s.sock"), filepath.Join(dir, "audit.jsonl")
	startBinary(t, "serve", "--demo", "--listen", "unix://"+socket, "--experimental", strings.Join(config.Experiments(), ","), "--audit", trail, "--record-dir", "off")
	a := newAgent(t, "unix://"+socket, "")
	a.must(`sidecar call lab.echo '{"nonce":"n"}'`)
	testkit.Until(t, "the trail names the caller", func() bool {
		raw, _ := os.ReadFile(trail)
		return strings.Contains(string(raw), fmt.Sprintf(`"name":"uid:%d"`, os.Getuid()))
	})
}

// TestProcessesNeedTheExperiment: entries for processes that would never be let in are an error at start.
func TestProcessesNeedTheExperiment(t *testing.T) {
	t.Parallel()
	callers := filepath.Join(t.TempDir(), "callers.yaml")
	rewrite(t, callers, "callers:\n- {name: me, unix_uids: [0], tools: ['*']}\n")
	var said bytes.Buffer
	code := run(t.Context(), []string{"serve", "--demo", "--tokens", callers, "--record-dir", "off"}, strings.NewReader(""), io.Discard, &said, nil)
	if code != exitUsage || !strings.Contains(said.String(), "me: unix_uids and unix_gids need a Unix socket and --experimental unix-socket") {
		t.Errorf("exit code %d:\n%s", code, said.String())
	}
}
