// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
)

type toolsStream = connect.ServerStreamForClient[outriggerv1.ToolsChange]

func watch(t *testing.T, client outriggerv1connect.ToolServiceClient) *toolsStream {
	t.Helper()
	stream, err := client.WatchTools(t.Context(), connect.NewRequest(&outriggerv1.WatchToolsRequest{}))
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

// seen is one whole step, as a reader puts it together.
type seen struct {
	Snapshot                bool
	Added, Changed, Removed []string
	messages                int
	largest                 int
	catalog                 string
	tools                   []*outriggerv1.Tool
}

func nextStep(t *testing.T, stream *toolsStream) seen {
	t.Helper()
	var out seen
	for {
		m := heard(t, stream)
		if out.messages == 0 {
			out.Snapshot, out.catalog = m.GetSnapshot(), m.GetCatalogFingerprint()
		} else if m.GetSnapshot() || m.GetCatalogFingerprint() != out.catalog {
			t.Errorf("message %d of a step is of another one: snapshot %v", out.messages, m.GetSnapshot())
		}
		out.messages++
		out.largest = max(out.largest, proto.Size(m))
		for _, tool := range m.GetAdded() {
			out.Added = append(out.Added, tool.GetName())
		}
		for _, tool := range m.GetChanged() {
			out.Changed = append(out.Changed, tool.GetName())
		}
		out.tools = slices.Concat(out.tools, m.GetAdded(), m.GetChanged())
		out.Removed = append(out.Removed, m.GetRemoved()...)
		if !m.GetMore() {
			return out
		}
	}
}

func wantStep(t *testing.T, got, want seen) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool {
		name := p.Last().String()
		return name == ".messages" || name == ".largest" || name == ".catalog" || name == ".tools"
	}, cmp.Ignore())); diff != "" {
		t.Errorf("step (-want +got):\n%s", diff)
	}
}

func TestWatchToolsTellsEveryChange(t *testing.T) {
	t.Parallel()
	for name, dial := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, notify.BusOptions{}, connectapi.Options{}, "Put", "Take")
			client := dial(t, s.url)
			stream := watch(t, client)
			first := nextStep(t, stream)
			wantStep(t, first, seen{Snapshot: true, Added: []string{"shelf.put", "shelf.take"}})
			if first.catalog != s.live.Current().Fingerprint() {
				t.Errorf("the catalog's fingerprint is %s", first.catalog)
			}
			listed, err := client.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{}))
			if err != nil {
				t.Fatal(err)
			}
			for i, tool := range listed.Msg.GetTools() {
				if !proto.Equal(tool, first.tools[i]) {
					t.Errorf("%s is not what ListTools shows", tool.GetName())
				}
			}

			s.change(t, 1, "Put", "Sort", "Take") // one more
			wantStep(t, nextStep(t, stream), seen{Added: []string{"shelf.sort"}})
			s.refresh(t)                  // nothing
			s.change(t, 2, "Put", "Take") // one less, and other schemas
			last := nextStep(t, stream)
			wantStep(t, last, seen{Changed: []string{"shelf.put", "shelf.take"}, Removed: []string{"shelf.sort"}})
			for i, tool := range last.tools {
				if tool.GetFingerprint() == first.tools[i].GetFingerprint() || len(tool.GetFingerprint()) != 64 {
					t.Errorf("%s: its schema changed and its fingerprint is %q", tool.GetName(), tool.GetFingerprint())
				}
			}
			if last.catalog != s.live.Current().Fingerprint() {
				t.Errorf("the catalog's fingerprint is %s", last.catalog)
			}
		})
	}
}

// TestARegistrationIsAChange registers at run time: nothing is loaded again.
func TestARegistrationIsAChange(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	client := s.client(t)
	tools := watch(t, client)
	nextStep(t, tools)
	changes := subscribe(t, client, toChanges(&outriggerv1.ChangeFilter{ToolsListChanged: true}))
	heard(t, changes)
	if _, err := s.live.Put(t.Context(), catalog.Registration{
		Name: "shelf.fetch", Description: "Takes something.", InputSchema: []byte(`{"type":"object"}`),
		Binding: catalog.Binding{Service: "shop.v1.Shelf", Method: "Take"},
	}); err != nil {
		t.Fatal(err)
	}
	wantStep(t, nextStep(t, tools), seen{Added: []string{"shelf.fetch"}})
	if n := heard(t, changes); n.GetMethod() != "notifications/tools/list_changed" {
		t.Errorf("got %v", n)
	}
}

func TestLargeStepsAreSplit(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	var methods, names []string
	for i := range 60 {
		methods = append(methods, fmt.Sprintf("M%03d", i))
		names = append(names, fmt.Sprintf("shelf.m%03d", i))
	}
	early := watch(t, s.client(t))
	nextStep(t, early)
	s.change(t, 300, methods...)
	late := watch(t, s.client(t))
	for name, tt := range map[string]struct {
		stream *toolsStream
		want   seen
	}{
		"a change":   {early, seen{Added: names, Removed: []string{"shelf.take"}}},
		"a snapshot": {late, seen{Snapshot: true, Added: names}},
	} {
		got := nextStep(t, tt.stream)
		wantStep(t, got, tt.want)
		if got.messages < 3 || got.largest > 1<<20+1<<12 {
			t.Errorf("%s: %d messages, the largest of %d bytes", name, got.messages, got.largest)
		}
	}
}

// TestASlowWatcherLosesNoStep changes the catalog many times while the watcher
// reads nothing: it sees fewer steps that lead to the same end.
func TestASlowWatcherLosesNoStep(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	stream := watch(t, s.client(t))
	have := map[string]bool{}
	for i := range 50 {
		s.change(t, 1, "Take", fmt.Sprintf("M%d", i))
	}
	s.change(t, 1, "Take", "Last")
	for !have["shelf.last"] {
		step := nextStep(t, stream)
		for _, name := range step.Removed {
			if !have[name] {
				t.Errorf("%s is removed and never was there", name)
			}
			delete(have, name)
		}
		for _, name := range step.Added {
			if have[name] {
				t.Errorf("%s is added twice", name)
			}
			have[name] = true
		}
	}
	if diff := cmp.Diff(map[string]bool{"shelf.take": true, "shelf.last": true}, have); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

func TestManyWatchersSeeTheSame(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	client := s.client(t)
	var streams []*toolsStream
	for range 100 {
		stream := watch(t, client)
		wantStep(t, nextStep(t, stream), seen{Snapshot: true, Added: []string{"shelf.take"}})
		streams = append(streams, stream)
	}
	s.change(t, 1, "Put")
	for _, stream := range streams {
		wantStep(t, nextStep(t, stream), seen{Added: []string{"shelf.put"}, Removed: []string{"shelf.take"}})
	}
}

func TestWatchToolsNeedsACatalog(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{})
	err := drained(watch(t, s.client(t)))
	if code, _ := refusal(t, err); code != errmap.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}

func TestChangesAreAcknowledgedFirst(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	client := s.client(t)
	stream := subscribe(t, client, toChanges(&outriggerv1.ChangeFilter{
		ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
		ResourceUris: []string{"file:///a"}, TaskIds: []string{"1"},
	}))
	ack := heard(t, stream)
	want := &outriggerv1.ChangeFilter{ToolsListChanged: true}
	if ack.GetMethod() != "notifications/subscriptions/acknowledged" || !proto.Equal(ack.GetAcknowledged(), want) {
		t.Errorf("the first notification is %v, want only the tools' list acknowledged", ack)
	}
	s.change(t, 1, "Put")
	if n := heard(t, stream); n.GetMethod() != "notifications/tools/list_changed" || n.GetParamsForm() != nil {
		t.Errorf("got %v", n)
	}
}

// TestEventsAndChangesStayApart publishes what looks like a change.
func TestEventsAndChangesStayApart(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	client := s.client(t)
	changes := subscribe(t, client, toChanges(&outriggerv1.ChangeFilter{ToolsListChanged: true}))
	quiet := subscribe(t, client, toChanges(&outriggerv1.ChangeFilter{PromptsListChanged: true}))
	events := subscribe(t, client, toEvents())
	heard(t, changes)
	if ack := heard(t, quiet); !proto.Equal(ack.GetAcknowledged(), &outriggerv1.ChangeFilter{}) {
		t.Errorf("what is never reported is acknowledged: %v", ack)
	}
	if got := publish(t, client, "notifications/tools/list_changed", `{"forged":true}`); got != 1 {
		t.Errorf("the event went to %d subscribers, want the one of events", got)
	}
	s.change(t, 1, "Put")
	publish(t, client, "last", "")
	if n := heard(t, changes); n.GetParamsForm() != nil {
		t.Errorf("a published event passes for a change: %v", n)
	}
	for _, want := range []string{"notifications/tools/list_changed", "last"} {
		if n := heard(t, events); n.GetMethod() != want {
			t.Errorf("an event is %v, want %s", n, want)
		}
	}
	s.api.Close()
	for name, stream := range map[string]*connect.ServerStreamForClient[outriggerv1.Notification]{"changes": changes, "quiet": quiet} {
		for stream.Receive() {
			t.Errorf("%s: one more notification: %v", name, stream.Msg())
		}
	}
}

func TestChangesNeedACatalog(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{})
	err := drained(subscribe(t, s.client(t), toChanges(&outriggerv1.ChangeFilter{ToolsListChanged: true})))
	if code, _ := refusal(t, err); code != errmap.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}

// TestDescribeTellsTheTruth asks for everything that is not declared.
func TestDescribeTellsTheTruth(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Put", "Take")
	for name, dial := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := dial(t, s.url)
			got, err := client.Describe(t.Context(), connect.NewRequest(&outriggerv1.DescribeRequest{}))
			if err != nil {
				t.Fatal(err)
			}
			want := &outriggerv1.ServerDescription{
				Name: "shop", Title: "The shop", Version: "2.0.0", Instructions: "Ask first.", ContractVersion: "1.0.0",
				Capabilities:     &outriggerv1.ServerCapabilities{Tools: &outriggerv1.ToolsCapability{ListChanged: true}},
				ToolsCount:       2,
				ProtocolVersions: dialect.Versions(),
				Cache:            &outriggerv1.CachePolicy{Ttl: &durationpb.Duration{Seconds: 300}, Scope: outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC},
			}
			if !proto.Equal(want, got.Msg) {
				t.Errorf("got %v, want %v", got.Msg, want)
			}
		})
	}
	client := s.client(t)
	_, resources := client.ListResources(t.Context(), connect.NewRequest(&outriggerv1.ListResourcesRequest{}))
	_, templates := client.ListResourceTemplates(t.Context(), connect.NewRequest(&outriggerv1.ListResourceTemplatesRequest{}))
	_, contents := client.ReadResource(t.Context(), connect.NewRequest(&outriggerv1.ReadResourceRequest{Uri: "shop://1"}))
	_, prompt := client.GetPrompt(t.Context(), connect.NewRequest(&outriggerv1.GetPromptRequest{Name: "x"}))
	_, values := client.Complete(t.Context(), connect.NewRequest(&outriggerv1.CompleteRequest{
		Reference: &outriggerv1.CompleteRequest_Prompt{Prompt: "x"}, Argument: &outriggerv1.CompletionArgument{Name: "y"},
	}))
	_, update := client.UpdateTask(t.Context(), connect.NewRequest(&outriggerv1.UpdateTaskRequest{TaskId: "1"}))
	_, end := client.CancelTask(t.Context(), connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: "1"}))
	_, prompts := client.ListPrompts(t.Context(), connect.NewRequest(&outriggerv1.ListPromptsRequest{}))
	_, task := client.GetTask(t.Context(), connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: "1"}))
	for name, err := range map[string]error{
		"resources": resources, "templates": templates, "contents": contents, "prompts": prompts, "a prompt": prompt,
		"completions": values, "a task": task, "its update": update, "its end": end,
	} {
		if connect.CodeOf(err) != connect.CodeUnimplemented || reason(t, err) != errmap.MethodNotFound {
			t.Errorf("%s are not declared and answer %v", name, err)
		}
	}
}

// frozen is a source of catalogs that announces nothing.
type frozen struct{ bridge.Catalogs }

func TestWithoutAnnouncementsAWatcherSeesOneStep(t *testing.T) {
	t.Parallel()
	b := inFront(bridge.New(frozen{mcptest.Memory(t)}, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{}))
	mux := http.NewServeMux()
	connectapi.New(b.bridge, b.rpc, connectapi.Options{}).Mount(mux)
	client := (&sidecar{url: mcptest.Serve(t, mux)}).client(t)
	if step := nextStep(t, watch(t, client)); !step.Snapshot || len(step.Added) == 0 {
		t.Errorf("the first step is %+v", step)
	}
}

func TestDescribeNeedsACatalog(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{})
	_, err := s.client(t).Describe(t.Context(), connect.NewRequest(&outriggerv1.DescribeRequest{}))
	if code, _ := refusal(t, err); code != errmap.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}
