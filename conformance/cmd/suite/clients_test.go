// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// playClient reports as the scripts of the clients do.
func playClient(act, script string, args []string) int {
	mode, transport := args[1], "http"
	if slices.Contains(args, "--") {
		transport = "stdio"
	}
	fmt.Fprintln(os.Stdout, "a separate line")
	fmt.Fprintf(os.Stdout, "# %s\n", strings.Join(args, " "))
	code := 0
	for _, name := range clientChecks() {
		c := clientCheck{Client: script, Version: "1.2.3", Mode: mode, Transport: transport, Check: name, Outcome: outcomeOK}
		switch {
		case name == "tasks":
			c.Outcome, c.Reason = outcomeAbsent, "there are none"
		case name == "cancel" && transport == "stdio":
			c.Outcome, c.Reason = outcomeUnsupported, "it cannot"
		case name == "roots" && act == "client lacks a check":
			continue
		case name == "roots" && act == "client fails":
			c.Outcome, c.Error, code = outcomeFailed, "no roots", 1
		case name == "roots" && act == "client skips":
			c.Outcome = outcomeUnsupported
		case name == "roots" && act == "client makes up a word":
			c.Outcome = "skipped"
		case name == "roots" && act == "client ends badly":
			code = 1
		}
		line, err := json.Marshal(c)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(os.Stdout, "%s\n", line)
		if name == "roots" && act == "client repeats a check" {
			fmt.Fprintf(os.Stdout, "%s\n", line)
		}
	}
	if act == "client makes up a check" {
		fmt.Fprintf(os.Stdout, `{"client":%q,"version":"1.2.3","mode":%q,"transport":%q,"check":"nothing","outcome":"ok"}`+"\n", script, mode, transport)
	}
	return code
}

// someClients leaves out the tests of the Go SDK, which are no process that can
// be played.
func someClients() []string {
	return []string{"-client", strings.Join(slices.DeleteFunc(scripts(), func(s string) bool { return s == goScript }), ",")}
}

func TestClients(t *testing.T) {
	for _, tt := range []struct {
		act  string
		args []string
		code int
		want []string // in either output, as far apart as one space
	}{
		{act: "", code: 0, want: []string{
			"typescript-legacy-stdio 21 ok, 0 failed, 1 unsupported, 1 absent",
			"typescript typescript typescript", "legacy auto 2026-07-28", //nolint:dupword // a row of the table
			"cancel http http", //nolint:dupword // the same
			"openai, auto: cancel over stdio: it cannot.",
		}},
		{act: "client fails", code: 1, want: []string{"roots FAILED", "FAILED aisdk 1.2.3 auto http, roots: no roots", "there are findings"}},
		{act: "client lacks a check", code: 1, want: []string{"FAILED aisdk 1.2.3 auto http, roots: it was not reported"}},
		{act: "client repeats a check", code: 1, want: []string{"roots: it was reported twice"}},
		{act: "client skips", code: 1, want: []string{"roots: unsupported without a reason"}},
		{act: "client makes up a word", code: 1, want: []string{"roots: its outcome is skipped"}},
		{act: "client makes up a check", code: 1, want: []string{"nothing: there is no such check"}},
		{act: "client ends badly", code: 1, want: []string{"it ended with exit status 1 though no check failed; see"}},
		{act: "sidecar ends", code: 1, want: []string{"the sidecar ended"}},
		{act: "", args: []string{"-client", "unknown"}, code: 1, want: []string{"no client is called unknown"}},
		{act: "", args: []string{"-tools", "/nowhere"}, code: 1, want: []string{"no such file"}},
	} {
		t.Run(strings.TrimSpace(tt.act+" "+strings.Join(tt.args, " ")), func(t *testing.T) {
			_, flags := stage(t)
			t.Setenv(actVar, tt.act)
			code, stdout, stderr := command(t, slices.Concat([]string{"clients"}, flags, someClients(), tt.args)...)
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

// TestClientCommand starts a client with the address of the sidecar, or with the
// command line of one, and keeps what it says that is no report.
func TestClientCommand(t *testing.T) {
	dir, flags := stage(t)
	t.Setenv(actVar, "")
	code, stdout, stderr := command(t, slices.Concat([]string{"clients"}, flags, []string{"-client", "sdk1", "--", "--trust", "trusted"})...)
	if code != 0 {
		t.Fatalf("code %d: %s%s", code, stdout, stderr)
	}
	for name, want := range map[string]string{
		"sdk1-legacy.log": "a separate line\n# --mode legacy --url http://127.0.0.1:2/mcp\n",
		"sdk1-legacy-stdio.log": "a separate line\n# --mode legacy -- " + filepath.Join(dir, "sidecar") +
			" stdio --backend http://127.0.0.1:1 --log-level error --trust trusted\n",
	} {
		got, err := os.ReadFile(filepath.Join(dir, "out", name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v\nwant %q", name, got, err, want)
		}
	}
}

// TestClientChecks holds the list of checks to that of the scripts, and both to
// the tests of the Go SDK.
func TestClientChecks(t *testing.T) {
	t.Parallel()
	for file, pattern := range map[string]string{
		"../../clients/checks.mjs": `(?m)^    name: '([^']+)',$`,
		"../../sdkchecks_test.go":  `(?m)^\t\t\{"([^"]+)", `,
	} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(raw), -1) {
			names = append(names, match[1])
		}
		if !slices.Equal(names, clientChecks()) {
			t.Errorf("%s has the checks %q\nwant %q", file, names, clientChecks())
		}
	}
}

// TestClientScripts finds the script of every client.
func TestClientScripts(t *testing.T) {
	t.Parallel()
	for _, script := range scripts() {
		if script == goScript {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", "..", "clients", script+".mjs")); err != nil {
			t.Error(err)
		}
	}
}

func TestGoTests(t *testing.T) {
	t.Parallel()
	module := t.TempDir()
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte("module x\n\nrequire (\n\t"+goModule+" v9.8.7\n)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	events := `{"Action":"run","Test":"TestLegacyClient/http/list"}
{"Action":"pass","Test":"TestLegacyClient/http/list"}
{"Action":"output","Test":"TestModernClient/stdio/end_session","Output":"    x_test.go:1: absent: there are none\n"}
{"Action":"skip","Test":"TestModernClient/stdio/end_session"}
{"Action":"output","Test":"TestModernClient/http/tasks","Output":"    x_test.go:1: unsupported: it cannot\n"}
{"Action":"skip","Test":"TestModernClient/http/tasks"}
{"Action":"skip","Test":"TestModernClient/http/roots"}
{"Action":"output","Test":"TestModernClient/http/call","Output":"it is bad\n"}
{"Action":"fail","Test":"TestModernClient/http/call"}
{"Action":"fail","Test":"TestModernClient/http"}
{"Action":"pass","Test":"TestOther/http/call"}
not an event
`
	got, rest, err := settings{module: module}.readGoTests(strings.NewReader(events))
	want := []clientCheck{
		{"Go SDK", "9.8.7", "legacy", "http", "list", outcomeOK, "", ""},
		{"Go SDK", "9.8.7", "modern", "stdio", "end session", outcomeAbsent, "there are none", ""},
		{"Go SDK", "9.8.7", "modern", "http", "tasks", outcomeUnsupported, "it cannot", ""},
		{"Go SDK", "9.8.7", "modern", "http", "roots", outcomeFailed, "", "skipped without a reason: "},
		{"Go SDK", "9.8.7", "modern", "http", "call", outcomeFailed, "", "it is bad"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	if !strings.Contains(rest, "it is bad") || !strings.Contains(rest, "not an event") {
		t.Errorf("the log has %q", rest)
	}
	if _, _, err := (settings{module: t.TempDir()}).readGoTests(strings.NewReader(events)); err == nil {
		t.Error("a module without a go.mod was read")
	}
}

// TestClientDocument holds a document to the table.
func TestClientDocument(t *testing.T) {
	t.Parallel()
	table := newClientTable([]clientCheck{
		{Client: "x", Version: "1", Mode: "legacy", Transport: "http", Check: "list", Outcome: outcomeOK},
		{Client: "x", Version: "1", Mode: "legacy", Transport: "http", Check: "cancel", Outcome: outcomeUnsupported, Reason: "it cannot"},
	})
	file := filepath.Join(t.TempDir(), "clients.md")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("no marks\n")
	if err := table.keep(file, true); err == nil {
		t.Error("a document without marks is as it should be")
	}
	write("before\n" + docBegin + "old\n" + docEnd + "after\n")
	if err := table.keep(file, false); err == nil {
		t.Error("an old table is as it should be")
	}
	if err := table.keep(file, true); err != nil {
		t.Fatal(err)
	}
	if err := table.keep(file, false); err != nil {
		t.Errorf("what was written is not as it should be: %v", err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n" + docBegin + "| | x 1, legacy |\n|---|---|\n", "| list | ok |\n", "| cancel | no |\n", "| tasks | - |\n", "- x, legacy: cancel: it cannot.\n", docEnd + "after\n"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("no %q in\n%s", want, raw)
		}
	}
}
