// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/client"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// edge is one way to a sidecar.
type edge struct {
	name     string
	url      func(base string) string
	revision string
	// hasTasks, hasProgress and isLive: it has tasks, tells progress, and sends items ahead of the outcome. asks: tools can ask their
	// user on it.
	hasTasks, hasProgress, isLive, asks bool
}

func at(scheme, path string) func(string) string {
	return func(base string) string { return scheme + strings.TrimPrefix(base, "http") + path }
}

func edges() []edge {
	all := []edge{
		{name: "connect", url: at("http", ""), hasTasks: true, hasProgress: true, isLive: true, asks: true},
		{name: "grpc", url: at("grpc", ""), hasTasks: true, hasProgress: true, isLive: true, asks: true},
		{name: "grpc-web", url: at("grpcweb+http", ""), hasTasks: true, hasProgress: true, isLive: true, asks: true},
		{name: "rpc", url: at("http", "/rpc")},
		{name: "mcp", url: at("http", "/mcp"), hasTasks: true, hasProgress: true, asks: true},
	}
	for _, revision := range client.Revisions() {
		all = append(all, edge{
			name: "mcp " + revision, url: at("http", "/mcp"), revision: revision,
			hasTasks: revision == client.Revisions()[0], hasProgress: true, asks: revision > "2025-03-26",
		})
	}
	return all
}

func open(t *testing.T, e edge, base string, ask ...client.Asker) client.Client {
	t.Helper()
	o := client.Options{URL: e.url(base), Revision: e.revision, Version: "1.0.0"}
	for _, one := range ask {
		o.Ask = one
	}
	c, err := client.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// TestEachEdgeTellsTheSame: on every edge, in every revision and in both modes of the catalog, the same call has the same result, the
// same error and the same exit, and the same words find the same tool.
func TestEachEdgeTellsTheSame(t *testing.T) {
	t.Parallel()
	plain := mcptest.Start(t, mcptest.Options{})
	compact := plain.Again(t, func(c *configv1.Config) { c.Catalog.Mode = proto.String("compact") })
	for mode, base := range map[string]string{"plain": plain.Serve(t), "compact": compact.Serve(t)} {
		for _, e := range edges() {
			t.Run(mode+"/"+e.name, func(t *testing.T) {
				t.Parallel()
				c := open(t, e, base)
				checkCalls(t, c)
				checkErrors(t, c)
				checkSearch(t, c)
				checkTasks(t, c, e.hasTasks)
			})
		}
	}
}

func checkCalls(t *testing.T, c client.Client) {
	t.Helper()
	const large = "9007199254740993" // 2^53 + 1, which a float would change
	out, err := c.Call(t.Context(), &client.Call{Tool: "lab.echo", Arguments: json.RawMessage(`{"signed":` + large + `,"nonce":"n"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"nonce":"n","signed":"` + large + `","unsigned":"0","payload":""}`; string(out.Data) != want {
		t.Errorf("result %s, want %s", out.Data, want)
	}
	out, err = c.Call(t.Context(), &client.Call{Tool: "fleet_get_vehicle", Arguments: json.RawMessage(`{"vehicleId":"101"}`), Fields: "id,callSign"})
	if err != nil || string(out.Data) != `{"id":"101","callSign":"Kingfisher"}` {
		t.Errorf("with fields: %v, %v", out, err)
	}
}

func checkErrors(t *testing.T, c client.Client) {
	t.Helper()
	for _, row := range []struct {
		tool, arguments string
		code            errmap.Code
		text            string
	}{
		{"fleet.get_vehicle", `{"vehicleId":"x"}`, errmap.InvalidToolInput, "Invalid tool input (fleet.get_vehicle)\n- /vehicleId: wanted an integer of type int64, found the string \"x\"\n"},
		{"fleet.nothing", `{}`, errmap.ToolNotFound, "Unknown tool: fleet.nothing\n"},
		{"lab.fail", `{"code":5,"message":"gone"}`, errmap.ToolExecutionFailed, "lab.fail: gone"},
		{"fleet.cancel_order", `{"orderId":"1"}`, errmap.DestructiveBlocked, "fleet.cancel_order: Destructive tool blocked: "},
	} {
		_, err := c.Call(t.Context(), &client.Call{Tool: row.tool, Arguments: json.RawMessage(row.arguments)})
		var told *client.Error
		if !errors.As(err, &told) || told.Code != row.code || !strings.HasPrefix(told.Text, row.text) || !strings.Contains(string(told.Data), string(row.code)) {
			t.Errorf("%s: %v, want %s: %q", row.tool, err, row.code, row.text)
		}
	}
}

func checkSearch(t *testing.T, c client.Client) {
	t.Helper()
	found, err := client.Search(t.Context(), c, "cancel an order", 3)
	if err != nil || len(found) != 3 {
		t.Fatalf("found %v, %v", found, err)
	}
	best := found[0]
	var sample struct{ OrderID string }
	if name := strings.ReplaceAll(best.Name, "_", "."); !strings.HasPrefix(name, "fleet.cancel") || json.Unmarshal(best.Sample(), &sample) != nil || sample.OrderID == "" {
		t.Errorf("the best is %s with %s", best.Name, best.Sample())
	}
	if !strings.Contains(best.Hints, "destructive") {
		t.Errorf("hints of %s: %s", best.Name, best.Hints)
	}
	described, err := c.Tool(t.Context(), "fleet.get_order")
	if err != nil || !json.Valid(described.JSON()) || !strings.Contains(string(described.Input), "orderId") {
		t.Errorf("description: %v, %v", described, err)
	}
	var told *client.Error
	if _, err = c.Tool(t.Context(), "fleet.nothing"); !errors.As(err, &told) {
		t.Errorf("description of a tool that does not exist: %v", err)
	}
}

func checkTasks(t *testing.T, c client.Client, hasTasks bool) {
	t.Helper()
	out, err := c.Call(t.Context(), &client.Call{Tool: "lab.sleep", Arguments: json.RawMessage(`{"duration":"300s"}`), AsTask: true})
	var told *client.Error
	if !hasTasks {
		_, get := c.Task(t.Context(), "x")
		for _, err := range []error{err, get, c.CancelTask(t.Context(), "x")} {
			if !errors.As(err, &told) || told.Code != errmap.MethodNotFound || !strings.Contains(told.Text, "has no tasks") {
				t.Errorf("without tasks: %v", err)
			}
		}
		return
	}
	if err != nil || out.Task == nil || out.Task.ID == "" {
		t.Fatalf("no task: %v, %v", out, err)
	}
	if now, err := c.Task(t.Context(), out.Task.ID); err != nil || now.Status != "working" {
		t.Errorf("%v, %v", now, err)
	}
	if err := c.CancelTask(t.Context(), out.Task.ID); err != nil {
		t.Error(err)
	}
	ended, err := client.Wait(t.Context(), c, out.Task.ID, client.Watcher{})
	if err != nil || ended.Status != "cancelled" || ended.Err.Code != errmap.Cancelled {
		t.Errorf("after its cancellation: %v, %v", ended, err)
	}
	if _, err := c.Task(t.Context(), "unknown"); !errors.As(err, &told) || told.Code != errmap.InvalidParams {
		t.Errorf("an unknown task: %v", err)
	}
}

// TestStreams: items come one by one where the edge has them before the outcome, and are all in the outcome of the others.
func TestStreams(t *testing.T) {
	t.Parallel()
	base := mcptest.Start(t, mcptest.Options{}).Serve(t)
	for _, e := range edges() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			var live []json.RawMessage
			out, err := open(t, e, base).Call(t.Context(), &client.Call{
				Tool: "fleet.watch_vehicles", Arguments: json.RawMessage(`{"rounds":2,"interval":"0.01s","vehicleIds":["102"]}`),
				Item: func(item json.RawMessage) { live = append(live, item) },
			})
			if err != nil {
				t.Fatal(err)
			}
			items, isCut, ok := client.Items(out.Data)
			if !ok || isCut || len(items) != 2 {
				t.Errorf("items %s, cut %v", items, isCut)
			}
			if want := map[bool]int{true: 2, false: 0}[e.isLive]; len(live) != want {
				t.Errorf("%d items came before the outcome, want %d", len(live), want)
			}
		})
	}
}

// reports is a backend with a tool that tells progress, one that fails and one that wants arguments in headers.
func reports() *mcptest.Native {
	schema := &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object"}`)}
	mirrored := &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"count":{"type":"integer"}},"required":["region"]}`)}
	total := 2.0
	done := &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status: "success", Content: []*outriggerv1.ContentBlock{{Block: &outriggerv1.ContentBlock_Text{Text: &outriggerv1.TextContent{Text: "all done"}}}},
	}}}
	failed := &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status: "failure", Error: &outriggerv1.ErrorDetail{ErrorType: "ToolExecutionError", ErrorMessage: "the disk is full"},
	}}}
	return &mcptest.Native{Tools: []mcptest.NativeTool{
		{
			Declared: &outriggerv1.Tool{Name: "report", Description: "Writes a report.", InputSchemaForm: schema},
			Events: []*outriggerv1.ToolEvent{
				{Event: &outriggerv1.ToolEvent_Progress{Progress: &outriggerv1.Progress{Progress: 1, Total: &total, Message: "half"}}},
				{Event: &outriggerv1.ToolEvent_Progress{Progress: &outriggerv1.Progress{Progress: 2, Total: &total, Message: "whole"}}},
			},
			Outcome: done,
		},
		{Declared: &outriggerv1.Tool{Name: "spill", Description: "Fails.", InputSchemaForm: schema}, Outcome: failed},
		{
			Declared: &outriggerv1.Tool{Name: "route", Description: "Routes by region.", InputSchemaForm: mirrored},
			Run: func(_ context.Context, call *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
				return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
					Status: "success", DataForm: &outriggerv1.ToolResult_Data{Data: structpb.NewStringValue(string(call.GetArgumentsJson()))},
				}}}, nil
			},
		},
	}}
}

// TestNativeTools: progress comes as the tool reports it, content without data is there, a tool's own failure is one, and arguments
// that a tool wants in headers are repeated there.
func TestNativeTools(t *testing.T) {
	t.Parallel()
	base := mcptest.Start(t, mcptest.Options{Native: reports(), NoDemo: true}).Serve(t)
	for _, e := range edges() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			c := open(t, e, base)
			var told []client.Progress
			out, err := c.Call(t.Context(), &client.Call{Tool: "report", Progress: func(p client.Progress) { told = append(told, p) }})
			if err != nil || !slices.Equal(out.Texts, []string{"all done"}) || out.Data != nil {
				t.Fatalf("%v, %v", out, err)
			}
			var want []client.Progress
			if e.hasProgress {
				want = []client.Progress{{Done: "1", Total: "2", Message: "half"}, {Done: "2", Total: "2", Message: "whole"}}
			}
			if !slices.Equal(told, want) {
				t.Errorf("progress %v, want %v", told, want)
			}
			var failed *client.Error
			if _, err := c.Call(t.Context(), &client.Call{Tool: "spill"}); !errors.As(err, &failed) || failed.Code != errmap.ToolExecutionFailed || failed.Text != "the disk is full" {
				t.Errorf("a failure: %#v", err)
			}
			for _, region := range []string{"eu", "süd west", " x"} {
				arguments, err := json.Marshal(map[string]string{"region": region})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Call(t.Context(), &client.Call{Tool: "route", Arguments: arguments}); err != nil {
					t.Errorf("%q: %v", region, err)
				}
			}
		})
	}
}

// form is what the tool of TestQuestions asks for.
const form = `{"type":"object","properties":{"amount":{"type":"integer","minimum":1}},"required":["amount"]}`

// asking is a backend with a tool that asks twice, and echoes the second answer.
func asking() *mcptest.Native {
	return &mcptest.Native{Tools: []mcptest.NativeTool{{
		Declared: &outriggerv1.Tool{
			Name: "order", Description: "Orders.",
			InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object"}`)},
		},
		Dialogue: mcptest.Dialogue{{"q": mcptest.AskForm("How many?", form)}, {"q": mcptest.AskForm("Sure?", form)}},
		Run: func(_ context.Context, call *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
				Status: "success", DataForm: &outriggerv1.ToolResult_DataJson{DataJson: call.GetInputResponses()["q"].GetElicitation().GetContentJson()},
			}}}, nil
		},
	}}}
}

// TestQuestions: on every edge that has questions, in every revision, a tool that asks gets each answer, an answer that is refused ends
// the call with its error, and a destructive tool asks for consent. Where there are none, or no one answers, the code says so.
func TestQuestions(t *testing.T) {
	t.Parallel()
	base := mcptest.Start(t, mcptest.Options{Native: asking(), NoDemo: true}).Serve(t)
	demo := mcptest.Start(t, mcptest.Options{}).Again(t, func(c *configv1.Config) { c.Destructive = proto.String("confirm") }).Serve(t)
	cancel := &client.Call{Tool: "fleet.cancel_order", Arguments: json.RawMessage(`{"orderId":"1"}`)} // the service has no such order
	for _, e := range edges() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			answer := func(_ context.Context, q *client.Question) (*client.Answer, error) {
				if asked = append(asked, q.Message); q.Message == "How many?" && string(q.Form) != form {
					t.Errorf("the form is %s", q.Form)
				}
				return &client.Answer{Action: client.ActionAccept, Content: json.RawMessage(`{"amount":9007199254740993}`)}, nil
			}
			out, err := open(t, e, base, answer).Call(t.Context(), &client.Call{Tool: "order"})
			var told *client.Error
			if !e.asks {
				if !errors.As(err, &told) || told.Code != errmap.MissingClientCapability || asked != nil {
					t.Errorf("without questions: %v, %v, asked %q", out, err, asked)
				}
				return
			}
			if err != nil || string(out.Data) != `{"amount":9007199254740993}` || !slices.Equal(asked, []string{"How many?", "Sure?"}) {
				t.Fatalf("%+v, %v, asked %q", out, err, asked)
			}
			refuse := func(context.Context, *client.Question) (*client.Answer, error) {
				return nil, client.Canonical(errmap.New(errmap.InvalidToolInput))
			}
			if _, err = open(t, e, base, refuse).Call(t.Context(), &client.Call{Tool: "order"}); !errors.As(err, &told) || told.Code != errmap.InvalidToolInput {
				t.Errorf("refused: %v", err)
			}
			if _, err = open(t, e, base).Call(t.Context(), &client.Call{Tool: "order"}); !errors.As(err, &told) || told.Code != errmap.MissingClientCapability {
				t.Errorf("no one answers: %v", err)
			}
			for action, want := range map[string]errmap.Code{client.ActionAccept: errmap.ToolExecutionFailed, client.ActionDecline: errmap.DestructiveBlocked, client.ActionCancel: errmap.DestructiveBlocked} {
				consent := func(context.Context, *client.Question) (*client.Answer, error) {
					return &client.Answer{Action: action}, nil
				}
				if _, err = open(t, e, demo, consent).Call(t.Context(), cancel); !errors.As(err, &told) || told.Code != want {
					t.Errorf("%s: %v", action, err)
				}
			}
		})
	}
}

// TestOpen: each form of URL, and the error of each wrong one.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		options client.Options
		fault   string // empty for none
	}{
		{client.Options{URL: "http://127.0.0.1:8080"}, ""},
		{client.Options{URL: "https://tools.example/team/mcp", Token: secret}, ""},
		{client.Options{URL: "unix:///run/outrigger.sock"}, ""},
		{client.Options{URL: "unix:///run/outrigger.sock:/rpc", Token: secret}, ""},
		{client.Options{URL: "http://tools.example", Token: secret, AllowPlaintext: true}, ""},
		{client.Options{URL: "http://tools.example", Token: secret}, "without TLS"},
		{client.Options{URL: "127.0.0.1:8080"}, "no scheme"},
		{client.Options{URL: "dns:///shop.example:8080"}, "at one address"},
		{client.Options{URL: "ftp://127.0.0.1"}, "unix:///PATH:/mcp"},
		{client.Options{URL: "http://a:b@127.0.0.1"}, "user name or password"},
		{client.Options{URL: "grpc://127.0.0.1:8080/mcp"}, "/mcp is not an edge of gRPC"},
		{client.Options{URL: "http://127.0.0.1:8080", Revision: "2025-11-25"}, "add /mcp"},
		{client.Options{URL: "http://127.0.0.1:8080/mcp", Revision: "2024-11-05"}, "2026-07-28, 2025-11-25"},
		{client.Options{URL: "https://127.0.0.1:8080/mcp", CAFile: filepath.Join(os.DevNull, "none")}, "none"},
	} {
		c, err := client.Open(row.options)
		switch {
		case row.fault == "" && err != nil:
			t.Errorf("%+v: %v", row.options, err)
		case row.fault != "" && (err == nil || !strings.Contains(err.Error(), row.fault)):
			t.Errorf("%+v: %v, want %q", row.options, err, row.fault)
		}
		if err == nil {
			_ = c.Close(t.Context())
		}
	}
}
