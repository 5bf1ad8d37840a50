// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
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
	return s, rig, modernClient{t: t, bridge: rig, caller: "ann", capabilities: withTasks}
}

// videosOf is a studio with so many videos, and options of the tool that lists them.
func videosOf(t *testing.T, videos int, o *configv1.ToolOptions, configure func(*configv1.Config)) (*operationtest.Server, *mcptest.Rig, modernClient) {
	t.Helper()
	s, rig, ann := studio(t, func(c *configv1.Config) {
		replicaOf("", time.Minute)(c)
		if o != nil {
			c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: operationtest.Service + "/ListVideos", Tool: o})
		}
		if configure != nil {
			configure(c)
		}
	})
	s.Videos(videos)
	return s, rig, ann
}

const importVideo = `"name":"studio_import_video","arguments":{"uri":"x"}`

// An operation is a task whose id is its sealed name: begun at one replica, followed at another one, and ended there after the
// first is gone.
func TestAnOperationIsATaskAtEveryReplica(t *testing.T) {
	t.Parallel()
	key := keyFile(t)
	s, first, ann := studio(t, replicaOf(key, time.Minute))
	second := first.Again(t, replicaOf(key, time.Minute))
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	elsewhere := ann
	elsewhere.bridge = second

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
	state, _ := lookup(structured, "outrigger_operation")
	handle, _ := lookup(state, "handle")
	if string(got.Result["isError"]) != "false" || len(handle) == 0 || !strings.Contains(got.raw, "studio_get_operation") ||
		!strings.Contains(string(state), `"done":false`) || !strings.Contains(string(state), `"status_message":"working on it","progress_percent":5`) {
		t.Fatalf("at the end of its time: %s", got.raw)
	}
	argument := `"arguments":{"handle":` + string(handle) + `}`
	second := first.Again(t, replicaOf(key, short))
	first.End()
	elsewhere, bob := ann, ann
	elsewhere.bridge, bob.bridge, bob.caller = second, second, "bob"

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
	state, _ = lookup(again.Result["structuredContent"], "outrigger_operation")
	handle, _ = lookup(state, "handle")
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

// longName is the name of a video that exceeds small budgets.
var longName = "videos/" + strings.Repeat("n", 800)

// handleIn is the handle in the result of a call whose operation goes on.
func handleIn(t *testing.T, structured []byte) string {
	t.Helper()
	state, _ := lookup(structured, "outrigger_operation")
	handle, ok := jsonText(valueOf(state, "handle"))
	if !ok {
		t.Fatalf("no handle: %s", structured)
	}
	return handle
}

func valueOf(object []byte, name string) []byte {
	value, _ := lookup(object, name)
	return value
}

// The result of an operation is as the call wanted it that began it: as a task, and at another replica, too.
func TestTheResultOfAnOperationIsAsItsCallWantedIt(t *testing.T) {
	t.Parallel()
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	for name, tc := range map[string]struct {
		meta   string
		budget int64
		want   []string
	}{
		"a mask":            {`"dev.outrigger/fields":"seconds"`, 0, []string{`"structuredContent":{"seconds":12}`}},
		"a budget":          {`"dev.outrigger/result-budget":300`, 500, []string{`"structuredContent":{"seconds":12}`, `"budget":300`, `"path":"/name"`, "resource_link"}},
		"that of the model": {"", 400, []string{`"structuredContent":{"seconds":12}`, `"budget":400`, `"path":"/name"`, "resource_link"}},
		"all of it":         {"", 0, []string{longName, `"seconds":12`}},
		"a long mask": {
			`"dev.outrigger/fields":"` + strings.TrimSuffix(strings.Repeat("seconds,", 250), ",") + `"`, 0, []string{longName, maskLost},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := keyFile(t)
			configure := func(c *configv1.Config) {
				replicaOf(key, time.Minute)(c)
				budgetOf(tc.budget)(c)
			}
			s, first, ann := studio(t, configure)
			elsewhere := ann
			elsewhere.bridge = first.Again(t, configure)
			got := wanting(ann, importVideo, tc.meta)
			if got.text("resultType") != "task" || len(got.text("taskId")) > 2048 {
				t.Fatalf("no task: %s", got.raw)
			}
			first.End()
			s.Finish(s.Last(), s.Video(longName, 12))
			end := elsewhere.send("tasks/get", `"taskId":`+string(got.Result["taskId"]))
			for _, want := range tc.want {
				if !strings.Contains(end.raw, want) {
					t.Errorf("it lacks %s: %s", want, end.raw)
				}
			}
			if strings.Contains(end.raw, "A call may name") {
				t.Errorf("it is too late to choose fields: %s", end.raw)
			}
			if err := schema.Check("GetTaskResult", resultOf(end)); err != nil {
				t.Error(err)
			}
			about, ok := lookup(valueOf(end.Result["result"], "_meta"), reducedKey)
			if uri, isThere := jsonText(valueOf(about, "uri")); ok && isThere {
				if whole := read(t, elsewhere, uri); !strings.Contains(*whole.Text, longName) {
					t.Errorf("the whole is %s", *whole.Text)
				}
			}
		})
	}
}

// So it is for clients that come back with the handle. What they say themselves can only lower the budget.
func TestTheResultByHandleIsAsItsCallWantedIt(t *testing.T) {
	t.Parallel()
	key := keyFile(t)
	within := func(timeout time.Duration) func(*configv1.Config) {
		return func(c *configv1.Config) {
			replicaOf(key, timeout)(c)
			budgetOf(600)(c)
		}
	}
	s, first, ann := studio(t, within(short)) // where calls begin, and do not end
	ann.capabilities = ""
	elsewhere := ann
	elsewhere.bridge = first.Again(t, within(time.Minute))
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	for name, tc := range map[string]struct {
		began, fetched string
		budget         int
		data           string
	}{
		"a mask":                 {`"dev.outrigger/fields":"seconds"`, "", 0, `{"done":true,"response":{"seconds":3}}`},
		"the sidecar's budget":   {"", "", 600, `{"done":true,"response":{"seconds":3}}`},
		"its own budget":         {`"dev.outrigger/result-budget":400`, "", 400, `{"done":true,"response":{"seconds":3}}`},
		"a lower one":            {`"dev.outrigger/result-budget":400`, `"dev.outrigger/result-budget":300`, 300, `{"done":true,"response":{"seconds":3}}`},
		"not a higher one":       {`"dev.outrigger/result-budget":400`, `"dev.outrigger/result-budget":3000`, 400, `{"done":true,"response":{"seconds":3}}`},
		"a mask that fits both":  {`"dev.outrigger/fields":"seconds","dev.outrigger/result-budget":300`, "", 0, `{"done":true,"response":{"seconds":3}}`},
		"a mask that still cuts": {`"dev.outrigger/fields":"name"`, "", 600, `{"done":true,"response":{}}`},
		"a mask for this fetch":  {"", `"dev.outrigger/fields":"response.seconds"`, 0, `{"done":true,"response":{"seconds":3}}`},
		"another mask":           {`"dev.outrigger/fields":"name"`, `"dev.outrigger/fields":"response.seconds"`, 0, `{"done":true,"response":{"seconds":3}}`},
		"a mask of all of it":    {`"dev.outrigger/fields":"seconds"`, `"dev.outrigger/fields":"response"`, 600, `{"done":true,"response":{"seconds":3}}`},
	} {
		// Not in parallel: the server knows only the last operation.
		began := wanting(ann, importVideo, tc.began)
		handle := handleIn(t, began.Result["structuredContent"])
		s.Finish(s.Last(), s.Video(longName, 3))
		got := wanting(elsewhere, `"name":"studio_get_operation","arguments":{"handle":"`+handle+`"}`, tc.fetched)
		blocks := contentOf(t, got)
		if data := string(got.Result["structuredContent"]); data != tc.data || blocks[0].Text != data {
			t.Errorf("%s: got %s", name, got.raw)
		}
		if err := schema.Check("CallToolResult", resultOf(got)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if tc.budget == 0 {
			if len(blocks) != 1 {
				t.Errorf("%s: got %s", name, got.raw)
			}
			continue
		}
		if !strings.Contains(blocks[1].Text, `"dev.outrigger/fields": "response.`) && name != "a mask that still cuts" {
			t.Errorf("%s: it suggests no mask: %s", name, blocks[1].Text)
		}
		about := reducedOf(t, got)
		if about.Budget != tc.budget || len(about.Cut) != 1 || about.Cut[0].Path != "/response/name" || len(blocks) != 3 || blocks[2].URI != about.URI {
			t.Errorf("%s: got %s", name, got.raw)
		}
		if whole := read(t, elsewhere, about.URI); !strings.Contains(*whole.Text, longName) {
			t.Errorf("%s: the whole is %s", name, *whole.Text)
		}
	}
}

// A mask of a fetch that is wrong is refused before the service is asked. A cancellation has no fields.
func TestAMaskOfAFetchIsOfTheResponse(t *testing.T) {
	t.Parallel()
	s, _, ann := studio(t, replicaOf("", short))
	ann.capabilities = ""
	handle := handleIn(t, wanting(ann, importVideo, "").Result["structuredContent"])
	s.Finish(s.Last(), s.Video("a", 3))
	before := s.Calls("GetOperation")
	for _, tc := range []struct{ tool, mask, says string }{
		{"get", "seconds", `\"seconds\" does not begin with response; write paths such as \"response.seconds\"`},
		{"get", "done", `\"done\" does not begin with response; write paths such as \"response.`},
		{"get", "response.secnds", `the result has no field \"response.secnds\"; did you mean \"response.seconds\"?`},
		{"get", "response.seconds.x", `\"response.seconds\" has no fields`},
		{"get", "response..x", "is empty"},
		{"cancel", "response", "is always whole"},
	} {
		got := wanting(ann, `"name":"studio_`+tc.tool+`_operation","arguments":{"handle":"`+handle+`"}`, `"dev.outrigger/fields":"`+tc.mask+`"`)
		if !strings.Contains(got.raw, `"code":"INVALID_PARAMS"`) || !strings.Contains(got.raw, tc.says) || !strings.Contains(got.raw, `/_meta/dev.outrigger~1fields`) {
			t.Errorf("%s %s: got %s", tc.tool, tc.mask, got.raw)
		}
	}
	if s.Calls("GetOperation") != before || s.Calls("CancelOperation") != 0 {
		t.Error("the service was asked")
	}
}

// Programs get whole results from an operation that they began; a model gets no more than its budget of it.
func TestWhoseBudgetAnOperationHas(t *testing.T) {
	t.Parallel()
	s, rig, _ := studio(t, func(c *configv1.Config) {
		replicaOf("", short)(c)
		budgetOf(600)(c)
	})
	reply := func(params string) []byte {
		return replyTo(t.Context(), t, rig, mcptest.Canonical, "tools/call", params)
	}
	began := valueOf(valueOf(reply(`"name":"studio.import_video","arguments":{"uri":"x"}`), "result"), "structuredContent")
	handle := handleIn(t, began)
	s.Finish(s.Last(), s.Video(longName, 3))
	get := `","arguments":{"handle":"` + handle + `"}`
	if got := string(reply(`"name":"studio.get_operation` + get)); !strings.Contains(got, longName) {
		t.Errorf("a program: %s", got)
	}
	if got := string(replyTo(t.Context(), t, rig, mcptest.Modern, "tools/call", `"name":"studio_get_operation`+get+","+modernMeta)); strings.Contains(got, longName) || !strings.Contains(got, `"budget":600`) {
		t.Errorf("a model: %s", got)
	}
}

// A replica that takes a task over has its result as the call wanted it. If the result does not have the fields any more, it is
// shown whole, and says so.
func TestATaskThatIsTakenOverHasTheResultThatTheCallWanted(t *testing.T) {
	t.Parallel()
	_, rig, ann := videosOf(t, 25, nil, budgetOf(2000))
	for name, tc := range map[string]struct {
		call *statev1.TaskCall
		want []string
	}{
		"a mask":                {&statev1.TaskCall{Fields: "totalSize"}, []string{`{"totalSize":25}`}},
		"a budget":              {&statev1.TaskCall{Budget: 300}, []string{`"budget":300`, `"path":"/videos"`, "resources/read"}},
		"a model's budget":      {&statev1.TaskCall{ForModel: true, Budget: 1900}, []string{"videos/24"}},
		"fields that are gone":  {&statev1.TaskCall{Fields: "gone"}, []string{"videos/24", otherFields}},
		"of an earlier release": {&statev1.TaskCall{}, []string{"videos/24"}},
	} {
		tc.call.Tool, tc.call.Procedure, tc.call.Caller = "studio.list_videos", operationtest.Procedure+"ListVideos", ann.caller
		tc.call.Wire = []byte{2 << 3, 25} // page_size
		again, err := proto.Marshal(tc.call)
		if err != nil {
			t.Fatal(err)
		}
		result, failed := rig.TakeOver(t.Context(), again)
		got := fmt.Sprintf("%s %s %s", result.GetDataJson(), result.GetExplanation(), result.GetMetaJson())
		for _, want := range tc.want {
			if failed != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %v: got %s, want %s", name, failed, got, want)
			}
		}
	}
}

// An operation that was begun over one edge of a replica is finished over the ToolService of another one, after the first has
// stopped.
func TestOperationsOverToolService(t *testing.T) {
	t.Parallel()
	key := keyFile(t)
	s, first, _ := studio(t, replicaOf(key, time.Minute))
	second := first.Again(t, replicaOf(key, time.Minute))
	here := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), first.Serve(t), connect.WithGRPC())
	there := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 1), second.Serve(t))
	call := &outriggerv1.ToolCall{
		ToolName: "studio.import_video", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"uri":"x"}`)},
		Context: &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}},
	}
	begun, err := here.CallTool(t.Context(), connect.NewRequest(call))
	if err != nil || begun.Msg.GetTask().GetStatus() != outriggerv1.TaskStatus_TASK_STATUS_WORKING {
		t.Fatalf("%v: %v", begun, err)
	}
	first.End()
	s.Finish(s.Last(), s.Video("videos/1", 3))
	who := &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}}
	got, err := there.GetTask(t.Context(), connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: begun.Msg.GetTask().GetTaskId(), Context: who}))
	if err != nil || string(got.Msg.GetResult().GetDataJson()) != `{"name":"videos/1","seconds":3}` {
		t.Errorf("%v: %v", got, err)
	}
	if _, err := there.CancelTask(t.Context(), connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: begun.Msg.GetTask().GetTaskId(), Context: who})); err != nil {
		t.Errorf("cancel: %v", err)
	}
}

// Clients of the legacy era and of the canonical dialect get a handle: there are no tasks for them.
func TestOperationsInOtherDialects(t *testing.T) {
	t.Parallel()
	_, rig, _ := studio(t, replicaOf("", 3*short))
	for d, name := range map[mcptest.Dialect]string{mcptest.Legacy: "studio_get_operation", mcptest.Canonical: "studio.get_operation"} {
		got := answer(t, rig, d, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"studio_import_video","arguments":{}}}`)
		if got.Result == nil || got.Result.IsError || !strings.Contains(string(got.Result.StructuredContent), `"outrigger_operation":{"done":false,"handle":"v1.`) ||
			len(got.Result.Content) != 2 || !strings.Contains(got.Result.Content[1].Text, name) {
			t.Errorf("%v: %+v", d, got)
		}
	}
}

// Each poll is held to the policy: who may not use the tool any more does not hear of its operations.
func TestPollsAreHeldToThePolicy(t *testing.T) {
	t.Parallel()
	key := keyFile(t)
	s, rig, ann := studio(t, replicaOf(key, short))
	id := `"taskId":` + string(ann.send("tools/call", importVideo).Result["taskId"])
	ann.bridge = rig.Again(t, func(c *configv1.Config) {
		replicaOf(key, short)(c)
		ruled(rule("r", "deny", `true`, "studio.import_video"))(c)
	})
	before := s.Calls("GetOperation")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		params := id
		if method == "tasks/update" {
			params += `,"inputResponses":{}`
		}
		if got := ann.send(method, params); !strings.Contains(got.raw, string(errmap.PermissionDenied)) && got.status != http.StatusForbidden {
			t.Errorf("%s: %s", method, got.raw)
		}
	}
	if s.Calls("GetOperation") != before || s.Calls("CancelOperation") != 0 {
		t.Error("the backend was called")
	}
}

// A list in pages says how to go on. Where its tool is set to, a call fetches all pages, within the bounds of one result.
func TestListsInPages(t *testing.T) {
	t.Parallel()
	const list = `"name":"studio_list_videos","arguments":`
	for _, tc := range []struct {
		name      string
		all       bool
		videos    int
		items     int32
		arguments string
		calls     int
		has, not  string
	}{
		{"one page of more", false, 25, 0, `{}`, 1, `call again with pageToken set to the nextPageToken`, "videos/10"},
		{"the last page", false, 25, 0, `{"pageToken":"20"}`, 1, "videos/24", "call again"},
		{"all pages", true, 25, 0, `{}`, 3, "videos/24", "incomplete"},
		{"all of the rest", true, 25, 0, `{"pageToken":"20"}`, 1, "videos/24", "videos/19"},
		{"more than a result holds", true, 25, 15, `{}`, 2, `"nextPageToken":"10"`, "videos/10\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, _, ann := studio(t, func(c *configv1.Config) {
				replicaOf("", time.Minute)(c)
				c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: operationtest.Service + "/ListVideos", Tool: &configv1.ToolOptions{AllPages: proto.Bool(tc.all)}})
				if tc.items > 0 {
					c.Limits.MaxResultItems = proto.Int32(tc.items)
				}
			})
			s.Videos(tc.videos)
			got := ann.send("tools/call", list+tc.arguments)
			if !strings.Contains(got.raw, tc.has) || strings.Contains(got.raw, tc.not) || s.Calls("ListVideos") != tc.calls {
				t.Errorf("%d calls, want %d: %s", s.Calls("ListVideos"), tc.calls, got.raw)
			}
			if listed := ann.send("tools/list", ""); !strings.Contains(listed.raw, "nextPageToken is not empty") {
				t.Error("the description does not say how to go on")
			}
		})
	}
}
