// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// releases has a folder for each release, with what it left behind: docs/releases.md.
const releases = "../../testdata/releases"

var record = flag.String("record", "", "version whose files TestUpgrade writes, with the binary of this tree")

// recordedConfig is the configuration of a release: what operators usually have in it. DIR is the folder of its files.
const recordedConfig = `catalog:
  descriptors: [DIR/shop.binpb]
  lock_file: DIR/catalog.lock.json
  lock_mode: refuse
access:
  tokens_file: DIR/callers.yaml
  policy:
    rules:
      - {name: no-gold, tools: ["shop.*"], effect: deny, when: 'args.name == "gold"'}
audit: {path: DIR/audit.jsonl, required: true}
timeout: 10m
limits: {drain_grace: 1s, max_message_bytes: 1MiB, task_ttl: 168h}
state: {lease: 2s}
tools:
  - method: fleet.v1.Shop/Look
    tool: {title: Look at a thing, task_support: optional}
  - method: fleet.v1.Shop/Pay
    tool: {task_support: optional, destructive: true}
`

// The digest in the callers file is of the token.
const (
	recordedToken   = "a-token-of-the-fixtures-and-of-nothing-else"
	recordedCallers = "callers:\n  - name: desk\n    token_sha256: [\"4e74a27887eb16c0a5924c5b5b530a95cef7dac1ec76819aeb01b88deba7150b\"]\n    tools: [\"*\"]\n    publish: [\"orders/*\"]\n"
	recordedKey     = "YSBrZXkgdGhhdCBvbmx5IGZpeHR1cmVzIGhhdmUgMDA=\n"
)

// upgrade is a binary that works with the files of a release, in a copy of their folder.
type upgrade struct {
	folder, config string
	nats           *natsServer
	shop           *shop
}

// in returns the arguments that every command takes.
func (u *upgrade) in() []string {
	return []string{"--backend", u.shop.url, "--config", u.config}
}

func (u *upgrade) shared() []string {
	return []string{"--state", u.nats.URL(), "--state-key", filepath.Join(u.folder, "state.key")}
}

// run runs a command of the binary.
func (u *upgrade) run(t *testing.T, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Limit())
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, built.binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = u.folder, []string{}, &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// want runs a command that must succeed.
func (u *upgrade) want(t *testing.T, args ...string) string {
	t.Helper()
	out := u.run(t, args...)
	if out.code != 0 || strings.Contains(out.stderr, "warning") {
		t.Fatalf("sidecar %v: exit code %d\n%s%s", args, out.code, out.stdout, out.stderr)
	}
	return out.stdout
}

func (u *upgrade) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(u.folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (u *upgrade) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(u.folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// settle writes the configuration with the folder in it, in a file beside the one of the release.
func (u *upgrade) settle(t *testing.T) {
	t.Helper()
	u.write(t, "here.yaml", strings.ReplaceAll(u.read(t, "serve.yaml"), "DIR", u.folder))
	u.config = filepath.Join(u.folder, "here.yaml")
}

// serve starts the binary and returns it with a client that has the token.
func (u *upgrade) serve(t *testing.T) *member {
	t.Helper()
	server := sidecar.ServeReady(t, built.binary, append(u.in(), u.shared()...)...)
	stateIs(t, server, true)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	withToken := connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			req.Header().Set("Authorization", "Bearer "+recordedToken)
			return next(ctx, req)
		}
	}))
	return &member{Server: server, client: outriggerv1connect.NewToolServiceClient(&http.Client{Transport: transport}, server.URL(""), withToken)}
}

// storedMessage is one of a stream.
type storedMessage struct {
	Subject string      `json:"subject"`
	Header  nats.Header `json:"header,omitempty"`
	Data    []byte      `json:"data,omitempty"`
}

// storedStream is a stream of a deployment, with all that is in it.
type storedStream struct {
	Config   jetstream.StreamConfig `json:"config"`
	Messages []storedMessage        `json:"messages"`
}

// export returns all streams of a server.
func export(t *testing.T, n *natsServer) []storedStream {
	t.Helper()
	js := n.admin()
	var out []storedStream
	infos := js.ListStreams(t.Context())
	for info := range infos.Info() {
		s, err := js.Stream(t.Context(), info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		one := storedStream{Config: info.Config, Messages: []storedMessage{}}
		for i := max(info.State.FirstSeq, 1); i <= info.State.LastSeq; i++ {
			m, err := s.GetMsg(t.Context(), i)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for name := range m.Header {
				if strings.HasPrefix(name, "Nats-Expected-") || name == "Nats-Msg-Id" {
					delete(m.Header, name)
				}
			}
			one.Messages = append(one.Messages, storedMessage{m.Subject, m.Header, m.Data})
		}
		out = append(out, one)
	}
	if err := infos.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// restore makes the streams of a release, with their messages. How long each is kept begins anew.
func restore(t *testing.T, n *natsServer, all []storedStream) {
	t.Helper()
	js := n.admin()
	for _, one := range all {
		if _, err := js.CreateStream(t.Context(), one.Config); err != nil {
			t.Fatal(err)
		}
		for _, m := range one.Messages {
			if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestUpgrade takes what each release left behind, and goes on with it as the present binary: configuration, callers, policy,
// lock file, audit trail and the state that replicas share. -record VERSION writes the files of a release, with the binary of this
// tree. That its clients are answered as before is TestClientsOfReleases in conformance, that what it sealed is opened
// TestSealedValuesStayReadable in internal/server.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if *record != "" {
		recordRelease(t, filepath.Join(releases, *record))
	}
	folders, err := filepath.Glob(filepath.Join(releases, "*", "serve.yaml"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("there are no files of a release (%v)", err)
	}
	for _, config := range folders {
		from := filepath.Dir(config)
		t.Run(filepath.Base(from), func(t *testing.T) {
			t.Parallel()
			u := &upgrade{folder: t.TempDir(), nats: startNATS(t, nil), shop: startShop(t)}
			if err := os.CopyFS(u.folder, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			u.settle(t)
			u.shop.letGo()
			var state []storedStream
			if err := json.Unmarshal([]byte(u.read(t, "state.json")), &state); err != nil {
				t.Fatal(err)
			}
			restore(t, u.nats, state)
			was := strings.Count(u.read(t, "audit.jsonl"), "\n")
			s := u.serve(t)
			u.tools(t, s)
			u.state(t, s)
			u.calls(t, s)
			u.audit(t, s, was)
		})
	}
}

// tools compares the catalog with that of the release: nothing breaks, and the lock file still fits, so that its tools are not refused.
func (u *upgrade) tools(t *testing.T, s *member) {
	t.Helper()
	u.write(t, "now.json", u.want(t, append([]string{"tools", "--json"}, u.in()...)...))
	u.want(t, "diff", "tools.json", "now.json")
	list, err := s.client.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Msg.GetTools() {
		names = append(names, tool.GetName())
	}
	if got := strings.Join(names, " "); got != "shop.look shop.pay shop.peek shop.ping" {
		t.Errorf("tools: %s", got)
	}
}

// state looks at what was stored: every entry can be opened, and counts.
func (u *upgrade) state(t *testing.T, s *member) {
	t.Helper()
	for kind, least := range map[string]int{"tasks": 1, "registrations": 1, "switches": 1, "consents": 0, "events": 1} {
		var got listed
		if err := json.Unmarshal([]byte(u.want(t, append([]string{"state", "ls", kind, "--json"}, u.shared()...)...)), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Entries) < least {
			t.Errorf("%s: %d entries, want %d", kind, len(got.Entries), least)
		}
		for _, e := range got.Entries {
			if e.Unreadable != "" {
				t.Errorf("%s %s is unreadable: %s", kind, e.Key, e.Unreadable)
			}
		}
	}
	resp, err := http.Get(s.AdminURL("/trust"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `"trusted"`) {
		t.Errorf("the switch says %s (%v)", text, err)
	}
}

// calls uses a tool, one that was registered in the release, and one that the release's policy denies.
func (u *upgrade) calls(t *testing.T, s *member) {
	t.Helper()
	if out, err := s.call(t, "shop.ping", "a"); err != nil || !strings.Contains(out.String(), "result of Ping a") {
		t.Errorf("%v, %v", out, err)
	}
	if out, err := s.call(t, "shop.peek", "b"); err != nil || !strings.Contains(out.String(), "result of Look b") {
		t.Errorf("the tool that was registered: %v, %v", out, err)
	}
	if out, err := s.call(t, "shop.ping", "gold"); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("what the policy denies: %v, %v", out, err)
	}
	resp, err := http.Post(s.URL("/rpc"), "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", resp.Status)
	}
}

// audit reads the trail of the release, which the binary has appended to.
func (u *upgrade) audit(t *testing.T, s *member, was int) {
	t.Helper()
	from := started(t, s).Format(time.RFC3339Nano)
	u.stop(t, s)
	before := strings.Count(u.want(t, "audit", "audit.jsonl", "--json", "--until", from), "\n")
	if before < 4 || before > was {
		t.Errorf("%d lines of the release are read, it has %d", before, was)
	}
	rows := u.want(t, "audit", "audit.jsonl", "--caller", "desk", "--tool", "shop.p*")
	if strings.Count(rows, "shop.peek") < 2 || strings.Count(rows, "PERMISSION_DENIED") < 2 {
		t.Errorf("the trail does not go on:\n%s", rows)
	}
}

// stop drains the server, so that its files are whole.
func (u *upgrade) stop(t *testing.T, s *member) {
	t.Helper()
	s.Signal(t, syscall.SIGTERM)
	if code := s.Wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// started is when the server's log begins.
func started(t *testing.T, s *member) time.Time {
	t.Helper()
	found := regexp.MustCompile(`"ts":"([^"]+)"`).FindStringSubmatch(s.Text())
	if found == nil {
		t.Fatal("the log has no time")
	}
	at, err := time.Parse(time.RFC3339Nano, found[1])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// recordRelease uses the binary as the users of a release do, and keeps what it leaves behind.
func recordRelease(t *testing.T, to string) {
	t.Helper()
	u := &upgrade{folder: t.TempDir(), nats: startNATS(t, nil), shop: startShop(t)}
	descriptors, err := os.ReadFile(u.shop.descriptors)
	if err != nil {
		t.Fatal(err)
	}
	u.write(t, "shop.binpb", string(descriptors))
	u.write(t, "serve.yaml", recordedConfig)
	u.write(t, "callers.yaml", recordedCallers)
	u.write(t, "state.key", recordedKey)
	u.settle(t)
	u.want(t, append([]string{"lock", "update"}, u.in()...)...)
	u.write(t, "tools.json", u.want(t, append([]string{"tools", "--json"}, u.in()...)...))
	s := u.serve(t)
	task := s.begin(t, "shop.look", "a")
	if _, err := administers(t, s.Server).RegisterTool(t.Context(), connect.NewRequest(&outriggerv1.RegisterToolRequest{
		Name: "shop.peek", Description: "Looks without touching.", Version: "1.2.3", Binding: &outriggerv1.ToolBinding{Service: "fleet.v1.Shop", Method: "Look"},
		InputSchemaForm: &outriggerv1.RegisterToolRequest_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object","properties":{"name":{"type":"string"}}}`)},
	})); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(s.AdminURL("/trust"), "application/json", strings.NewReader(`{"trust":"trusted"}`))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	if _, err := s.client.Publish(t.Context(), connect.NewRequest(&outriggerv1.Notification{
		Method: "orders/changed", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(`{"n":1}`)},
	})); err != nil {
		t.Fatal(err)
	}
	u.shop.letGo()
	testkit.Until(t, "the task has ended", func() bool {
		got, err := s.client.GetTask(t.Context(), connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: task}))
		return err == nil && got.Msg.GetStatus() == outriggerv1.TaskStatus_TASK_STATUS_COMPLETED
	})
	u.calls(t, s)
	u.stop(t, s)
	state, err := json.MarshalIndent(export(t, u.nats), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	u.write(t, "state.json", string(state)+"\n")
	if err := os.MkdirAll(to, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"serve.yaml", "callers.yaml", "state.key", "shop.binpb", "catalog.lock.json", "tools.json", "audit.jsonl", "state.json"} {
		if err := os.WriteFile(filepath.Join(to, name), []byte(strings.ReplaceAll(u.read(t, name), u.folder, "DIR")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
