// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestHelpFitsOnAScreenOrTwo: a page of all flags is one that no one reads.
func TestHelpFitsOnAScreenOrTwo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"serve", "stdio", "tools", "call", "doctor"} {
		short, all := helpOf(t, name, "--help"), helpOf(t, name, "--help-all")
		if lines := strings.Count(short, "\n"); lines > 100 {
			t.Errorf("%s --help has %d lines, want at most 100", name, lines)
		}
		if !strings.Contains(short, "--help-all") || strings.Contains(short, "--max-depth") {
			t.Errorf("%s --help does not leave out flags and name --help-all:\n%s", name, short)
		}
		if !strings.Contains(all, "\n  --max-depth N\n") || strings.Contains(all, "more flags") {
			t.Errorf("%s --help-all does not show all flags:\n%s", name, all)
		}
	}
	if got := helpOf(t, "version", "--help"); strings.Contains(got, "help-all") {
		t.Errorf("a command without configuration names --help-all:\n%s", got)
	}
}

// TestHelpOnRecord compares the help of every command, and the flags of all of them, with what is on record.
func TestHelpOnRecord(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	show := func(args ...string) {
		fmt.Fprintf(&got, "=== sidecar %s\n%s\n", strings.Join(args, " "), helpOf(t, args...))
	}
	show("--help-all")
	for _, path := range commandPaths(newRootCommand(environment{stdout: io.Discard, stderr: io.Discard})) {
		show(append(path, "--help")...)
	}
	onRecord(t, "help.txt", got.String())
	if found := regexp.MustCompile(`(?m)^  .*--[a-z-]+ (string|int|uint|duration|bool|float)\w*$`).FindAllString(got.String(), -1); found != nil {
		t.Errorf("flags have types of Go: %q", found)
	}
}

// commandPaths are the words of a command and of all commands below it, without its own name.
func commandPaths(cmd *cobra.Command) [][]string {
	paths := [][]string{strings.Fields(cmd.CommandPath())[1:]}
	for _, c := range cmd.Commands() {
		paths = append(paths, commandPaths(c)...)
	}
	return paths
}

// TestWrongUsageIsInOurWords: what pflag and cobra find wrong reads like what the configuration finds.
func TestWrongUsageIsInOurWords(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"diff old.json":                "missing argument: want OLD NEW, found 1; see `sidecar diff --help`",
		"diff a b c":                   "unexpected argument \"c\": want OLD NEW; see `sidecar diff --help`",
		"policy test":                  "missing argument: want FILE, found 0; see `sidecar policy test --help`",
		"tools a b":                    "unexpected argument \"b\": want [NAME]; see `sidecar tools --help`",
		"version please":               "unexpected argument \"please\"; see `sidecar version --help`",
		"drain --timeout soon":         "--timeout: must be a duration with its unit, such as \"30s\" or \"1m30s\", is \"soon\"; see `sidecar drain --help`",
		"tools --json=perhaps":         "--json: must be true or false, is \"perhaps\"; see `sidecar tools --help`",
		"state rm a b --revision last": "--revision: must be a whole number in decimal digits, is \"last\"; see `sidecar state rm --help`",
		"lint --client=a,\"":           "--client: must be a list with commas between its items, is \"a,\\\"\"; see `sidecar lint --help`",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), strings.NewReader(""), &stdout, &stderr, nil); code != exitUsage {
			t.Errorf("%s: exit code %d, want %d", args, code, exitUsage)
		}
		if got := strings.TrimSpace(stderr.String()); got != "sidecar: "+want {
			t.Errorf("%s:\n got %s\nwant sidecar: %s", args, got, want)
		}
	}
}

// TestDoctorAndLintCountTheSameTokens, in every form of the list.
func TestDoctorAndLintCountTheSameTokens(t *testing.T) {
	t.Parallel()
	tokens := regexp.MustCompile(`about (\d+) tokens`)
	for _, flags := range [][]string{nil, {"--output-schemas", "none"}, {"--schema-refs", "shared"}, {"--schema-profile", "strict"}} {
		found := make(map[string]string)
		for _, name := range []string{"doctor", "lint"} {
			var stdout, stderr bytes.Buffer
			run(t.Context(), append([]string{name, "--demo"}, flags...), strings.NewReader(""), &stdout, &stderr, nil)
			m := tokens.FindAllStringSubmatch(stdout.String(), -1)
			if len(m) == 0 {
				t.Fatalf("%s %v names no tokens: %s%s", name, flags, &stdout, &stderr)
			}
			found[name] = m[len(m)-1][1]
		}
		if found["doctor"] != found["lint"] {
			t.Errorf("%v: doctor counts %s tokens, lint %s", flags, found["doctor"], found["lint"])
		}
	}
}

func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, nil); code != exitOK || stderr.Len() > 0 {
		t.Fatalf("%v: exit code %d, %s", args, code, &stderr)
	}
	return stdout.String()
}

// TestHelpExamplesRun runs every example of every command's help in a shell, with
// its own addresses and files.
func TestHelpExamplesRun(t *testing.T) {
	t.Parallel()
	service, err := demo.Start(t.Context(), demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close(t.Context()) })
	overlay := filepath.Join(t.TempDir(), "echo.yaml")
	if err := os.WriteFile(overlay, []byte("tools: [{method: outrigger.demo.v1.Lab/Echo, tool: {task_support: optional}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	running := "http://" + startBinary(t, "serve", "--demo", "--record-dir", "off", "--config", overlay).main
	root := newRootCommand(environment{stdout: io.Discard, stderr: io.Discard})
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		if cmd.Example == "" && !cmd.Hidden {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		if slices.Contains([]string{"approvals", "state", "status", "top"}, cmd.Name()) {
			continue // examples that need NATS, which conformance/fleet runs, or a sidecar at a fixed address: see TestStatusOfASidecar, TestTopOfASidecar and TestApprovals
		}
		t.Run(cmd.Name(), func(t *testing.T) {
			t.Parallel()
			dir := exampleDir(t)
			// One after another: a later example may read what an earlier one wrote.
			for line := range strings.Lines(cmd.Example) {
				runExample(t, dir, service.URL(), running, strings.TrimSpace(line))
			}
		})
	}
}

// echoTask begins a task at a running sidecar and returns its id.
func echoTask(t *testing.T, running string) string {
	t.Helper()
	var task struct{ TaskID string }
	if err := json.Unmarshal([]byte(helpOf(t, "call", "lab.echo", "--server", running, "--task")), &task); err != nil || task.TaskID == "" {
		t.Fatalf("no task: %v", err)
	}
	return task.TaskID
}

// exampleDir is a directory with the files that examples read.
func exampleDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	shop, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: new("shop.proto"), Package: new("shop.v1"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("In")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Shop"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: new("Take"), InputType: new(".shop.v1.In"), OutputType: new(".shop.v1.In")},
		}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"api.binpb", "old.binpb", "new.binpb"} {
		if err := os.WriteFile(filepath.Join(dir, name), shop, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(helpOf(t, "tools", "--demo", "--json")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"drain-token": "0123456789abcdef0123456789abcdef\n",
		"policy.yaml": "rules: [{name: a, tools: [shop.take], effect: allow, when: 'caller.name != \"\"'}]\n",
		"cases.yaml":  "cases: [{tool: shop.take, expected: deny, rule: a}]\n",
		"audit.jsonl": `{"schema":"outrigger.audit.v1","time":"2026-08-01T12:00:00.000000Z","id":"1","phase":"change"}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, ".config/fish/completions"), 0o750); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runExample runs one line. Commands that serve are asked to end once they are
// ready.
func runExample(t *testing.T, dir, backend, running, line string) {
	t.Helper()
	behind, err := url.Parse(backend)
	if err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer(
		"127.0.0.1:50051", behind.Host,
		"unix:///run/shop.sock", backend,
		"127.0.0.1:9901 --delay 5s", testkit.Dead(t)+" --delay 10ms",
		"/etc/bash_completion.d", dir,
		"${fpath[1]}", dir,
		"http://127.0.0.1:8080", running,
		"unix:///run/outrigger.sock:", running,
		"unix:///run/outrigger.sock", running,
	).Replace(line)
	if strings.HasPrefix(line, "sidecar task ") {
		script = strings.Replace(script, " ID ", " "+echoTask(t, running)+" ", 1)
	}
	serves := strings.HasPrefix(script, "sidecar serve")
	if serves {
		script = "exec " + script
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "OUTRIGGER_RECORD_DIR=off", "OUTRIGGER_LOG_FORMAT=json")
	admin := "127.0.0.1:0"
	if strings.HasPrefix(script, "sidecar drain") {
		admin = testkit.Dead(t)
	}
	cmd.Env = append(cmd.Env, "OUTRIGGER_ADMIN="+admin)
	if serves {
		cmd.Env = append(cmd.Env, "OUTRIGGER_LISTEN=127.0.0.1:0")
	}
	var stderr bytes.Buffer
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(testkit.Limit(), func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	for lines := bufio.NewScanner(io.TeeReader(pipe, &stderr)); lines.Scan(); {
		if serves && strings.Contains(lines.Text(), `"msg":"ready"`) {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", line, err, &stderr)
	}
}
