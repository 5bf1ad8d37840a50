// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// configured is a sidecar with a configuration file that it looks at every few
// milliseconds.
type configured struct {
	*process

	file string
}

const quickly = "demo: true\nreload_interval: 30ms\n"

func startConfigured(t *testing.T, text string, args ...string) *configured {
	t.Helper()
	c := &configured{file: filepath.Join(t.TempDir(), "sidecar.yaml")}
	c.write(t, text)
	c.process = startProcess(t, append([]string{"serve", "--config", c.file}, args...)...)
	return c
}

// write replaces the file at once.
func (c *configured) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(c.file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(c.file+".new", c.file); err != nil {
		t.Fatal(err)
	}
}

// call calls a tool over /rpc.
func (c *configured) call(t *testing.T, tool, arguments string) (int, string) {
	t.Helper()
	return postRPC(t, c.main, fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments))
}

func (c *configured) readyz(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.admin+"/readyz?verbose", nil)
	if err != nil {
		t.Fatal(err)
	}
	status, page := fetch(t, req)
	if status != http.StatusOK {
		t.Errorf("/readyz is %d: %s", status, page)
	}
	return page
}

func (c *configured) wantReady(t *testing.T, part string) {
	t.Helper()
	page := c.readyz(t)
	if squeezed := strings.Join(strings.Fields(page), " "); !strings.Contains(squeezed, part) {
		t.Errorf("/readyz does not say %q:\n%s", part, page)
	}
}

const (
	echo   = `{"nonce":"n"}`
	cancel = `{"orderId":"9007199254740999"}`
	blocks = "DESTRUCTIVE_BLOCKED"
)

// TestWhatChangesAtRunTime changes one field of each part that a reload reaches, and looks at what callers see of it.
// internal/server/reconfigure has a row for each field.
func TestWhatChangesAtRunTime(t *testing.T) {
	t.Parallel()
	c := startConfigured(t, quickly)
	reloads := 0
	steps := []struct {
		name, text, tool, arguments string
		want                        string // part of the answer
	}{
		{"catalog", "tools:\n  - method: outrigger.demo.v1.Lab/Echo\n    tool: {name: desk.repeat}\n", "desk.repeat", echo, `"result"`},
		{"gate", "trusted_callers: [10.0.0.1]\n", "fleet.cancel_order", cancel, blocks},
		{"gate that opens", "trusted_callers: [127.0.0.1]\n", "fleet.cancel_order", cancel, `"result"`},
		{"rate", "limits: {caller_rate: {per_second: 0.001, burst: 1}}\n", "lab.echo", echo, `"result"`},
		{"rate that is used up", "limits: {caller_rate: {per_second: 0.001, burst: 1}}\nlog: {level: debug}\n", "lab.echo", echo, "RATE_LIMITED"},
		{"policy", "access: {policy: {rules: [{name: r, tools: [lab.echo], effect: deny, when: 'args.nonce != \"\"'}]}}\n", "lab.echo", echo, "PERMISSION_DENIED"},
		{"policy that allows", "access: {policy: {rules: [{name: r, tools: [lab.echo], effect: allow, when: 'args.nonce != \"\"'}]}}\n", "lab.echo", echo, `"result"`},
	}
	for _, step := range steps {
		c.write(t, quickly+step.text)
		c.await(t, "configuration changed")
		reloads++
		if _, body := c.call(t, step.tool, step.arguments); !strings.Contains(body, step.want) {
			t.Errorf("%s: %s answers %s, want %s", step.name, step.tool, body, step.want)
		}
	}
	wantSample(t, c.process, fmt.Sprintf(`outrigger_reloads_total{files="configuration",outcome="applied"} %d`, reloads),
		`outrigger_reloads_total{files="configuration",outcome="refused"} 0`, `outrigger_reload_failing{files="configuration"} 0`,
		"outrigger_reload_refused_changes 0")
	c.wantReady(t, "reload configuration ok (info)")
}

// TestTheLogChangesAtRunTime turns lines of calls off and on, and the level.
func TestTheLogChangesAtRunTime(t *testing.T) {
	t.Parallel()
	c := startConfigured(t, quickly)
	c.call(t, "lab.echo", echo)
	c.await(t, "call")
	c.write(t, quickly+"log: {calls: failed}\n")
	c.await(t, "configuration changed")
	c.call(t, "lab.echo", echo)
	c.call(t, "no.such", echo)
	if l := c.await(t, "call"); !strings.Contains(string(l.raw), `"TOOL_NOT_FOUND"`) {
		t.Errorf("a call that succeeded left a line: %s", l.raw)
	}
	c.write(t, quickly+"log: {level: error}\n")
	// At this level no line says that the change has come.
	wantSample(t, c.process, `outrigger_reloads_total{files="configuration",outcome="applied"} 2`)
	c.call(t, "no.such", echo)
	c.write(t, quickly)
	for l := c.await(t, ""); l.Message != "configuration changed"; l = c.await(t, "") {
		if l.Message == "call" {
			t.Errorf("the level error leaves the line %s", l.raw)
		}
	}
}

// TestWhatNeedsARestartIsRefusedByName changes such fields together with one that
// may change.
func TestWhatNeedsARestartIsRefusedByName(t *testing.T) {
	t.Parallel()
	c := startConfigured(t, quickly, "--timeout", "9s")
	c.write(t, quickly+"timeout: 3s\nlisteners: {health: 127.0.0.1:0}\nlimits: {max_in_flight: 7}\ntrust: trusted\n")
	for _, field := range []string{"listeners.health", "limits.max_in_flight"} {
		l := c.await(t, field+": change needs a restart; keeping the current value")
		if l.Field != field {
			t.Errorf("the line %s has the field %q", l.raw, l.Field)
		}
	}
	wantSample(t, c.process, `outrigger_reloads_total{files="configuration",outcome="partial"} 1`, "outrigger_reload_refused_changes 2", "outrigger_trusted 1",
		`outrigger_reload_failing{files="configuration"} 0`)
	c.wantReady(t, "partial; needs a restart: listeners.health, limits.max_in_flight")

	c.write(t, quickly+"limits: {max_in_flight: 7}\ntrust: trusted\n")
	c.await(t, "listeners.health: matches the value in use again; no restart needed")
	wantSample(t, c.process, "outrigger_reload_refused_changes 1", `outrigger_reloads_total{files="configuration",outcome="refused"} 1`)
	c.write(t, quickly+"trust: trusted\n")
	c.await(t, "limits.max_in_flight: matches the value in use again; no restart needed")
	wantSample(t, c.process, "outrigger_reload_refused_changes 0", `outrigger_reload_failing{files="configuration"} 0`)
}

// TestAFaultyFileIsRefusedAsAWhole: nothing of it is used, and every fault is
// said.
func TestAFaultyFileIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	c := startConfigured(t, quickly+"trust: trusted\n")
	c.write(t, quickly+"trust: untrusted\ntimeout: soon\nlimits:\n  max_in_flight: 0\nnonsense: 1\n")
	c.await(t, "configuration rejected; keeping the last good one")
	for _, want := range []string{"sidecar.yaml:4:10: timeout: ", "sidecar.yaml:6:18: limits.max_in_flight: ", "sidecar.yaml:7:1: nonsense: "} {
		if l := c.await(t, "configuration error"); !strings.Contains(l.Fault, want) {
			t.Errorf("fault %q, want %q", l.Fault, want)
		}
	}
	wantSample(t, c.process, `outrigger_reloads_total{files="configuration",outcome="refused"} 1`, `outrigger_reload_failing{files="configuration"} 1`,
		"outrigger_trusted 1")
	c.wantReady(t, "reload configuration failed (info)")
	c.write(t, quickly)
	c.await(t, "configuration changed")
	wantSample(t, c.process, `outrigger_reload_failing{files="configuration"} 0`)
	wantSample(t, c.process, "outrigger_trusted 0")
}

// TestFlagsWinAtRunTimeToo, and trust that an operator has set outlives a reload
// that is about something else.
func TestFlagsWinAtRunTimeToo(t *testing.T) {
	t.Parallel()
	c := startConfigured(t, quickly, "--exclude", "*/Echo")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.admin+"/trust", strings.NewReader(`{"trust":"trusted"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if status, body := fetch(t, req); status != http.StatusOK {
		t.Fatalf("trust: %d %s", status, body)
	}
	c.write(t, quickly+"catalog: {exclude: ['*/Sleep']}\ngate: unproven\n")
	c.await(t, "configuration changed")
	if _, body := c.call(t, "lab.echo", echo); !strings.Contains(body, "TOOL_NOT_FOUND") {
		t.Errorf("the file won over a flag: %s", body)
	}
	wantSample(t, c.process, "outrigger_trusted 1")
}

// TestAToolThatDisappearsLeavesATrace: what operations.md names for "a tool is missing or changed" has it.
func TestAToolThatDisappearsLeavesATrace(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| a tool is missing or changed \| the log line .*$`).FindString(string(page))
	for _, word := range []string{"`catalog changed`", "`removed`", "`added`", "`changed`", "`/readyz?verbose`", "`tool changes`", "`outrigger_catalog_tool_changes_total`", "`catalog`"} {
		if !strings.Contains(row, word) {
			t.Errorf("the row of the page does not name %s: %s", word, row)
		}
	}
	dir := t.TempDir()
	file, trail := filepath.Join(dir, "shop.binpb"), filepath.Join(dir, "audit.jsonl")
	writeShop(t, file, "Take", "Put")
	p := startProcess(t, "serve", "--backend", "http://127.0.0.1:1", "--descriptors", file, "--reload-interval", "30ms", "--audit", trail)
	wantSample(t, p, "outrigger_catalog_tools 2", `outrigger_catalog_tool_changes_total{change="removed"} 0`)
	writeShop(t, file, "Take", "Drop")
	line := string(p.await(t, "catalog changed").raw)
	for _, want := range []string{`"removed":["shop.put"]`, `"added":["shop.drop"]`, `"level":"warn"`} {
		if !strings.Contains(line, want) {
			t.Errorf("the log line lacks %s: %s", want, line)
		}
	}
	wantSample(t, p, `outrigger_catalog_tool_changes_total{change="removed"} 1`, `outrigger_catalog_tool_changes_total{change="added"} 1`)
	const text = "removed: shop.put; added: shop.drop"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+"/readyz?verbose", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, body := fetch(t, req); !strings.Contains(body, "2 tools; last change at ") || !strings.Contains(body, text) {
		t.Errorf("/readyz?verbose has no trace of it:\n%s", body)
	}
	p.stop()
	<-p.code
	lines, err := os.ReadFile(trail)
	if err != nil || !regexp.MustCompile(`"operation":"catalog".*`+text).Match(lines) {
		t.Errorf("the audit trail has no line of it: %v\n%s", err, lines)
	}
}

// TestNoCallIsDisturbed changes tools, permissions and rates back and forth under
// load: every call that is allowed before and after is answered with its own
// nonce, and one that began before its tool went away ends.
func TestNoCallIsDisturbed(t *testing.T) {
	t.Parallel()
	c := startConfigured(t, quickly)
	go func() {
		for range c.logged { // an unread log would hold the process up
		}
	}()
	stop := make(chan struct{})
	var calls atomic.Int64
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				nonce := fmt.Sprintf("nonce-%d-%d", n, i)
				if status, body := c.call(t, "lab.echo", fmt.Sprintf(`{"nonce":%q}`, nonce)); status != http.StatusOK || !strings.Contains(body, nonce) {
					t.Errorf("%s: %d %s", nonce, status, body)
				}
				calls.Add(1)
			}
		})
	}
	all.Go(func() {
		if status, body := c.call(t, "lab.sleep", `{"duration":"3s","nonce":"slow"}`); status != http.StatusOK || !strings.Contains(body, `"slow"`) {
			t.Errorf("the call that began before its tool went away: %d %s", status, body)
		}
	})
	// The slow call has begun before its tool goes away; else it would find none.
	wantSample(t, c.process, `outrigger_calls_in_flight{tool="lab.sleep"} 1`)
	for i := range 20 {
		text := "catalog: {exclude: ['*/Sleep', '*/Inspect']}\ntrust: trusted\nlimits: {caller_rate: {per_second: 1000000}}\n"
		if i%2 == 1 {
			text = "catalog: {exclude: ['*/Sleep']}\ngate: unproven\ntrusted_callers: [127.0.0.1]\n" +
				"tools:\n  - method: outrigger.demo.v1.Lab/Echo\n    tool: {title: Another}\n"
		}
		c.write(t, quickly+text)
		time.Sleep(100 * time.Millisecond)
	}
	testkit.Until(t, "20 calls", func() bool { return calls.Load() >= 20 || t.Failed() })
	close(stop)
	all.Wait()
	wantSample(t, c.process, `outrigger_reload_failing{files="configuration"} 0`, `outrigger_calls_in_flight{tool="lab.echo"} 0`,
		fmt.Sprintf(`outrigger_calls_total{code="OK",edge="rpc",tool="lab.echo"} %d`, calls.Load()))
}

// TestOperatorsReadOfEveryGroupOfFiles compares the names in the code with the
// page for operators.
func TestOperatorsReadOfEveryGroupOfFiles(t *testing.T) {
	t.Parallel()
	var sources []string
	for _, pattern := range []string{"../../internal/server/*.go", "../../internal/server/*/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, names...)
	}
	var inCode, onPage []string
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue // a test watches its own files
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:[wW]atcher\.Add(?:Tree)?|[wW]atchTLS)\("([a-z_]+)"`).FindAllStringSubmatch(string(text), -1) {
			inCode = append(inCode, m[1])
		}
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| `files` in metrics")
	table, _, _ = strings.Cut(table, "<!--")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1) {
		onPage = append(onPage, m[1])
	}
	slices.Sort(inCode)
	slices.Sort(onPage)
	if len(inCode) == 0 || !slices.Equal(inCode, onPage) {
		t.Errorf("in the code: %v; in docs/operations.md: %v", inCode, onPage)
	}
}
