// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// wanting sends a call whose _meta has more members.
func wanting(c modernClient, params, meta string) modernAnswer {
	c.t.Helper()
	capabilities := c.capabilities
	if capabilities == "" {
		capabilities = "{}"
	}
	if meta != "" {
		meta += ","
	}
	return c.sendRaw(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `,"_meta":{` + meta +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`)
}

// contentOf are the blocks of a result.
type contentBlock struct {
	Type, Text, URI string
	Size            int
}

func contentOf(t *testing.T, got modernAnswer) []contentBlock {
	t.Helper()
	var out []contentBlock
	if err := json.Unmarshal(got.Result["content"], &out); err != nil {
		t.Fatalf("%v: %s", err, got.raw)
	}
	return out
}

// reducedOf is what _meta says about a cut.
func reducedOf(t *testing.T, got modernAnswer) (about struct {
	Bytes, Budget, More int
	URI, Until          string
	Cut                 []struct {
		Path     string
		Kept, Of *int
	}
}) {
	t.Helper()
	raw, ok := jsontext.Lookup(got.Result["_meta"], fit.ReducedKey)
	if !ok {
		t.Fatalf("_meta says nothing: %s", got.raw)
	}
	if err := json.Unmarshal(raw, &about); err != nil {
		t.Fatal(err)
	}
	return about
}

const listVideos = `"name":"studio_list_videos","arguments":`

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

func budgetOf(bytes int64) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.ResultBudget = proto.Int64(bytes) }
}

func TestAMaskChoosesFields(t *testing.T) {
	t.Parallel()
	_, _, ann := videosOf(t, 2, nil, nil)
	for _, tc := range []struct{ fields, want string }{
		{`"videos.name"`, `{"videos":[{"name":"videos/0"},{"name":"videos/1"}]}`},
		{`" videos.seconds , total_size "`, `{"videos":[{"seconds":0},{"seconds":1}],"totalSize":2}`},
		{`"videos.*.name"`, `{"videos":[{"name":"videos/0"},{"name":"videos/1"}]}`},
		{`"totalSize,totalSize"`, `{"totalSize":2}`},
		{`"nextPageToken"`, `{"nextPageToken":""}`},
		{`""`, `{"videos":[{"name":"videos/0","seconds":0},{"name":"videos/1","seconds":1}],"nextPageToken":"","totalSize":2}`},
	} {
		got := wanting(ann, listVideos+`{}`, `"dev.outrigger/fields":`+tc.fields)
		if string(got.Result["structuredContent"]) != tc.want || contentOf(t, got)[0].Text != tc.want {
			t.Errorf("%s: got %s", tc.fields, got.raw)
		}
	}
	for _, tc := range []struct{ meta, says string }{
		{`"dev.outrigger/fields":"videos.nme"`, `did you mean \"videos.name\"`},
		{`"dev.outrigger/fields":"video.name,nothing"`, `did you mean \"videos\"`},
		{`"dev.outrigger/fields":"videos.name.first"`, `has no fields`},
		{`"dev.outrigger/fields":"videos..name"`, `separated by commas`},
		{`"dev.outrigger/fields":["videos"]`, `want a string`},
		{`"dev.outrigger/result-budget":"100"`, `want a number of bytes`},
		{`"dev.outrigger/result-budget":10`, `from 256 to`},
	} {
		got := wanting(ann, listVideos+`{}`, tc.meta)
		if !strings.Contains(got.raw, "INVALID_PARAMS") || !strings.Contains(got.raw, `/params/_meta/dev.outrigger~1`) || !strings.Contains(got.raw, tc.says) {
			t.Errorf("%s: got %s, want INVALID_PARAMS and %s", tc.meta, got.raw, tc.says)
		}
	}
	// A document has no fields.
	archive := holding(t, body(t, "text/plain", []byte("text")), nil)
	if got := wanting(archive, `"name":"archive_fetch"`, `"dev.outrigger/fields":"data"`); !strings.Contains(got.raw, "which has no fields") {
		t.Errorf("got %s", got.raw)
	}
}

// Masks are for callers of every kind.
func TestAMaskOfTheCanonicalDialect(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{ResultBudget: 300})
	reply := func(meta string) string {
		return string(replyTo(t.Context(), t, b, dialect.Canonical, "tools/call", `"name":"lab.echo","arguments":{"nonce":"`+strings.Repeat("n", 400)+`","signed":"5"}`+meta))
	}
	if got := reply(`,"_meta":{"dev.outrigger/fields":"signed"}`); !strings.Contains(got, `"structuredContent":{"signed":"5"}`) {
		t.Errorf("got %s", got)
	}
	if got := reply(""); strings.Contains(got, "budget") {
		t.Errorf("the budget is for models: %s", got)
	}
	if got := reply(`,"_meta":{"dev.outrigger/result-budget":300}`); !strings.Contains(got, "/nonce") || strings.Contains(got, "nnnn") || !strings.Contains(got, `"signed":"5"`) {
		t.Errorf("its own budget: %s", got)
	}
}

func TestAResultIsCutToItsBudget(t *testing.T) {
	t.Parallel()
	const budget = 400
	mcp := mcpschema.Load(t, mcpschema.Revision20260728)
	_, rig, ann := videosOf(t, 25, nil, budgetOf(budget))
	got := wanting(ann, listVideos+`{"pageSize":25}`, "")
	if err := mcp.Check("CallToolResult", resultOf(got)); err != nil {
		t.Error(err)
	}
	blocks, about, data := contentOf(t, got), reducedOf(t, got), string(got.Result["structuredContent"])
	if len(blocks) != 3 || blocks[0].Text != data || blocks[2].Type != "resource_link" || blocks[2].URI != about.URI || blocks[2].Size != about.Bytes {
		t.Fatalf("got %s", got.raw)
	}
	var cut struct {
		Videos    []json.RawMessage
		TotalSize int
	}
	if err := json.Unmarshal([]byte(data), &cut); err != nil || len(data) > budget || len(data) < budget/2 || cut.TotalSize != 25 {
		t.Errorf("%v: %d bytes: %s", err, len(data), data)
	}
	if len(about.Cut) != 1 || about.Cut[0].Path != "/videos" || *about.Cut[0].Kept != len(cut.Videos) || *about.Cut[0].Of != 25 || about.Budget != budget {
		t.Errorf("got %+v", about)
	}
	for _, want := range []string{fmt.Sprintf("all but the first %d of 25 in /videos", len(cut.Videos)), about.URI, "resources/read", "smaller pageSize", `such as "dev.outrigger/fields": "videos.name"`} {
		if !strings.Contains(blocks[1].Text, want) {
			t.Errorf("the text lacks %q: %s", want, blocks[1].Text)
		}
	}
	tool, _ := rig.Bridge.Catalogs().Current().Lookup("studio.list_videos")
	validator, err := schema.Compile(tool.Output.Advertised())
	if err != nil {
		t.Fatal(err)
	}
	if found, err := validator.Validate([]byte(data)); err != nil || len(found) > 0 {
		t.Errorf("%v, %v: %s", err, found, data)
	}
	// The whole can be read, at once and in parts.
	whole := read(t, ann, about.URI)
	if whole.MimeType != "application/json" || len(*whole.Text) != about.Bytes || strings.Count(*whole.Text, `"name"`) != 25 {
		t.Errorf("got %+v", whole)
	}
	var gathered strings.Builder
	for next := fmt.Sprintf("%s?offset=0&length=%d", about.URI, budget); next != ""; {
		p := read(t, ann, next)
		gathered.WriteString(*p.Text)
		next = p.Meta.Range.Next
	}
	if gathered.String() != *whole.Text {
		t.Error("the parts are not the whole")
	}
	// A mask comes first: what it leaves may fit.
	if got := wanting(ann, listVideos+`{"pageSize":25}`, `"dev.outrigger/fields":"totalSize"`); string(got.Result["structuredContent"]) != `{"totalSize":25}` || strings.Contains(got.raw, fit.ReducedKey) {
		t.Errorf("got %s", got.raw)
	}
	// A caller may lower the budget, and not raise it.
	for own, want := range map[int]int{256: 256, 100000: budget} {
		if got := reducedOf(t, wanting(ann, listVideos+`{"pageSize":25}`, fmt.Sprintf(`"dev.outrigger/result-budget":%d`, own))); got.Budget != want {
			t.Errorf("%d: the budget is %d", own, got.Budget)
		}
	}
	if rig.Bridge.Reduced() != 3 {
		t.Errorf("%d results were cut", rig.Bridge.Reduced())
	}
}

// Without a budget nothing is cut, and nothing more is offered.
func TestNoBudgetCutsNothing(t *testing.T) {
	t.Parallel()
	_, _, ann := videosOf(t, 200, nil, nil)
	if got := wanting(ann, listVideos+`{"pageSize":200}`, ""); strings.Contains(got.raw, fit.ReducedKey) || !strings.Contains(got.raw, "videos/199") {
		t.Errorf("got %s", got.raw)
	}
	if got := ann.send("server/discover", ""); strings.Contains(got.raw, `"resources"`) {
		t.Errorf("got %s", got.raw)
	}
	// A caller's own budget is kept to, but there is nothing to read the whole from.
	got := wanting(ann, listVideos+`{"pageSize":200}`, `"dev.outrigger/result-budget":300`)
	if about := reducedOf(t, got); about.URI != "" || strings.Contains(got.raw, "resource_link") || strings.Contains(got.raw, "resources/read") {
		t.Errorf("got %s", got.raw)
	}
	// With one, results are resources; a tool's own takes precedence.
	_, _, bob := videosOf(t, 200, &configv1.ToolOptions{ResultBudget: proto.Int64(0)}, budgetOf(1000))
	if got := bob.send("server/discover", ""); !strings.Contains(got.raw, `"resources"`) {
		t.Errorf("got %s", got.raw)
	}
	if got := wanting(bob, listVideos+`{"pageSize":200}`, ""); strings.Contains(got.raw, fit.ReducedKey) {
		t.Errorf("got %s", got.raw)
	}
	_, _, eve := videosOf(t, 200, &configv1.ToolOptions{ResultBudget: proto.Int64(500)}, nil)
	if about := reducedOf(t, wanting(eve, listVideos+`{"pageSize":200}`, "")); about.Budget != 500 || about.URI == "" {
		t.Errorf("got %+v", about)
	}
}

// A page whose size the caller left to the service is made smaller, so that its token goes on where it ends.
func TestAPageIsMadeSmallerToFitItsBudget(t *testing.T) {
	t.Parallel()
	again := &configv1.ToolOptions{Idempotent: proto.Bool(true)}
	for _, tc := range []struct {
		name      string
		options   *configv1.ToolOptions
		videos    int
		arguments string
		calls     int
		isCut     bool
	}{
		{"the service chose", again, 25, `{}`, 2, false},
		{"the caller chose", again, 25, `{"pageSize":20}`, 1, true},
		{"not to be called again", &configv1.ToolOptions{Idempotent: proto.Bool(false)}, 25, `{}`, 1, true},
		{"it fits", again, 3, `{}`, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, _, ann := videosOf(t, tc.videos, tc.options, budgetOf(300))
			got := wanting(ann, listVideos+tc.arguments, "")
			data := got.Result["structuredContent"]
			if s.Calls("ListVideos") != tc.calls || strings.Contains(got.raw, fit.ReducedKey) != tc.isCut || len(data) > 300 {
				t.Fatalf("%d calls: %s", s.Calls("ListVideos"), got.raw)
			}
			if tc.calls == 1 {
				return
			}
			var page struct {
				Videos        []json.RawMessage
				NextPageToken string
			}
			if err := json.Unmarshal(data, &page); err != nil || page.NextPageToken != fmt.Sprint(len(page.Videos)) || !strings.Contains(got.raw, "made smaller") {
				t.Errorf("%v: %s", err, got.raw)
			}
		})
	}
}

// What a native tool's schema requires stays; what cannot be cut stays whole, and says so.
func TestNativeResultsFit(t *testing.T) {
	t.Parallel()
	const declared = `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"note":{"type":"string"}},"required":["id"],"additionalProperties":false}},
		"total":{"type":"integer"}},"required":["rows","total"],"additionalProperties":false}`
	var rows []string
	for i := range 50 {
		rows = append(rows, fmt.Sprintf(`{"id":"%d","note":"row %d"}`, i, i))
	}
	data := `{"rows":[` + strings.Join(rows, ",") + `],"total":9007199254740993}`
	fixed := strings.Replace(declared, `"type":"array",`, `"type":"array","minItems":50,`, 1)
	tool := func(name, output string, content ...*outriggerv1.ContentBlock) mcptest.NativeTool {
		return mcptest.NativeTool{Declared: mcptest.JSONTool(name, "Lists.", mcptest.NoArguments, output), Outcome: mcptest.Success(data, content...)}
	}
	rig := mcptest.Start(t, mcptest.Options{NoDemo: true, Configure: budgetOf(500), Native: &mcptest.Native{Tools: []mcptest.NativeTool{
		tool("rows", declared), tool("fixed", fixed), tool("open", ""), tool("spoken", declared, mcptest.TextBlock("Here they are."), mcptest.TextBlock(data)),
	}}})
	ann := modernClient{t: t, bridge: rig.Bridge, caller: "ann"}
	for _, name := range []string{"rows", "open", "spoken"} {
		got := wanting(ann, `"name":"`+name+`"`, "")
		cut, about := string(got.Result["structuredContent"]), reducedOf(t, got)
		if len(cut) > 500 || !strings.Contains(cut, `"total":9007199254740993`) || !strings.Contains(cut, rows[0]) || about.Cut[0].Path != "/rows" || *about.Cut[0].Of != 50 {
			t.Errorf("%s: got %s", name, got.raw)
		}
		blocks := contentOf(t, got)
		if name == "spoken" && (blocks[0].Text != "Here they are." || blocks[1].Text != cut) || name != "spoken" && blocks[0].Text != cut {
			t.Errorf("%s: the content is another: %s", name, got.raw)
		}
		if whole := read(t, ann, about.URI); *whole.Text != data {
			t.Errorf("%s: the whole is %s", name, *whole.Text)
		}
	}
	for fields, want := range map[string]string{"total": rows[0], "rows.note": rows[0], "rows.id": `{"id":"0"},{"id":"1"}`} {
		got := wanting(ann, `"name":"rows"`, `"dev.outrigger/fields":"`+fields+`"`)
		if data := string(got.Result["structuredContent"]); !strings.Contains(data, want) || !strings.Contains(data, `"total":9007199254740993`) {
			t.Errorf("%s: what the schema requires has to stay: %s", fields, got.raw)
		}
	}
	if got := wanting(ann, `"name":"rows"`, `"dev.outrigger/fields":"rows.nte"`); !strings.Contains(got.raw, "INVALID_PARAMS") {
		t.Errorf("got %s", got.raw)
	}
	got := wanting(ann, `"name":"fixed"`, "")
	if string(got.Result["structuredContent"]) != data || !strings.Contains(got.raw, "Nothing was left out") {
		t.Errorf("got %s", got.raw)
	}
}

// The result of a task is as the call wanted it.
func TestATaskHasTheResultThatTheCallWanted(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	answer, err := proto.Marshal(&demov1.EchoResponse{Nonce: strings.Repeat("n", 1000), Signed: 5})
	if err != nil {
		t.Fatal(err)
	}
	slow := func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
		time.Sleep(time.Minute)
		return &bridge.Answer{Body: answer}, nil
	}
	for meta, want := range map[string]string{
		`"dev.outrigger/fields":"signed"`:     `"structuredContent":{"signed":"5"}`,
		`"dev.outrigger/result-budget":300`:   `"path":"/nonce"`,
		`"dev.outrigger/result-budget":30000`: `"nonce":"nnn`,
	} {
		synctest.Test(t, func(t *testing.T) {
			tasks := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
			defer func() {
				over, cancel := context.WithCancel(context.Background())
				cancel()
				tasks.Drain(over)
			}()
			b := dialect.New(bridge.New(live, mcptest.Upstream(slow), correlate.New(correlate.Options{}), bridge.Options{Tasks: tasks, TaskAfter: time.Second, Timeout: time.Hour}), dialect.Options{})
			ann := modernClient{t: t, bridge: b, caller: "ann", capabilities: withTasks}
			got := wanting(ann, `"name":"lab_echo","arguments":{}`, meta)
			if got.text("resultType") != "task" {
				t.Fatalf("no task: %s", got.raw)
			}
			time.Sleep(2 * time.Minute)
			end := ann.send("tasks/get", `"taskId":`+string(got.Result["taskId"]))
			if !strings.Contains(end.raw, want) {
				t.Errorf("%s: got %s, want %s", meta, end.raw, want)
			}
		})
	}
}

// A stream's result is cut like a list, and says so where callers look for it.
func TestTheResultOfAStreamIsCut(t *testing.T) {
	t.Parallel()
	client := watching(t, &streaming{items: updates(t, 50)}, bridge.Options{ResultBudget: 500})
	got := wanting(client, watch, "")
	data := string(got.Result["structuredContent"])
	if about := reducedOf(t, got); about.Cut[0].Path != "/items" || *about.Cut[0].Of != 50 || len(data) > 500 || !strings.HasSuffix(data, `"truncated":true}`) {
		t.Errorf("got %s", got.raw)
	}
	if text := contentOf(t, got)[1].Text; !strings.Contains(text, `"items.vehicleId"`) {
		t.Errorf("the text names another field: %s", text)
	}
	if got := wanting(client, watch, `"dev.outrigger/fields":"items.vehicle_id"`); !strings.Contains(got.raw, `{"vehicleId":"9007199254740993"},{"vehicleId"`) {
		t.Errorf("got %s", got.raw)
	}
}

// A text without data is cut at the end of a line.
func TestTheTextOfANativeToolIsCut(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("a line of the log\n", 100)
	tool := func(name string, content ...*outriggerv1.ContentBlock) mcptest.NativeTool {
		return mcptest.NativeTool{Declared: mcptest.JSONTool(name, "Reads.", mcptest.NoArguments, ""), Outcome: mcptest.Success("", content...)}
	}
	rig := mcptest.Start(t, mcptest.Options{NoDemo: true, Configure: budgetOf(500), Native: &mcptest.Native{Tools: []mcptest.NativeTool{
		tool("log", mcptest.TextBlock("Here it is."), mcptest.TextBlock(lines), mcptest.TextBlock("That is all.")),
		tool("line", mcptest.TextBlock(strings.Repeat("x", 600))), tool("brief", mcptest.TextBlock("brief")),
	}}})
	ann := modernClient{t: t, bridge: rig.Bridge, caller: "ann"}
	got := wanting(ann, `"name":"log"`, "")
	blocks := contentOf(t, got)
	if len(blocks) != 5 || blocks[1].Text != strings.Repeat("a line of the log\n", 26) || !strings.Contains(blocks[2].Text, "all but the first 26 of 100 lines in /content/1/text") || blocks[3].Type != "resource_link" {
		t.Fatalf("got %s", got.raw)
	}
	if whole := read(t, ann, blocks[3].URI); *whole.Text != lines || !strings.HasPrefix(whole.MimeType, "text/plain") {
		t.Errorf("got %+v", whole)
	}
	if err := mcpschema.Load(t, mcpschema.Revision20260728).Check("CallToolResult", resultOf(got)); err != nil {
		t.Error(err)
	}
	if blocks := contentOf(t, wanting(ann, `"name":"line"`, "")); len(blocks) != 3 || blocks[0].Text != "" || blocks[2].Size != 600 {
		t.Errorf("got %+v", blocks)
	}
	if got := wanting(ann, `"name":"brief"`, ""); strings.Contains(got.raw, fit.ReducedKey) {
		t.Errorf("got %s", got.raw)
	}
}
