// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// output is what a command printed, and how it ended.
type output struct {
	stdout, stderr string
	code           int
}

// stateCommand runs `sidecar state` with the connection of a fleet.
func (f *fleet) stateCommand(t *testing.T, args ...string) output {
	t.Helper()
	return runState(t, append(args, "--config", f.config, "--state", f.nats.URL(), "--state-key", f.keys)...)
}

func runState(t *testing.T, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Limit())
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, built.binary, append([]string{"state"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// listed is what ls prints of entries as JSON.
type listed struct {
	Entries []struct {
		Key        string            `json:"key"`
		Revision   uint64            `json:"revision"`
		Details    map[string]string `json:"details"`
		Unreadable string            `json:"unreadable"`
	} `json:"entries"`
	More uint64 `json:"more"`
}

func (f *fleet) list(t *testing.T, kind string, args ...string) listed {
	t.Helper()
	out := f.stateCommand(t, append([]string{"ls", kind, "--json"}, args...)...)
	var got listed
	if err := json.Unmarshal([]byte(out.stdout), &got); err != nil || out.code != 0 {
		t.Fatalf("ls %s: %v, exit code %d\n%s%s", kind, err, out.code, out.stdout, out.stderr)
	}
	return got
}

// only returns the key of the only entry of a kind.
func (f *fleet) only(t *testing.T, kind string) string {
	t.Helper()
	got := f.list(t, kind)
	if len(got.Entries) != 1 {
		t.Fatalf("%s: %d entries, want one", kind, len(got.Entries))
	}
	return got.Entries[0].Key
}

// normal replaces what differs from run to run.
func (f *fleet) normal(t *testing.T, text string) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct{ pattern, by string }{
		{regexp.QuoteMeta(f.nats.URL()), "NATS"},
		{`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
		{`\bt_[A-Za-z0-9_-]{16,}|\b[A-Za-z0-9_-]{43}\b|\b[0-9a-f]{24}\b`, "KEY"},
		{`N[A-Z0-9]{55}`, "SERVER"},
		{`\b\d+(\.\d)?(GiB|MiB|KiB|B)\b`, "SIZE"},
		{`"(size|bytes|revision)": \d+`, `"$1": N`},
		{`\b(\d+h)?(\d+m)?\d+(\.\d+)?s\b`, "AGE"},
		{`\b\d+ of \d+ bytes`, "N of M bytes"},
		{`\b\d+ bytes`, "N bytes"},
		{`NATS 2\.\d+\.\d+`, "NATS VERSION"},
		{`revision \d+`, "revision N"},
		{regexp.QuoteMeta(host), "HOST"},
		{` {2,}`, "  "},
	} {
		text = regexp.MustCompile(one.pattern).ReplaceAllString(text, one.by)
	}
	return text
}

// fill stores something of every kind.
func (f *fleet) fill(t *testing.T) {
	t.Helper()
	a := f.all[0]
	// The task must still run when the last command has looked at it.
	if out, err := a.callWithin(t, 10*time.Minute, "shop.look", "secret-argument"); err != nil || out.GetTask() == nil {
		t.Fatalf("%v, %v", out, err)
	}
	f.awaitCall(t, "Look secret-argument", 1)
	admin := administers(t, a.Server)
	if _, err := admin.RegisterTool(t.Context(), connect.NewRequest(&outriggerv1.RegisterToolRequest{
		Name: "shop.peek", Description: "Looks without touching.", Version: "1.2.3",
		Binding:         &outriggerv1.ToolBinding{Service: "fleet.v1.Shop", Method: "Look"},
		InputSchemaForm: &outriggerv1.RegisterToolRequest_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object","properties":{"name":{"type":"string"}}}`)},
	})); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(a.AdminURL("/trust"), "application/json", strings.NewReader(`{"trust":"trusted"}`))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	if _, err := a.client.Publish(t.Context(), connect.NewRequest(&outriggerv1.Notification{
		Method: "orders/changed", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(`{"n":"secret-parameter"}`)},
	})); err != nil {
		t.Fatal(err)
	}
	ring, err := keys.LoadKeys(f.keys)
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: f.nats.URL()}), Sealer: keys.NewSealer(keys.SealerOptions{Keys: ring})})
	once := c.Once(state.OnceOptions{Name: "consents", MaxBytes: 32 << 20, MaxAge: 30 * 24 * time.Hour})
	healthy(t, c)
	if fresh, err := once.Spend(t.Context(), "a consent", time.Now().Add(time.Hour)); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
}

// TestStateCommands: what the commands print of a deployment that has something of every kind, with ids, times and sizes
// replaced. No output has an argument or a parameter unless it was asked for.
func TestStateCommands(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1)
	f.fill(t)
	task, tool, consent := f.only(t, "tasks"), f.only(t, "registrations"), f.only(t, "consents")
	replica := f.only(t, "owners")
	wire := base64.StdEncoding.EncodeToString([]byte("\n\x0fsecret-argument")) // field 1, a string of 15 bytes
	var got strings.Builder
	for _, args := range [][]string{
		{"ls"}, {"ls", "--json"}, {"ls", "tasks"}, {"ls", "owners"}, {"ls", "consents"}, {"ls", "registrations"}, {"ls", "switches"}, {"ls", "events"},
		{"ls", "tasks", "--json"},
		{"show", "tasks", task}, {"show", "owners", replica}, {"show", "consents", consent}, {"show", "registrations", tool}, {"show", "switches", "trust"}, {"show", "events", "1"},
		{"show", "tasks", "none"}, {"show", "events", "99"}, {"show", "events", "first"},
		{"verify"}, {"verify", "--json"},
		{"rm", "switches", "trust"}, {"rm", "switches", "trust", "--yes", "--revision", "999"},
		{"rm", "events", "1", "--yes"}, {"rm", "consents", consent, "--yes"},
	} {
		out := f.stateCommand(t, args...)
		if text := out.stdout + out.stderr; strings.Contains(text, "secret") || strings.Contains(text, wire) {
			t.Errorf("%v shows what callers sent:\n%s", args, text)
		}
		fmt.Fprintf(&got, "$ sidecar state %s\n%s", strings.Join(args, " "), out.stdout)
		for line := range strings.Lines(out.stderr) {
			got.WriteString("! " + line)
		}
		fmt.Fprintf(&got, "exit %d\n\n", out.code)
	}
	text := f.normal(t, got.String())
	golden := filepath.Join("testdata", "state.golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("run this test with -update (-want +got):\n%s", diff)
	}
	for entry, secret := range map[string]string{"tasks " + task: wire, "events 1": "secret-parameter"} {
		out := f.stateCommand(t, append(append([]string{"show"}, strings.Fields(entry)...), "--reveal")...)
		if out.code != 0 || !strings.Contains(out.stdout, secret) {
			t.Errorf("show %s --reveal: exit code %d\n%s%s", entry, out.code, out.stdout, out.stderr)
		}
	}
	f.runExamples(t, task)
}

// runExamples runs the examples of every help, as they are.
func (f *fleet) runExamples(t *testing.T, task string) {
	t.Helper()
	dir := t.TempDir()
	key, err := os.ReadFile(f.keys)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"state.key": string(key), "sidecar.yaml": fmt.Sprintf("state: {url: %q, key_file: state.key}\n", f.nats.URL()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, command := range []string{"", "ls", "show", "verify", "rm"} {
		help := runState(t, strings.Fields(command+" --help")...)
		_, examples, _ := strings.Cut(help.stdout, "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		for line := range strings.Lines(examples) {
			line = strings.NewReplacer("nats://127.0.0.1:4222", f.nats.URL(), "KEY", task, "sidecar state", built.binary+" state").Replace(strings.TrimSpace(line))
			if strings.Contains(line, " rm tasks ") {
				line = strings.ReplaceAll(line, task, task+" --yes") // it asks a person otherwise
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			ran++
		}
	}
	if ran < 9 {
		t.Errorf("only %d examples ran", ran)
	}
}
