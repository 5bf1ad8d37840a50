// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/trail"
	"github.com/outrigger-mcp/outrigger/testdata/schemas"
)

// auditedAs is a trail in a few words per line. Each line is checked against the schema.
func auditedAs(t *testing.T, path string, words func(*trail.AuditLine) string) []string {
	t.Helper()
	raw, err := schemas.Read(schemas.Audit)
	if err != nil {
		t.Fatal(err)
	}
	v, err := schema.Compile(raw)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var out []string
	err = trail.ReadAudit(f, func(l *trail.AuditLine) error {
		if found, err := v.Validate(l.Raw); err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v", l.Raw, err, found)
		}
		if said := words(l); said != "" {
			out = append(out, said)
		}
		return nil
	}, func(f trail.Fault) { t.Error(f) })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every change leaves a line with who asked for it; a request that was refused for want of
// a role changes nothing, and leaves none.
func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	g := startGoverned(t, "--audit", path)
	ask := func(want int, path, token, body string) {
		t.Helper()
		if status, text, _ := g.ask(t, "POST", path, token, body); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, text, want)
		}
	}
	ask(200, "/trust", operatorToken, `{"trust":"trusted"}`)
	ask(403, "/trust", readerToken, `{"trust":"untrusted"}`)
	ask(401, "/trust", unknownToken, `{"trust":"untrusted"}`)
	ask(200, "/refresh", operatorToken, "")
	ask(200, "/outrigger.v1.ToolService/RegisterTool", operatorToken, `{"name":"desk.tidy","description":"Tidy up.","version":"1.0.0",`+
		`"input_schema":{"type":"object"},"binding":{"service":"outrigger.demo.v1.Lab","method":"Echo"}}`)
	ask(404, "/outrigger.v1.ToolService/UnregisterTool", operatorToken, `{"name":"no.such"}`)
	ask(200, "/outrigger.v1.ToolService/UnregisterTool", operatorToken, `{"name":"desk.tidy"}`)
	rewrite(t, g.tokens, operatorsYAML()+"# changed\n")
	testkit.Says(t, g.log, "operators file reloaded")
	rewrite(t, g.tokens, "operators: no\n")
	testkit.Says(t, g.log, "operators file reload failed")
	// The log says so first, and then the trail.
	testkit.Until(t, "all that was done before the drain is in the trail", func() bool {
		_, page, _ := g.ask(t, "GET", "/metrics", operatorToken, "")
		return strings.Contains(page, "outrigger_audit_lines_written_total 10\n")
	})
	ask(200, "/drain?wait=1m", operatorToken, "")
	code := <-g.code
	g.code <- code
	got := auditedAs(t, path, func(l *trail.AuditLine) string {
		if l.Phase != trail.PhaseChange {
			return ""
		}
		return strings.Join(slices.DeleteFunc([]string{l.Operation, l.Caller.Name, l.Tool, l.Code, changeWords(l)}, func(s string) bool { return s == "" }), " ")
	})
	want := []string{
		"start process OK", "trust operator OK untrusted->trusted", "refresh operator OK",
		"catalog process OK", "registration operator desk.tidy OK ->1.0.0", "registration operator no.such TOOL_NOT_FOUND",
		"catalog process OK", "registration operator desk.tidy OK 1.0.0->",
		"reload file OK ->operators", "reload file INVALID_PARAMS ->operators", "drain operator OK",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// changeWords is the change itself, without what differs from run to run.
func changeWords(l *trail.AuditLine) string {
	if l.Operation == "start" || l.Operation == "refresh" || l.Before+l.After == "" {
		return ""
	}
	return l.Before + "->" + l.After
}

// A reload of a file of policy rules or of callers, and of the configuration, leaves a line
// that names what was reloaded, also where it was refused.
func TestReloadsAreAudited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, rules, file := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "sidecar.yaml")
	rule := "rules: [{name: r, tools: [lab.echo], effect: deny, when: 'args.nonce == %q'}]\n"
	rewrite(t, rules, fmt.Sprintf(rule, "a"))
	rewrite(t, file, "gate: marked\n")
	h := startGuarded(t, "--audit", path, "--policy", rules, "--config", file)
	steps := []struct{ file, text, log, want string }{
		{file, "gate: unproven\n", "configuration changed", "configuration applied OK"},
		{file, "gate: no such\n", "configuration rejected", "configuration refused INVALID_PARAMS"},
		{rules, fmt.Sprintf(rule, "b"), "policy rules reloaded", "policy applied OK"},
		{rules, "rules: [{name: r, tools: [lab.echo], effect: deny, when: 'args.'}]\n", "policy file reload failed", "policy refused INVALID_PARAMS"},
		{h.callers, callersYAML() + "# changed\n", "callers file reloaded", "callers applied OK"},
		{h.callers, "callers: no\n", "callers file reload failed", "callers refused INVALID_PARAMS"},
	}
	var want []string
	for _, step := range steps {
		rewrite(t, step.file, step.text)
		testkit.Says(t, h.log, step.log)
		want = append(want, "file "+step.want)
	}
	h.end(t)
	got := auditedAs(t, path, func(l *trail.AuditLine) string {
		if l.Operation != "reload" {
			return ""
		}
		return strings.Join([]string{l.Caller.Name, l.After, l.Detail, l.Code}, " ")
	})
	for _, lines := range [][]string{got, want} { // files of different groups are looked at beside each other
		slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) })
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
