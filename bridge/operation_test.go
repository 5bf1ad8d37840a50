// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// keyFile is a file with one sealing key, as replicas share it.
func keyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.key")
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// replicaOf is the configuration of a replica with that key, whose calls have so much time.
func replicaOf(key string, timeout time.Duration) func(*configv1.Config) {
	return func(c *configv1.Config) {
		if key != "" {
			c.State.KeyFile = key
		}
		c.Timeout = durationpb.New(timeout)
	}
}

// short is the time of a call that is to end while its operation runs.
const short = time.Second

// studio is a sidecar in front of a server with operations, and ann, whose client knows tasks.
func studio(t *testing.T, configure func(*configv1.Config)) (*operationtest.Server, *mcptest.Rig, modernClient) {
	t.Helper()
	s := operationtest.Start(t)
	rig := mcptest.Start(t, mcptest.Options{Behind: s.URL, Configure: configure})
	return s, rig, modernClient{t: t, bridge: rig.Bridge, caller: "ann", capabilities: withTasks}
}

const importVideo = `"name":"studio_import_video","arguments":{"uri":"x"}`

// An operation is a task whose id is its sealed name: begun at one replica, followed at another one, and ended there after the
// first is gone.
func TestAnOperationIsATaskAtEveryReplica(t *testing.T) {
	t.Parallel()
	key := keyFile(t)
	s, first, ann := studio(t, replicaOf(key, time.Minute))
	second := first.With(t, replicaOf(key, time.Minute), server.Adjust{})
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	elsewhere := ann
	elsewhere.bridge = second.Bridge

	got := ann.send("tools/call", importVideo)
	if got.text("resultType") != "task" || got.text("status") != "working" {
		t.Fatalf("no task: %s", got.raw)
	}
	if err := schema.Check("CreateTaskResult", resultOf(got)); err != nil {
		t.Error(err)
	}
	if strings.Contains(got.raw, s.Last()) {
		t.Errorf("the operation's name is shown: %s", got.raw)
	}
	if n := s.Calls("GetOperation"); n != 1 {
		t.Errorf("announced after %d questions whether it can be asked for, want 1", n)
	}
	id := `"taskId":` + string(got.Result["taskId"])
	s.Report(s.Last(), s.Progress("halfway", 50))
	if now := elsewhere.send("tasks/get", id); now.text("status") != "working" || now.text("statusMessage") != "halfway" || now.text("taskId") != got.text("taskId") {
		t.Errorf("at the other replica: %s", now.raw)
	}
	first.End()
	s.Finish(s.Last(), s.Video("videos/1", 12))
	now := elsewhere.send("tasks/get", id)
	if now.text("status") != "completed" || !strings.Contains(now.raw, `"structuredContent":{"name":"videos/1","seconds":12}`) {
		t.Errorf("at its end: %s", now.raw)
	}
	if err := schema.Check("GetTaskResult", resultOf(now)); err != nil {
		t.Error(err)
	}
	if again := elsewhere.send("tasks/cancel", id); again.text("resultType") != "complete" {
		t.Errorf("cancelling what has ended: %s", again.raw)
	}
	if update := elsewhere.send("tasks/update", id+`,"inputResponses":{}`); update.text("resultType") != "complete" {
		t.Errorf("an answer to nothing: %s", update.raw)
	}
	s.Forget(s.Last())
	if gone := elsewhere.send("tasks/get", id); gone.code() != -32602 {
		t.Errorf("deleted: %s", gone.raw)
	}
}

// How an operation ended is how its task ended, and what a call would have said that had waited.
func TestHowOperationsEnd(t *testing.T) {
	t.Parallel()
	s, _, ann := studio(t, replicaOf("", time.Minute))
	patient := ann
	patient.capabilities = ""
	timestamp, err := anypb.New(timestamppb.New(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	fails := func(code codes.Code) func(string) {
		return func(name string) {
			s.Fail(name, &statuspb.Status{Code: int32(code), Message: "it broke: password=hunter2hunter2"})
		}
	}
	for _, tc := range []struct {
		name, tool   string
		end          func(name string)
		status, want string
	}{
		{"a response", "studio_import_video", func(n string) { s.Finish(n, s.Video("v", 0)) }, "completed", `"structuredContent":{"name":"v","seconds":0}`},
		{"none", "studio_import_video", func(n string) { s.Finish(n, nil) }, "completed", `"structuredContent":{"name":"","seconds":0}`},
		{"no object", "studio_schedule_video", func(n string) { s.Finish(n, timestamp) }, "completed", `"structuredContent":{"value":"1970-01-01T00:00:00Z"}`},
		{"of no declared type", "studio_publish_videos", func(n string) { s.Finish(n, s.Video("v", 1)) }, "completed", `"@type":"type.googleapis.com/studio.v1.Video"`},
		{"of another type", "studio_import_video", func(n string) { s.Finish(n, timestamp) }, "completed", `"code":"INVALID_TOOL_OUTPUT"`},
		{"not found", "studio_import_video", fails(codes.NotFound), "completed", `"backendCode":"not_found"`},
		{"unavailable", "studio_import_video", fails(codes.Unavailable), "completed", `"backendCode":"unavailable"`},
		{"an unknown code", "studio_import_video", fails(77), "completed", `"backendStatus":77`},
		{"code 0", "studio_import_video", fails(codes.OK), "completed", `"backendCode":"unknown"`},
		{"cancelled", "studio_import_video", fails(codes.Canceled), "cancelled", `"backendCode":"canceled"`},
	} {
		params := `"name":"` + tc.tool + `","arguments":{}`
		s.OnBegin(nil)
		created := ann.send("tools/call", params)
		if created.text("resultType") != "task" {
			t.Fatalf("%s: no task: %s", tc.name, created.raw)
		}
		tc.end(s.Last())
		got := ann.send("tasks/get", `"taskId":`+string(created.Result["taskId"]))
		if got.text("status") != tc.status || tc.status == "completed" && !strings.Contains(got.raw, tc.want) {
			t.Errorf("%s: the task is %s", tc.name, got.raw)
		}
		if strings.Contains(got.raw, "hunter2") {
			t.Errorf("%s: not redacted: %s", tc.name, got.raw)
		}
		s.OnBegin(tc.end)
		for client, c := range map[string]modernClient{"that waits": patient, "that knows tasks": ann} {
			if got := c.send("tools/call", params); !strings.Contains(got.raw, tc.want) || got.text("resultType") != "complete" {
				t.Errorf("%s, done at once, for a client %s: %s", tc.name, client, got.raw)
			}
		}
	}
}

// A client without tasks waits until the operation is done, with progress, whether the backend has WaitOperation or not.
func TestACallWaitsForItsOperation(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		wait codes.Code
	}{{"with WaitOperation", codes.OK}, {"without it", codes.Unimplemented}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, _, ann := studio(t, replicaOf("", time.Minute))
			ann.capabilities = ""
			s.Refuse("WaitOperation", tc.wait)
			s.OnBegin(func(name string) { s.Report(name, s.Progress("a third", 33)) })
			heard := make(chan string, 16)
			ann.heard = func(n string) {
				heard <- n
				s.Finish(s.Last(), s.Video("videos/1", 7))
			}
			got := ann.sendRaw(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + importVideo +
				`,"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
			if !strings.Contains(got.raw, `"structuredContent":{"name":"videos/1","seconds":7}`) {
				t.Errorf("got %s", got.raw)
			}
			if n := <-heard; !strings.Contains(n, `"progress":33`) || !strings.Contains(n, `"total":100`) || !strings.Contains(n, "a third") {
				t.Errorf("progress: %s", n)
			}
		})
	}
}

// At the end of its time a call says that the operation is still running. That is no error, and the handle goes on with it, at
// any replica, for its caller alone.
func TestAHandleGoesOnWithAnOperation(t *testing.T) {
	t.Parallel()
	key := keyFile(t)
	s, first, ann := studio(t, replicaOf(key, short))
	ann.capabilities = ""
	s.OnBegin(func(name string) { s.Report(name, s.Progress("working on it", 5)) })
	got := ann.send("tools/call", importVideo)
	structured := got.Result["structuredContent"]
	state, _ := jsontext.Lookup(structured, "outrigger_operation")
	handle, _ := jsontext.Lookup(state, "handle")
	if string(got.Result["isError"]) != "false" || len(handle) == 0 || !strings.Contains(got.raw, "studio_get_operation") ||
		!strings.Contains(string(state), `"done":false`) || !strings.Contains(string(state), `"status_message":"working on it","progress_percent":5`) {
		t.Fatalf("at the end of its time: %s", got.raw)
	}
	argument := `"arguments":{"handle":` + string(handle) + `}`
	second := first.With(t, replicaOf(key, short), server.Adjust{})
	first.End()
	elsewhere, bob := ann, ann
	elsewhere.bridge, bob.bridge, bob.caller = second.Bridge, second.Bridge, "bob"

	for name, arguments := range map[string]string{
		"another caller": argument, "a changed handle": `"arguments":{"handle":` + strings.Replace(string(handle), "v1.", "v1.A", 1) + `}`,
		"no handle": `"arguments":{"handle":"` + s.Last() + `"}`,
	} {
		for _, tool := range []string{"studio_get_operation", "studio_cancel_operation"} {
			c := elsewhere
			if name == "another caller" {
				c = bob
			}
			if refused := c.send("tools/call", `"name":"`+tool+`",`+arguments); refused.toolError() != "INVALID_TOOL_INPUT" || !strings.Contains(refused.raw, "/handle") {
				t.Errorf("%s, %s: %s", name, tool, refused.raw)
			}
		}
	}
	if still := elsewhere.send("tools/call", `"name":"studio_get_operation",`+argument); !strings.Contains(still.raw, `"structuredContent":{"done":false,"handle":`) {
		t.Errorf("still running: %s", still.raw)
	}
	if cancelled := elsewhere.send("tools/call", `"name":"studio_cancel_operation",`+argument); !strings.Contains(cancelled.raw, `"cancel_requested":true`) || s.Calls("CancelOperation") != 1 {
		t.Errorf("cancel: %s", cancelled.raw)
	}
	if ended := elsewhere.send("tools/call", `"name":"studio_get_operation",`+argument); !strings.Contains(ended.raw, `"backendCode":"canceled"`) || string(ended.Result["isError"]) != "true" {
		t.Errorf("after that: %s", ended.raw)
	}
	s.OnBegin(nil)
	again := elsewhere.send("tools/call", importVideo)
	state, _ = jsontext.Lookup(again.Result["structuredContent"], "outrigger_operation")
	handle, _ = jsontext.Lookup(state, "handle")
	s.Finish(s.Last(), s.Video("videos/2", 1))
	if done := elsewhere.send("tools/call", `"name":"studio_get_operation","arguments":{"handle":`+string(handle)+`}`); !strings.Contains(done.raw, `"structuredContent":{"done":true,"response":{"name":"videos/2","seconds":1}}`) {
		t.Errorf("done: %s", done.raw)
	}
	s.Forget(s.Last())
	if gone := elsewhere.send("tools/call", `"name":"studio_get_operation","arguments":{"handle":`+string(handle)+`}`); !strings.Contains(gone.raw, `"backendCode":"not_found"`) {
		t.Errorf("deleted: %s", gone.raw)
	}
}

// A cancellation is a request: it is acknowledged by who cannot cancel, too.
func TestACancellationIsAcknowledged(t *testing.T) {
	t.Parallel()
	s, _, ann := studio(t, replicaOf("", time.Minute))
	id := `"taskId":` + string(ann.send("tools/call", importVideo).Result["taskId"])
	bob := ann
	bob.caller = "bob"
	if got := bob.send("tasks/cancel", id); got.code() != -32602 || s.Calls("CancelOperation") != 0 {
		t.Errorf("of another caller: %s", got.raw)
	}
	s.Refuse("CancelOperation", codes.Unimplemented)
	if got := ann.send("tasks/cancel", id); got.text("resultType") != "complete" {
		t.Errorf("where there is no CancelOperation: %s", got.raw)
	}
	s.Refuse("CancelOperation", codes.PermissionDenied)
	if got := ann.send("tasks/cancel", id); got.code() == 0 {
		t.Errorf("refused by the backend: %s", got.raw)
	}
	s.Refuse("CancelOperation", codes.OK)
	if got := ann.send("tasks/cancel", id); got.text("resultType") != "complete" {
		t.Errorf("cancel: %s", got.raw)
	}
	if got := ann.send("tasks/get", id); got.text("status") != "cancelled" {
		t.Errorf("after that: %s", got.raw)
	}
	without := ann
	without.capabilities = ""
	if got := without.send("tasks/get", id); got.code() != -32021 {
		t.Errorf("a client without tasks: %s", got.raw)
	}
}

// What passes by itself is no end of an operation, and a backend that cannot be asked does not make it an error.
func TestABackendThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	// A backend that is away is asked until the time of the call is over. The other refusals end the call at once, and must come before that.
	for name, code := range map[string]codes.Code{"away": codes.Unavailable, "without Operations": codes.Unimplemented} {
		within := 30 * time.Second
		if code == codes.Unavailable {
			within = short
		}
		s, _, ann := studio(t, replicaOf("", within))
		patient := ann
		patient.capabilities = ""
		s.Refuse("GetOperation", code)
		s.Refuse("WaitOperation", code)
		for client, c := range map[string]modernClient{"that waits": patient, "that knows tasks": ann} {
			got := c.send("tools/call", importVideo)
			hasHandle := strings.Contains(got.raw, `"handle"`)
			if string(got.Result["isError"]) != "false" || !strings.Contains(got.raw, `"done":false`) || hasHandle != (code == codes.Unavailable) {
				t.Errorf("%s, a client %s: %s", name, client, got.raw)
			}
		}
	}
	s, _, patient := studio(t, replicaOf("", 30*time.Second))
	patient.capabilities = ""
	s.Refuse("GetOperation", codes.PermissionDenied)
	s.Refuse("WaitOperation", codes.PermissionDenied)
	if got := patient.send("tools/call", importVideo); !strings.Contains(got.raw, `"backendCode":"permission_denied"`) {
		t.Errorf("refused: %s", got.raw)
	}
}

// The names of operations are long, and a task's id has to hold them.
func TestLongNamesOfOperations(t *testing.T) {
	t.Parallel()
	s, _, ann := studio(t, replicaOf("", time.Minute))
	s.Prefix(strings.Repeat("n", 1023))
	got := ann.send("tools/call", importVideo)
	if got.text("resultType") != "task" || len(got.text("taskId")) > 2048 {
		t.Fatalf("1,024 bytes: an id of %d: %s", len(got.text("taskId")), got.raw)
	}
	if now := ann.send("tasks/get", `"taskId":`+string(got.Result["taskId"])); now.text("status") != "working" {
		t.Errorf("got %s", now.raw)
	}
	s.Prefix(strings.Repeat("n", 1024))
	if got := ann.send("tools/call", importVideo); got.toolError() != "INVALID_TOOL_OUTPUT" || !strings.Contains(got.raw, "the limit is 1024") {
		t.Errorf("1,025 bytes: %s", got.raw)
	}
}

// task_support says whether a tool's operations become tasks; unsaid, they do.
func TestTaskSupportOfOperations(t *testing.T) {
	t.Parallel()
	for support, want := range map[string][2]string{ // with tasks, without
		"":          {`"resultType":"task"`, `"done":false`},
		"optional":  {`"resultType":"task"`, `"done":false`},
		"forbidden": {`"done":false`, `"done":false`},
		"required":  {`"resultType":"task"`, `-32021`},
	} {
		_, _, ann := studio(t, func(c *configv1.Config) {
			replicaOf("", short)(c)
			if support != "" {
				c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: operationtest.Service + "/ImportVideo", Tool: &configv1.ToolOptions{TaskSupport: support}})
			}
		})
		for i, capabilities := range []string{withTasks, ""} {
			ann.capabilities = capabilities
			if got := ann.send("tools/call", importVideo); !strings.Contains(got.raw, want[i]) {
				t.Errorf("%q, capabilities %q: %s", support, capabilities, got.raw)
			}
		}
	}
}
