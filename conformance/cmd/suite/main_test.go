// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary plays the programs that this command starts: the name under
// which it was started says which one, and the variable how it behaves.
const actVar = "SUITE_TEST_ACT"

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "node":
		os.Exit(playNode(os.Getenv(actVar), os.Args[2:]))
	case "fixture":
		os.Exit(playServer(os.Getenv(actVar), "fixture", "http://127.0.0.1:1"))
	case "sidecar":
		os.Exit(playServer(os.Getenv(actVar), "sidecar",
			`{"msg":"listening","listener":"main","addr":"127.0.0.1:2"}`, "not JSON", `{"msg":"ready","tools":3}`))
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// playNode answers as the suite does; args begin after the script.
func playNode(act string, args []string) int {
	flagValue := func(name string) string {
		if at := slices.Index(args, name); at >= 0 {
			return args[at+1]
		}
		return ""
	}
	if script := filepath.Base(os.Args[1]); strings.HasSuffix(script, ".mjs") {
		return playClient(act, strings.TrimSuffix(script, ".mjs"), args)
	}
	if args[0] == "list" {
		if act == "list fails" {
			return 1
		}
		fmt.Fprint(os.Stdout, requiredListing)
		return 0
	}
	write := func(scenario string, checks ...check) {
		dir := filepath.Join(flagValue("-o"), "server-"+scenario+"-2026-11-22T00-08-54-804Z")
		raw, err := json.Marshal(checks)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			panic(err)
		}
		if err != nil || os.WriteFile(filepath.Join(dir, "checks.json"), raw, 0o600) != nil {
			panic("cannot write the results")
		}
	}
	good := check{ID: "good", Status: statusSuccess}
	bad := func(status string) check {
		return check{ID: "bad", Status: status, ErrorMessage: "it is bad"}
	}
	if name := flagValue("--scenario"); strings.HasPrefix(name, "sep-2640") {
		if act == "skills are skipped" {
			good.Status = statusSkipped
		}
		write(name, good)
		return 0
	}
	switch act {
	case "hang":
		time.Sleep(time.Minute)
	case "crash":
		fmt.Fprintln(os.Stderr, "TypeError: of the suite's own")
		return 1
	case "one scenario":
		write(flagValue("--scenario"), good)
		return 0
	}
	write("tools-list", good, good)
	switch act {
	case "failure":
		write("ping", good, bad(statusFailure))
		write("tasks-lifecycle", good)
		return 1
	case "warning":
		write("ping", good, bad(statusWarning))
	case "word":
		write("ping", bad("NEW_WORD"))
	case "missing":
	case "empty":
		write("ping")
	default:
		write("ping", good, bad(statusSkipped), bad(statusInfo))
	}
	if act == "unscored" {
		write("tasks-lifecycle", bad(statusFailure))
	} else {
		write("tasks-lifecycle", good)
	}
	return 0
}

// playServer says its lines and waits for SIGTERM.
func playServer(act, name string, lines ...string) int {
	if act == name+" breaks" {
		fmt.Fprintln(os.Stderr, "no such flag")
		return 2
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM) // before it says that it is ready
	for _, line := range lines {
		fmt.Fprintln(os.Stderr, line)
	}
	if act == name+" ends" {
		return 0
	}
	<-stop
	return map[bool]int{true: 3}[act == name+" ends badly"]
}

const requiredListing = `Required for 2026-07-28 (69 scenarios, frozen; run at the 2026-07-28 wire):

Server scenarios (test against a server):
  - tools-list
  - ping

Client scenarios (test against a client):
  - tools_call

Run and reported, but never scored:
  extension (16):
    - auth/dpop [client]
    - tasks-lifecycle [server]
`

// stage makes a folder with everything that this command starts, and returns
// the flags that name it.
func stage(t *testing.T) (dir string, flags []string) {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else every process that is played sleeps for a second at its end
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(dir, "tools", "node_modules", "@modelcontextprotocol", "conformance")
	for _, sub := range []string{filepath.Join(dir, "tools", "node_modules", ".bin"), filepath.Join(suite, "requirements")} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"tools/node_modules/.bin/node", "fixture", "sidecar"} {
		if err := os.Symlink(self, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"package.json": `{"version":"9.9.9"}`, "requirements/2026-07-28.yaml": "server: []"} {
		if err := os.WriteFile(filepath.Join(suite, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, []string{
		"-revisions", "2026-07-28",
		"-tools", filepath.Join(dir, "tools"), "-out", filepath.Join(dir, "out"),
		"-fixture", filepath.Join(dir, "fixture"), "-sidecar", filepath.Join(dir, "sidecar"),
	}
}

// command runs the command and returns its exit code and output.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut strings.Builder
	code = run(args, &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		act  string
		args []string
		code int
		want []string // in either output
	}{
		{act: "", code: 0, want: []string{"MCP 2026-07-28, suite 9.9.9", "3 of 3 scenarios", "ok ping", "1 skipped by the suite"}},
		{act: "failure", code: 1, want: []string{"NOT OK ping", "1 findings", "ping: FAILURE bad: it is bad", "2 of 3"}},
		{act: "warning", code: 1, want: []string{"ping: WARNING bad: it is bad"}},
		{act: "word", code: 1, want: []string{"ping: NEW_WORD bad: it is bad"}},
		{act: "unscored", code: 1, want: []string{"NOT OK tasks-lifecycle (not scored)", "tasks-lifecycle: FAILURE"}},
		{act: "missing", code: 1, want: []string{"ping: no result"}},
		{act: "empty", code: 1, want: []string{"ping: a result without checks"}},
		{act: "crash", code: 1, want: []string{"code 1 though no check failed", "TypeError: of the suite's own"}},
		{act: "list fails", code: 1, want: []string{"list the scenarios: exit code 1"}},
		{act: "hang", args: []string{"-timeout", "200ms"}, code: 1, want: []string{"not done after 200ms"}},
		{act: "one scenario", args: []string{"-scenario", "caching,ping"}, code: 0, want: []string{"ok caching", "2 of 2"}},
		{act: "", args: []string{"-skills", "x", "-revisions", "2026-07-28"}, code: 0, want: []string{"6 of 6 scenarios", "ok sep-2640-skills-manifest", "1 skipped by the suite"}},
		{act: "skills are skipped", args: []string{"-skills", "x", "-revisions", "2026-07-28"}, code: 1, want: []string{"3 of 6 scenarios", "sep-2640-skills-directory: SKIPPED good"}},
		{act: "", args: []string{"-front"}, code: 0, want: []string{"3 of 3 scenarios"}},
		{act: "sidecar breaks", args: []string{"-front"}, code: 1, want: []string{"inner sidecar ended before it was listening: exit status 2"}},
		{act: "sidecar breaks", code: 1, want: []string{"sidecar ended before it was listening: exit status 2", "no such flag"}},
		{act: "fixture breaks", code: 1, want: []string{"fixture ended before it was listening"}},
		{act: "sidecar ends", code: 1, want: []string{"the sidecar ended: exit code 0"}},
		{act: "sidecar ends badly", code: 1, want: []string{"3 of 3 scenarios", "sidecar did not end well: exit status 3"}},
		{act: "failure", args: []string{"-url", "http://127.0.0.1:9/mcp"}, code: 1, want: []string{"1 findings"}},
		{act: "", args: []string{"-revisions", "../x"}, code: 1, want: []string{"is no revision"}},
		{act: "", args: []string{"-tools", "/nowhere"}, code: 1, want: []string{"the suite is not installed"}},
	} {
		t.Run(strings.TrimSpace(tt.act+" "+strings.Join(tt.args, " ")), func(t *testing.T) {
			_, flags := stage(t)
			t.Setenv(actVar, tt.act)
			code, stdout, stderr := command(t, slices.Concat([]string{"run"}, flags, tt.args)...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			flat := strings.Join(strings.Fields(stdout+stderr), " ")
			for _, want := range tt.want {
				if !strings.Contains(flat, want) {
					t.Errorf("no %q in\n%s%s", want, stdout, stderr)
				}
			}
		})
	}
}

// TestServe ends when a server does, and when it is asked to.
func TestServe(t *testing.T) {
	_, flags := stage(t)
	t.Setenv(actVar, "sidecar ends")
	code, stdout, stderr := command(t, append([]string{"serve"}, flags...)...)
	if code != 1 || !strings.Contains(stderr, "the sidecar ended") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
	t.Setenv(actVar, "")
	read, write := io.Pipe()
	type ending struct {
		code   int
		stderr string
	}
	ended := make(chan ending, 1)
	go func() {
		var errOut strings.Builder
		ended <- ending{run(append([]string{"serve"}, flags...), write, &errOut), errOut.String()}
	}()
	line := make([]byte, 200)
	n, err := read.Read(line)
	if err != nil || string(line[:n]) != "MCP on http://127.0.0.1:2/mcp, backend on http://127.0.0.1:1\n" {
		t.Errorf("says %q, %v", line[:n], err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.code != 0 {
		t.Errorf("code %d: %s", got.code, got.stderr)
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
	}{
		{nil, 2},
		{[]string{"what"}, 2},
		{[]string{"run", "-nope"}, 2},
		{[]string{"run", "-revisions", ","}, 2},
		{[]string{"run", "--help"}, 0},
	} {
		if code, _, stderr := command(t, tt.args...); code != tt.code || stderr == "" {
			t.Errorf("%v: code %d, %q", tt.args, code, stderr)
		}
	}
}

func TestListings(t *testing.T) {
	t.Parallel()
	required := parseRequired(requiredListing)
	want := []scenario{{name: "tools-list"}, {name: "ping"}, {name: "tasks-lifecycle", unscored: true}}
	if !slices.EqualFunc(required, want, func(a, b scenario) bool { return a.name == b.name && a.unscored == b.unscored }) {
		t.Errorf("required %v", required)
	}
	listed := parseListed("Server scenarios (test against a server):\n  - ping [2025-06-18,2025-11-25]\n  - caching\n")
	if len(listed) != 2 || listed[0].name != "ping" || listed[1].name != "caching" {
		t.Errorf("listed %v", listed)
	}
}

// TestUnexpectedScenario counts what ran though it is in no list.
func TestUnexpectedScenario(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sub := filepath.Join(dir, "server-new-thing-2026-11-22T00-08-54-804Z")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sub, "checks.json"), []byte(`[{"id":"x","status":"FAILURE","description":"what it is"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readResults(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if n := printTable(&out, "title", got); n != 1 || !strings.Contains(out.String(), "new-thing (not in the list)") {
		t.Errorf("%d findings:\n%s", n, out.String())
	}
	if err := os.WriteFile(filepath.Join(sub, "checks.json"), []byte(`{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readResults(dir, nil); err == nil {
		t.Error("a broken result was read")
	}
}
