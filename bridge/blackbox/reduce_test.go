// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

const (
	// fieldsKey has a field mask of the result, reducedKey how the result was cut.
	fieldsKey, reducedKey = "dev.outrigger/fields", "dev.outrigger/reduced"
	maskLost              = "All fields are shown, because the field mask of the call was too long to be kept with the operation."
	otherFields           = "All fields are shown, because the result does not have the fields any more that the call asked for."
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
	raw, ok := lookup(got.Result["_meta"], reducedKey)
	if !ok {
		t.Fatalf("_meta says nothing: %s", got.raw)
	}
	if err := json.Unmarshal(raw, &about); err != nil {
		t.Fatal(err)
	}
	return about
}

const listVideos = `"name":"studio_list_videos","arguments":`

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
	b := fake(t, mcptest.Echo, budgetOf(300))
	reply := func(meta string) string {
		return string(replyTo(t.Context(), t, b, mcptest.Canonical, "tools/call", `"name":"lab.echo","arguments":{"nonce":"`+strings.Repeat("n", 400)+`","signed":"5"}`+meta))
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
	tool, _ := rig.Live.Current().Lookup("studio.list_videos")
	if err := mcptest.Schema(t, tool.Output.Advertised())([]byte(data)); err != nil {
		t.Errorf("%v: %s", err, data)
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
	if got := wanting(ann, listVideos+`{"pageSize":25}`, `"dev.outrigger/fields":"totalSize"`); string(got.Result["structuredContent"]) != `{"totalSize":25}` || strings.Contains(got.raw, reducedKey) {
		t.Errorf("got %s", got.raw)
	}
	// A caller may lower the budget, and not raise it.
	for own, want := range map[int]int{256: 256, 100000: budget} {
		if got := reducedOf(t, wanting(ann, listVideos+`{"pageSize":25}`, fmt.Sprintf(`"dev.outrigger/result-budget":%d`, own))); got.Budget != want {
			t.Errorf("%d: the budget is %d", own, got.Budget)
		}
	}
	if rig.Reduced() != 3 {
		t.Errorf("%d results were cut", rig.Reduced())
	}
}

// Without a budget nothing is cut, and nothing more is offered.
func TestNoBudgetCutsNothing(t *testing.T) {
	t.Parallel()
	_, _, ann := videosOf(t, 200, nil, nil)
	if got := wanting(ann, listVideos+`{"pageSize":200}`, ""); strings.Contains(got.raw, reducedKey) || !strings.Contains(got.raw, "videos/199") {
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
	if got := wanting(bob, listVideos+`{"pageSize":200}`, ""); strings.Contains(got.raw, reducedKey) {
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
			if s.Calls("ListVideos") != tc.calls || strings.Contains(got.raw, reducedKey) != tc.isCut || len(data) > 300 {
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
	ann := modernClient{t: t, bridge: rig, caller: "ann"}
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
	slow := func(context.Context, *mcptest.Method, []byte, http.Header) (*mcptest.Answer, *errmap.Error) {
		time.Sleep(time.Minute)
		return &mcptest.Answer{Body: answer}, nil
	}
	for meta, want := range map[string]string{
		`"dev.outrigger/fields":"signed"`:     `"structuredContent":{"signed":"5"}`,
		`"dev.outrigger/result-budget":300`:   `"path":"/nonce"`,
		`"dev.outrigger/result-budget":30000`: `"nonce":"nnn`,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(slow), Configure: both(taskAfter(time.Second), within(time.Hour))})
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
	client := watching(t, &streaming{items: updates(t, 50)}, budgetOf(500))
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
	ann := modernClient{t: t, bridge: rig, caller: "ann"}
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
	if got := wanting(ann, `"name":"brief"`, ""); strings.Contains(got.raw, reducedKey) {
		t.Errorf("got %s", got.raw)
	}
}

func imageBlock(data []byte) *outriggerv1.ContentBlock {
	return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Image{Image: &outriggerv1.ImageContent{Data: data, MimeType: "image/png"}}}
}

func audioBlock(data []byte) *outriggerv1.ContentBlock {
	return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Audio{Audio: &outriggerv1.AudioContent{Data: data, MimeType: "audio/wav"}}}
}

func embedded(c *outriggerv1.ResourceContents) *outriggerv1.ContentBlock {
	c.Uri = "file:///report"
	return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Resource{Resource: &outriggerv1.EmbeddedResource{Contents: c}}}
}

// contentPlace is an entry of what _meta says about content.
type contentPlace struct {
	Path       string
	Bytes      int
	Kept, Of   *int
	URI, Until string
}

func contentPlaces(t *testing.T, got modernAnswer) []contentPlace {
	t.Helper()
	raw, _ := lookup(got.Result["_meta"], reducedKey)
	list, _ := lookup(raw, "content")
	var out []contentPlace
	if err := json.Unmarshal(list, &out); err != nil {
		t.Fatalf("%v: %s", err, got.raw)
	}
	return out
}

// What a native tool returns beside its data, or in place of data, fits its budget too: texts are cut at ends of lines, and what else
// is too large is left out. The whole of each can be read.
func TestContentFits(t *testing.T) {
	t.Parallel()
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	small, large := bytes.Repeat([]byte{0x89}, 60), bytes.Repeat([]byte{0x89, 'P'}, 1000)
	lines := strings.Repeat("a line of the log\n", 100)
	data := `{"total":7}`
	tool := func(name, data string, content ...*outriggerv1.ContentBlock) mcptest.NativeTool {
		return mcptest.NativeTool{Declared: mcptest.JSONTool(name, "Reads.", mcptest.NoArguments, ""), Outcome: mcptest.Success(data, content...)}
	}
	rig := mcptest.Start(t, mcptest.Options{NoDemo: true, Configure: budgetOf(500), Native: &mcptest.Native{Tools: []mcptest.NativeTool{
		tool("fits", data, mcptest.TextBlock(data), imageBlock(small), audioBlock(small), embedded(&outriggerv1.ResourceContents{Data: &outriggerv1.ResourceContents_Text{Text: "short"}})),
		tool("beside", data, mcptest.TextBlock(lines), mcptest.TextBlock(data), imageBlock(small)),
		tool("said", `{"rows":[`+strings.TrimSuffix(strings.Repeat(`{"id":"1","note":"a note"},`, 50), ",")+`]}`,
			mcptest.TextBlock(`{"rows":[`+strings.TrimSuffix(strings.Repeat(`{"id":"1","note":"a note"},`, 50), ",")+"]}\nWARNING: rows 3 and 4 are stale")),
		tool("images", data, imageBlock(large), imageBlock(small), audioBlock(large)),
		tool("resources", "", embedded(&outriggerv1.ResourceContents{Data: &outriggerv1.ResourceContents_Text{Text: lines}, MimeType: "text/markdown"}), embedded(&outriggerv1.ResourceContents{Data: &outriggerv1.ResourceContents_Blob{Blob: large}})),
		tool("logs", "", mcptest.TextBlock(lines), mcptest.TextBlock(lines)),
		tool("both", `{"rows":[`+strings.TrimSuffix(strings.Repeat(`{"id":"1","note":"a note"},`, 50), ",")+`]}`, imageBlock(large)),
	}}})
	ann := modernClient{t: t, bridge: rig, caller: "ann"}
	call := func(name, meta string) ([]contentBlock, modernAnswer) {
		t.Helper()
		got := wanting(ann, `"name":"`+name+`"`, meta)
		if err := schema.Check("CallToolResult", resultOf(got)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return contentOf(t, got), got
	}
	types := func(blocks []contentBlock) string {
		var out []string
		for _, b := range blocks {
			out = append(out, b.Type)
		}
		return strings.Join(out, ",")
	}

	if blocks, got := call("fits", ""); types(blocks) != "text,image,audio,resource" || strings.Contains(got.raw, reducedKey) {
		t.Errorf("fits: got %s", got.raw)
	}

	// A text that goes on behind the same JSON is not that JSON.
	for _, meta := range []string{"", `"dev.outrigger/fields":"rows.id","dev.outrigger/result-budget":100000`} {
		if _, got := call("said", meta); !strings.Contains(got.raw, "WARNING") && !strings.Contains(got.raw, "lines in /content/0/text") {
			t.Errorf("said: got %s", got.raw)
		}
	}

	blocks, got := call("beside", "")
	if types(blocks) != "text,text,resource_link,text,image" || blocks[0].Text != strings.Repeat("a line of the log\n", 23) || blocks[3].Text != data ||
		!strings.Contains(blocks[1].Text, "all but the first 23 of 100 lines in /content/0/text") || string(got.Result["structuredContent"]) != data {
		t.Errorf("beside: got %s", got.raw)
	}
	if at := contentPlaces(t, got); len(at) != 1 || at[0].Path != "/content/0" || *at[0].Kept != 23 || *at[0].Of != 100 || at[0].Bytes != len(lines) || at[0].URI != blocks[2].URI || at[0].Until == "" {
		t.Errorf("beside: got %+v", at)
	}
	if about := reducedOf(t, got); len(about.Cut) != 0 || about.Bytes != len(lines) || about.Budget != 500 {
		t.Errorf("beside: got %+v", about)
	}
	if whole := read(t, ann, blocks[2].URI); *whole.Text != lines {
		t.Errorf("beside: got %+v", whole)
	}

	blocks, got = call("images", "")
	if types(blocks) != "text,resource_link,image,text,resource_link" || string(got.Result["structuredContent"]) != data {
		t.Fatalf("images: got %s", got.raw)
	}
	for i, want := range map[int]string{0: "An image was left out here: image/png, 2000 bytes", 3: "Audio was left out here: audio/wav, 2000 bytes"} {
		if text := blocks[i].Text; !strings.HasPrefix(text, want) || !strings.Contains(text, "resources/read from "+blocks[i+1].URI) || !strings.Contains(text, "--result-budget") {
			t.Errorf("images: got %s", text)
		}
		if whole := read(t, ann, blocks[i+1].URI); !bytes.Equal(whole.data(), large) || blocks[i+1].Size != len(large) {
			t.Errorf("images: got %+v", whole)
		}
	}
	if at := contentPlaces(t, got); len(at) != 2 || at[0].Path != "/content/0" || at[1].Path != "/content/3" || at[1].Kept != nil {
		t.Errorf("images: got %+v", at)
	}

	blocks, got = call("resources", "")
	if types(blocks) != "text,resource_link,text,resource_link" || !strings.Contains(blocks[0].Text, "An embedded resource was left out here: text/markdown, 1800 bytes") || !strings.Contains(blocks[2].Text, "application/octet-stream") {
		t.Errorf("resources: got %s", got.raw)
	}
	if whole := read(t, ann, blocks[1].URI); *whole.Text != lines {
		t.Errorf("resources: got %+v", whole)
	}

	blocks, got = call("logs", "")
	if at := contentPlaces(t, got); types(blocks) != "text,text,resource_link,text,text,resource_link" || len(at) != 2 || at[1].Path != "/content/3" || !strings.Contains(blocks[4].Text, "/content/3/text") {
		t.Errorf("logs: got %s", got.raw)
	}

	blocks, got = call("both", "")
	if about := reducedOf(t, got); len(about.Cut) != 1 || about.Cut[0].Path != "/rows" || len(contentPlaces(t, got)) != 1 || about.URI != blocks[len(blocks)-1].URI {
		t.Errorf("both: got %s", got.raw)
	}

	// A budget of the call's own may be raised by the call.
	if blocks, got = call("images", `"dev.outrigger/result-budget":300`); !strings.Contains(blocks[0].Text, "budget of 300 bytes") || !strings.Contains(blocks[0].Text, "it may set a larger one") {
		t.Errorf("its own: got %s", got.raw)
	}
	// Programs get all.
	if got := string(replyTo(t.Context(), t, rig, mcptest.Canonical, "tools/call", `"name":"images"`)); strings.Contains(got, "left out") {
		t.Errorf("a program: got %s", got)
	}
}

// Where no one can read the whole, a text says what is missing all the same.
func TestContentThatCannotBeHeld(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{NoDemo: true, Native: &mcptest.Native{Tools: []mcptest.NativeTool{{
		Declared: mcptest.JSONTool("images", "Paints.", mcptest.NoArguments, ""), Outcome: mcptest.Success("", imageBlock(make([]byte, 1000))),
	}}}})
	ann := modernClient{t: t, bridge: rig, caller: "ann"}
	got := wanting(ann, `"name":"images"`, `"dev.outrigger/result-budget":300`)
	if blocks := contentOf(t, got); len(blocks) != 1 || !strings.Contains(blocks[0].Text, "An image was left out here") || strings.Contains(got.raw, "resources/read") {
		t.Errorf("got %s", got.raw)
	}
}

// wantedTask is a native tool whose call becomes a task with a large result, or with one that has ended.
func wantedTask() *mcptest.Native {
	backend := measuring()
	rows := `{"rows":[` + strings.TrimSuffix(strings.Repeat(`{"id":"1","note":"a note"},`, 50), ",") + `],"total":50}`
	for id, states := range backend.Tasks {
		if id != "kept" && id != "at once kept" {
			continue
		}
		last := states[len(states)-1]
		last.Completion = &outriggerv1.Task_Result{Result: mcptest.Success(rows, imageBlock(make([]byte, 1000))).GetResult()}
	}
	for i, tool := range backend.Tools {
		if tool.Declared.GetName() == "measure" {
			declared, _ := proto.Clone(tool.Declared).(*outriggerv1.Tool)
			declared.OutputSchemaForm = nil
			backend.Tools[i].Declared = declared
		}
	}
	return backend
}

// The result of a task that a native backend runs is as the call wanted it: where somebody asks for it, and where it is pushed.
func TestTheResultOfABackendsTaskIsAsItsCallWantedIt(t *testing.T) {
	t.Parallel()
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	for name, tc := range map[string]struct {
		meta   string
		budget int64
		want   []string
		not    string
	}{
		"all of it": {"", 0, []string{`"total":50`, `"note":"a note"`, `"type":"image"`}, reducedKey},
		"a mask":    {`"dev.outrigger/fields":"rows.id"`, 0, []string{`"structuredContent":{"rows":[{"id":"1"},{"id":"1"}`, `"type":"image"`}, "note"},
		"a budget": {
			`"dev.outrigger/result-budget":300`, 500,
			[]string{`"budget":300`, `"path":"/rows"`, `"total":50`, "An image was left out here", `"type":"resource_link"`, "resources/read"}, "A call may name",
		},
		"the model's": {"", 500, []string{`"budget":500`, `"path":"/rows"`}, `"type":"image"`},
		"a long mask": {
			`"dev.outrigger/fields":"` + strings.TrimSuffix(strings.Repeat("rows.id,", 250), ",") + `"`, 0, []string{`"note":"a note"`, maskLost}, reducedKey,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Native: wantedTask(), NoDemo: true, Configure: budgetOf(tc.budget)})
			heard := make(chan string, 4)
			ann := modernClient{t: t, bridge: rig, caller: "ann", capabilities: withTasks, heard: func(message string) { heard <- message }}
			begun := wanting(ann, `"name":"measure","arguments":{"job":"kept"}`, tc.meta)
			id := string(begun.Result["taskId"])
			if id == "" || len(id) > 2050 {
				t.Fatalf("no task: %s", begun.raw)
			}
			ended := make(chan modernAnswer, 1)
			go func() { ended <- ann.send("subscriptions/listen", `"notifications":{"taskIds":[`+id+`]}`) }()
			<-heard
			if err := rig.Native.Announce(t.Context(), &outriggerv1.Notification{
				Method: "notifications/tasks", ParamsForm: &outriggerv1.Notification_Task{Task: rig.Native.Advance("kept")},
			}); err != nil {
				t.Fatal(err)
			}
			told := <-heard
			rig.EndStreams()
			<-ended
			asked := ann.send("tasks/get", `"taskId":`+id)
			if err := schema.Check("GetTaskResult", resultOf(asked)); err != nil {
				t.Error(err)
			}
			for how, raw := range map[string]string{"asked": asked.raw, "told": told} {
				for _, want := range tc.want {
					if !strings.Contains(raw, want) {
						t.Errorf("%s: it lacks %s: %s", how, want, raw)
					}
				}
				if strings.Contains(raw, tc.not) {
					t.Errorf("%s: it has %s: %s", how, tc.not, raw)
				}
			}
		})
	}
}

// So is that of a task that has ended when the call returns.
func TestTheResultOfATaskThatEndsAtOnceFits(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Native: wantedTask(), NoDemo: true})
	call := toolCall(rig, "desk.measure", `{"job":"at once kept"}`)
	call.Tasks = true
	call.Budget, call.Fields = 300, "rows"
	resp := rig.Handle(t.Context(), call)
	result := resp.Outcome.GetTask().GetResult()
	if data := string(result.GetDataJson()); len(data) > 300 || !strings.HasPrefix(data, `{"rows":[{"id":"1",`) || strings.Contains(data, "total") || !strings.Contains(string(result.GetMetaJson()), reducedKey) {
		t.Errorf("got %v, %v", resp.Err, result)
	}
}

// shapes has an RPC for each shape of result.
const shapes = `name: "shapes.proto" package: "shapes.v1" syntax: "proto3" dependency: "google/protobuf/struct.proto"
message_type { name: "In" }
message_type { name: "Thing"
  field { name: "note" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "note" }
  field { name: "thing_id" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL json_name: "thingId" }
  field { name: "display_name" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "displayName" } }
message_type { name: "Things"
  field { name: "total" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "total" }
  field { name: "things" number: 2 type: TYPE_MESSAGE type_name: ".shapes.v1.Thing" label: LABEL_REPEATED json_name: "things" } }
message_type { name: "Stock"
  field { name: "by_shelf" number: 1 type: TYPE_MESSAGE type_name: ".shapes.v1.Stock.ByShelfEntry" label: LABEL_REPEATED json_name: "byShelf" }
  nested_type { name: "ByShelfEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "key" }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".shapes.v1.Things" label: LABEL_OPTIONAL json_name: "value" } } }
message_type { name: "Event"
  field { name: "note" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "note" }
  field { name: "thing" number: 2 type: TYPE_MESSAGE type_name: ".shapes.v1.Thing" label: LABEL_OPTIONAL json_name: "thing" oneof_index: 0 }
  field { name: "name" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "name" oneof_index: 0 }
  oneof_decl { name: "what" } }
message_type { name: "Events"
  field { name: "events" number: 1 type: TYPE_MESSAGE type_name: ".shapes.v1.Event" label: LABEL_REPEATED json_name: "events" } }
message_type { name: "Node"
  field { name: "children" number: 1 type: TYPE_MESSAGE type_name: ".shapes.v1.Node" label: LABEL_REPEATED json_name: "children" }
  field { name: "size" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "size" }
  field { name: "title" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "title" } }
message_type { name: "Ids"
  field { name: "ids" number: 1 type: TYPE_STRING label: LABEL_REPEATED json_name: "ids" }
  field { name: "total_size" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "totalSize" } }
message_type { name: "Text"
  field { name: "text" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "text" } }
service { name: "Shapes"
  method { name: "Things" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Things" }
  method { name: "Stock" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Stock" }
  method { name: "Events" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Events" }
  method { name: "Tree" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Node" }
  method { name: "Ids" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Ids" }
  method { name: "Text" input_type: ".shapes.v1.In" output_type: ".shapes.v1.Text" }
  method { name: "Values" input_type: ".shapes.v1.In" output_type: ".google.protobuf.ListValue" }
  method { name: "Free" input_type: ".shapes.v1.In" output_type: ".google.protobuf.Struct" } }`

// shaped is a bridge whose tools answer with the given JSON, each method with its own.
func shaped(t *testing.T, answers map[string]string, configure func(*configv1.Config)) *mcptest.Rig {
	t.Helper()
	file := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(shapes), file); err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(structpb.File_google_protobuf_struct_proto), file}}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	found, err := files.FindDescriptorByName("shapes.v1.Shapes")
	if err != nil {
		t.Fatal(err)
	}
	service, _ := found.(protoreflect.ServiceDescriptor)
	upstream := func(_ context.Context, m *mcptest.Method, _ []byte, _ http.Header) (*mcptest.Answer, *errmap.Error) {
		name := m.Procedure[strings.LastIndexByte(m.Procedure, '/')+1:]
		out := dynamicpb.NewMessage(service.Methods().ByName(protoreflect.Name(name)).Output())
		if err := protojson.Unmarshal([]byte(answers[name]), out); err != nil {
			return nil, errmap.Wrap(errmap.InternalError, err)
		}
		wire, err := proto.Marshal(out)
		if err != nil {
			return nil, errmap.Wrap(errmap.InternalError, err)
		}
		return &mcptest.Answer{Body: wire}, nil
	}
	return mcptest.Pipe(t, mcptest.Parts{From: mcptest.Files(set, "shapes.v1.Shapes"), Backend: mcptest.Upstream(upstream), Configure: configure})
}

// many are so many elements of a list in JSON.
func many(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// exampleMember is the member of _meta that a text about a cut shows.
var exampleMember = regexp.MustCompile(`in _meta, such as ("dev\.outrigger/fields": ".*")\.`)

// The field that the text about a cut names is one of the result's own: a call that names it has a smaller result.
func TestTheTextOfACutNamesAFieldOfItsResult(t *testing.T) {
	t.Parallel()
	const budget = 300
	thing := `{"note":"` + strings.Repeat("n", 40) + `","thingId":"7","displayName":"seven"}`
	things := many(20, thing)
	node := `{"size":3,"title":"leaf"}`
	for range 3 {
		node = `{"size":4,"title":"branch","children":` + many(4, node) + `}`
	}
	for method, tc := range map[string]struct{ answer, want string }{
		"Things": {`{"total":20,"things":` + things + `}`, "things.displayName"},
		"Stock":  {`{"byShelf":{"a.1":{"things":` + things + `},"b":{"total":5}}}`, "byShelf.*.things.displayName"},
		"Events": {`{"events":[{"note":"n","thing":` + thing + `},` + strings.Trim(many(20, `{"note":"a longer note","name":"x"}`), "[]") + `]}`, "events.name"},
		"Tree":   {node, "children.title"},
		"Ids":    {`{"ids":` + many(90, `"id"`) + `,"totalSize":90}`, "totalSize"},
		"Text":   {`{"text":"` + strings.Repeat("x", 400) + `"}`, ""},
		"Values": {many(20, `{"note":"a note about it","code":"c"}`), "value.code"},
		"Free":   {`{"rows of.it":` + many(20, `{"note":"a note about it","a \"b\"":1}`) + `}`, "`rows of.it`.`a \"b\"`"},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			ann := modernClient{t: t, bridge: shaped(t, map[string]string{method: tc.answer}, budgetOf(budget)), caller: "ann"}
			call := `"name":"shapes_` + strings.ToLower(method) + `","arguments":{}`
			got := wanting(ann, call, "")
			about := reducedOf(t, got)
			text := contentOf(t, got)[1].Text
			shown := exampleMember.FindStringSubmatch(text)
			if tc.want == "" {
				if shown != nil || !strings.HasSuffix(text, "in _meta, as a field mask in "+fieldsKey+".") {
					t.Errorf("got %s", text)
				}
				return
			}
			if shown == nil {
				t.Fatalf("no example: %s", text)
			}
			var member map[string]string
			if err := json.Unmarshal([]byte("{"+shown[1]+"}"), &member); err != nil || member[fieldsKey] != tc.want {
				t.Errorf("%v: got %s, want %s", err, shown[1], tc.want)
			}
			less := wanting(ann, call, shown[1])
			data := string(less.Result["structuredContent"])
			if less.Error != nil || data == "" || strings.Contains(less.raw, `"isError":true`) {
				t.Fatalf("got %s", less.raw)
			}
			size := len(data)
			if strings.Contains(less.raw, reducedKey) {
				size = reducedOf(t, less).Bytes
			}
			if size >= about.Bytes {
				t.Errorf("%s is no smaller: %d of %d bytes", shown[1], size, about.Bytes)
			}
		})
	}
}
