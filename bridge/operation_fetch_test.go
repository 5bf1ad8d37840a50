// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// longName is the name of a video that exceeds small budgets.
var longName = "videos/" + strings.Repeat("n", 800)

// handleIn is the handle in the result of a call whose operation goes on.
func handleIn(t *testing.T, structured []byte) string {
	t.Helper()
	state, _ := jsontext.Lookup(structured, "outrigger_operation")
	handle, ok := jsontext.Text(lookup(state, "handle"))
	if !ok {
		t.Fatalf("no handle: %s", structured)
	}
	return handle
}

func lookup(object []byte, name string) []byte {
	value, _ := jsontext.Lookup(object, name)
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
			`"dev.outrigger/fields":"` + strings.TrimSuffix(strings.Repeat("seconds,", 250), ",") + `"`, 0, []string{longName, fit.MaskLost},
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
			elsewhere.bridge = first.With(t, configure, server.Adjust{}).Bridge
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
			about, ok := jsontext.Lookup(lookup(end.Result["result"], "_meta"), fit.ReducedKey)
			if uri, isThere := jsontext.Text(lookup(about, "uri")); ok && isThere {
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
	elsewhere.bridge = first.With(t, within(time.Minute), server.Adjust{}).Bridge
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
		return replyTo(t.Context(), t, rig.Bridge, dialect.Canonical, "tools/call", params)
	}
	began := lookup(lookup(reply(`"name":"studio.import_video","arguments":{"uri":"x"}`), "result"), "structuredContent")
	handle := handleIn(t, began)
	s.Finish(s.Last(), s.Video(longName, 3))
	get := `","arguments":{"handle":"` + handle + `"}`
	if got := string(reply(`"name":"studio.get_operation` + get)); !strings.Contains(got, longName) {
		t.Errorf("a program: %s", got)
	}
	if got := string(replyTo(t.Context(), t, rig.Bridge, dialect.Modern, "tools/call", `"name":"studio_get_operation`+get+","+modernMeta)); strings.Contains(got, longName) || !strings.Contains(got, `"budget":600`) {
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
		"fields that are gone":  {&statev1.TaskCall{Fields: "gone"}, []string{"videos/24", fit.OtherFields}},
		"of an earlier release": {&statev1.TaskCall{}, []string{"videos/24"}},
	} {
		tc.call.Tool, tc.call.Procedure, tc.call.Caller = "studio.list_videos", operationtest.Procedure+"ListVideos", ann.caller
		tc.call.Wire = []byte{2 << 3, 25} // page_size
		again, err := proto.Marshal(tc.call)
		if err != nil {
			t.Fatal(err)
		}
		run, _, err := rig.Bridge.ResumeTask(task.Record{Again: again, Task: &outriggerv1.Task{}})
		if err != nil {
			t.Fatal(err)
		}
		result, failed := run(t.Context(), func(string) {})
		got := fmt.Sprintf("%s %s %s", result.GetDataJson(), result.GetExplanation(), result.GetMetaJson())
		for _, want := range tc.want {
			if failed != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %v: got %s, want %s", name, failed, got, want)
			}
		}
	}
}
