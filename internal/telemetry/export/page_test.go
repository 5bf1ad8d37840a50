// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/server/webhook"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// scrape reads the metrics over a listener.
func scrape(t *testing.T, m *export.Page, accept string) (page, kind string) {
	t.Helper()
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "" {
		t.Fatalf("%d %v, encoded %q: %s", resp.StatusCode, err, resp.Header.Get("Content-Encoding"), body)
	}
	return string(body), resp.Header.Get("Content-Type")
}

func wantLines(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+page, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "outrigger_") {
				t.Log(line)
			}
		}
	}
}

// listed is a meter of one list with one tool.
func listed() *listcost.Meter {
	m := listcost.NewMeter(listcost.Budget{Tokens: 100}, func(listcost.List) {})
	m.Listed(listcost.List{Version: "v", Tools: 1, Bytes: 40, Dearest: []listcost.Tool{{Name: "shop.get", Bytes: 40}}})
	return m
}

// everything has all sources, and something to show of each.
func everything(t *testing.T) export.Sources {
	t.Helper()
	bus := notify.NewBus(notify.BusOptions{MaxBacklog: 1})
	t.Cleanup(bus.Close)
	slow, err := bus.Subscribe(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slow.Close)
	for range 2 {
		if _, err := bus.Publish(t.Context(), notify.Event{Method: "m"}); err != nil {
			t.Fatal(err)
		}
	}
	gate := policy.NewGate(policy.Untrusted)
	destructive := &catalog.Tool{Name: "shop.drop", Metadata: catalog.Metadata{Destructive: true}}
	gate.Check(destructive, "a")
	gate.Check(destructive, "b")
	gate.Set(policy.Trusted)
	slots := policy.NewSlots(&configv1.Limits{
		MaxConcurrentCalls: new(int32(1)),
		MaxQueuedCalls:     new(int32(1)),
		MaxQueueWait:       durationpb.New(time.Minute),
		ToolClasses:        []*configv1.ToolClass{{Name: "slow", Tools: []string{"t"}}},
		CallerClasses:      []*configv1.CallerClass{{Name: "people", Callers: []string{"c"}}},
	}, policy.SlotOptions{})
	_, _ = slots.Acquire(t.Context(), "c", "t")
	waiting, cancel := context.WithCancel(t.Context())
	var queued sync.WaitGroup
	queued.Go(func() { _, _ = slots.Acquire(waiting, "c", "t") })
	t.Cleanup(func() { cancel(); queued.Wait() })
	for slots.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	_, _ = slots.Acquire(t.Context(), "c", "t")
	limiter := policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 1e-9, Burst: new(int32(1))}})
	for _, tool := range []string{"shop.get", "shop.get", ""} {
		limiter.Check("a", tool)
	}
	set, faults := policy.Compile([]policy.Rule{{Name: "r", Tools: []string{"*"}, Effect: policy.Deny, When: "true"}}, policy.Limits{})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	engine := policy.NewEngine(set)
	engine.Count("r", "deny")
	run, err := trail.OpenRecord(trail.RecordOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	run.Begin(trail.Arrival{RequestID: json.RawMessage(`1`), Transport: "http", Method: "ping"})
	live := catalog.NewLive([]source.Source{source.NewDescriptorFile(t.TempDir()+"/none.binpb", source.Limits{})}, catalog.LiveOptions{})
	if live.Refresh(context.WithoutCancel(t.Context())) == nil {
		t.Fatal("a catalog of nothing")
	}
	traffic := telemetry.NewStats(0, "", "list_tools")
	for _, e := range []telemetry.End{
		{Edge: telemetry.EdgeMCP, Took: 300 * time.Microsecond, Upstream: 255 * time.Microsecond},
		{Edge: telemetry.EdgeGRPC, Code: errmap.Timeout, Took: time.Second},
	} {
		s := traffic.Tool("shop.get")
		s.Begin()
		s.End(e)
	}
	traffic.Tool("shop.get").Begin()
	traffic.Operation(0).Count(telemetry.EdgeRPC, errmap.ParseError)
	traffic.Operation(1).Count(telemetry.EdgeStdio, "")
	traffic.HTTPRefused(telemetry.EdgeAdmin, errmap.OriginForbidden)
	for _, r := range []telemetry.MCPRequest{
		{Tool: traffic.Tool("shop.get"), Method: "tools/call", Version: "2026-07-28", Transport: "tcp", Took: 15 * time.Millisecond},
		{Method: "tools/list", Version: "2025-11-25", Transport: "pipe", ErrorType: "-32603", Status: "-32603", Took: time.Hour},
	} {
		traffic.EndMCP(r)
	}
	traffic.EndSession(telemetry.Session{Version: "2025-11-25", Transport: "tcp", ErrorType: "evicted", Took: time.Minute})
	files := reload.Status{Group: "configuration", Files: 1, Last: reload.Refused, Tried: time.Unix(1_800_000_000, 0), Good: time.Unix(1_700_000_000, 0)}
	files.Counts[reload.Refused] = 1
	files.Counts[reload.Applied] = 2
	return export.Sources{
		Telemetry: func() []export.Stats {
			return []export.Stats{{Signal: export.Traces, Exports: 201, Failures: 202, Partial: 203, Overflowed: 204, Lost: 205, Items: 206, Bytes: 207}}
		},
		Version: "1.2.3",
		Shared: func() export.Shared {
			return export.Shared{
				Available: true, Tasks: task.Stats{TakenOver: 301, Unknown: 302, HandedOver: 303, Lost: 304}, Known: taskstore.Stats{Tasks: 305, Bytes: 306, Owners: 307},
				Stores: []state.Stats{{
					Store: "tasks", Written: 308, Read: 309, Watched: 310, Size: 312, MaxSize: 313,
					Ended: map[state.Op]map[state.Outcome]uint64{state.OpCreate: {state.Stored: 311}},
					Took:  map[state.Op]telemetry.Histogram{state.OpCreate: durations(311, time.Second)},
				}},
			}
		},
		Identity: func() export.Identity { return export.Identity{Issued: 1, Cached: 1, MaxCached: 2} },
		Lists:    listed(),
		RateService: func() policy.RateServiceStats {
			return policy.RateServiceStats{
				OK: 301, OverLimit: 302, Errors: 303, Timeouts: 304, Cancelled: 305, SkippedBreaker: 306, SkippedFull: 307,
				InFlight: 308, MaxInFlight: 309, Failing: true,
				Took: durations(2, time.Millisecond),
			}
		},
		Traffic: traffic, CallsSkipped: func() uint64 { return 5 },
		Reloads: &export.Reloads{Status: func() []reload.Status { return []reload.Status{files} }, Refused: func() int { return 4 }},
		Authentication: &export.Authentication{
			Reasons: []string{"missing", "unknown"}, Refused: func(reason string) uint64 { return uint64(len(reason)) },
			Expires: func() time.Time { return time.Unix(1_900_000_000, 0) },
			OAuth: func() identity.VerifierStats {
				return identity.VerifierStats{
					Hits: 101, Misses: 102, Verified: 103, Proofs: 104, KeyFetches: 105, KeyFetchesFailed: 106, Introspections: 107,
					IntrospectionsFailed: 108, Cached: 109,
				}
			},
		},
		Repaired: func() uint64 { return 8 },
		Begun:    func() uint64 { return 7 }, InFlight: func() int { return 3 },
		Catalog: live, Events: bus, Rules: engine, Approvals: approval.New(approval.Options{Store: approval.NewMemory(nil)}), Gate: gate, Limiter: limiter, Slots: slots, Record: run,
		Webhooks: func() webhook.Stats { return webhook.Stats{Delivered: 5, GivenUp: 1, Dropped: 2, Failed: 3, Queued: 4} },
		Watches:  func() notify.WatchStats { return notify.WatchStats{Running: 3, Listeners: 4, Bytes: 5, Restarts: 6} },
		Balance: map[string]func() *backend.BalanceStats{"": func() *backend.BalanceStats {
			return &backend.BalanceStats{
				Addresses: []backend.AddressStats{{State: backend.AddressReady}, {State: backend.AddressReady}, {State: backend.AddressEjected}},
				LeftOut:   7, Draining: 8, Connections: 9, Ejections: 10, Lookups: 12, LookupsFailed: 1,
			}
		}},
		Guard: map[string]*backend.Guard{"": heldBack(t)}, Life: lifecycle.New(nil, "catalog"),
		Limits: []export.Limit{
			{Name: "max_in_flight", Used: func() float64 { return 3 }, Most: func() float64 { return 16384 }, Refused: func() uint64 { return 2 }},
			{Name: "read_header_timeout", Refused: func() uint64 { return 1 }},
		},
	}
}

// durations are n equal ones.
func durations(n int, took time.Duration) telemetry.Histogram {
	h := telemetry.Histogram{Durations: new(telemetry.Durations), Bounds: []time.Duration{time.Second}}
	for range n {
		h.Add(took, telemetry.Trace{})
	}
	return h
}

func TestEveryCountIsShown(t *testing.T) {
	t.Parallel()
	m, err := export.NewPage(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	m.BreakingChanges(2)
	m.BreakingChanges(0)
	m.BreakingChanges(-1)
	m.BreakingChanges(3)
	page, kind := scrape(t, m, "text/plain")
	if !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("Content-Type %q", kind)
	}
	wantLines(t, page,
		`outrigger_build_info{go_version="`+runtime.Version()+`",version="1.2.3"} 1`,
		`outrigger_backend_addresses{state="ready"} 2`, `outrigger_backend_addresses{state="ejected"} 1`, `outrigger_backend_addresses{state="unreachable"} 0`,
		`outrigger_backend_addresses{state="draining"} 8`, `outrigger_backend_addresses{state="left_out"} 7`, "outrigger_backend_connections 9",
		"outrigger_backend_ejections_total 10", `outrigger_backend_lookups_total{outcome="ok"} 11`, `outrigger_backend_lookups_total{outcome="error"} 1`,
		"outrigger_requests_begun_total 7", "outrigger_requests_in_flight 3",
		"outrigger_catalog_ready 0", "outrigger_catalog_tools 0", "outrigger_catalog_loads_total 1", "outrigger_catalog_load_failures 1",
		"outrigger_catalog_loaded_timestamp_seconds 0", "outrigger_catalog_breaking_changes_total 5",
		"outrigger_event_subscribers 0", "outrigger_event_subscribers_dropped_total 1", "outrigger_events_published_total 2", "outrigger_events_queued_total 1",
		`outrigger_calls_total{code="OK",edge="mcp",tool="shop.get"} 1`, `outrigger_calls_total{code="TIMEOUT",edge="grpc",tool="shop.get"} 1`,
		`outrigger_calls_in_flight{tool="shop.get"} 1`,
		`outrigger_call_duration_seconds_bucket{tool="shop.get",le="0.00025"} 0`, `outrigger_call_duration_seconds_bucket{tool="shop.get",le="0.0005"} 1`,
		`outrigger_call_duration_seconds_bucket{tool="shop.get",le="1"} 2`, `outrigger_call_duration_seconds_bucket{tool="shop.get",le="+Inf"} 2`,
		`outrigger_call_duration_seconds_sum{tool="shop.get"} 1.0003`, `outrigger_call_duration_seconds_count{tool="shop.get"} 2`,
		`outrigger_call_overhead_seconds_bucket{edge="mcp",le="3e-05"} 0`, `outrigger_call_overhead_seconds_bucket{edge="mcp",le="5e-05"} 1`,
		`outrigger_call_overhead_seconds_sum{edge="mcp"} 4.5e-05`,
		`outrigger_requests_total{code="PARSE_ERROR",edge="rpc",operation=""} 1`, `outrigger_requests_total{code="OK",edge="stdio",operation="list_tools"} 1`,
		`mcp_server_operation_duration_seconds_bucket{error_type="",gen_ai_operation_name="execute_tool",gen_ai_tool_name="shop.get",mcp_method_name="tools/call",mcp_protocol_version="2026-07-28",network_transport="tcp",rpc_response_status_code="",le="0.01"} 0`,
		`mcp_server_operation_duration_seconds_bucket{error_type="",gen_ai_operation_name="execute_tool",gen_ai_tool_name="shop.get",mcp_method_name="tools/call",mcp_protocol_version="2026-07-28",network_transport="tcp",rpc_response_status_code="",le="0.02"} 1`,
		`mcp_server_operation_duration_seconds_sum{error_type="",gen_ai_operation_name="execute_tool",gen_ai_tool_name="shop.get",mcp_method_name="tools/call",mcp_protocol_version="2026-07-28",network_transport="tcp",rpc_response_status_code=""} 0.015`,
		`mcp_server_operation_duration_seconds_bucket{error_type="-32603",gen_ai_operation_name="",gen_ai_tool_name="",mcp_method_name="tools/list",mcp_protocol_version="2025-11-25",network_transport="pipe",rpc_response_status_code="-32603",le="300"} 0`,
		`mcp_server_operation_duration_seconds_count{error_type="-32603",gen_ai_operation_name="",gen_ai_tool_name="",mcp_method_name="tools/list",mcp_protocol_version="2025-11-25",network_transport="pipe",rpc_response_status_code="-32603"} 1`,
		`mcp_server_session_duration_seconds_bucket{error_type="evicted",mcp_protocol_version="2025-11-25",network_transport="tcp",le="60"} 1`,
		"outrigger_arguments_repaired_total 8",
		"outrigger_log_calls_skipped_total 5", "outrigger_reload_refused_changes 4",
		`outrigger_reloads_total{files="configuration",outcome="applied"} 2`, `outrigger_reloads_total{files="configuration",outcome="refused"} 1`,
		`outrigger_reloads_total{files="configuration",outcome="partial"} 0`,
		`outrigger_reload_good_timestamp_seconds{files="configuration"} 1.7e+09`, `outrigger_reload_failing{files="configuration"} 1`,
		`outrigger_limit_used{limit="max_in_flight"} 3`, `outrigger_limit_max{limit="max_in_flight"} 16384`,
		`outrigger_limit_refused_total{limit="max_in_flight"} 2`, `outrigger_limit_refused_total{limit="read_header_timeout"} 1`,
		`outrigger_oauth_token_lookups_total{result="hit"} 101`, `outrigger_oauth_token_lookups_total{result="miss"} 102`,
		`outrigger_oauth_signatures_verified_total 103`, `outrigger_oauth_dpop_proofs_total 104`,
		`outrigger_oauth_key_fetches_total{result="ok"} 105`, `outrigger_oauth_key_fetches_total{result="failed"} 106`,
		`outrigger_oauth_introspections_total{result="ok"} 107`, `outrigger_oauth_introspections_total{result="failed"} 108`,
		`outrigger_oauth_cached_tokens 109`,
		`outrigger_unauthenticated_total{reason="missing"} 7`, `outrigger_unauthenticated_total{reason="unknown"} 7`,
		"outrigger_tls_certificate_expiry_timestamp_seconds 1.9e+09",
		"outrigger_watches_running 3", "outrigger_watch_listeners 4", "outrigger_watch_bytes 5", "outrigger_watch_restarts_total 6",
		"outrigger_breaker_opened_total 0", "outrigger_breaker_held_total 0", "outrigger_retries_total 0", "outrigger_retries_over_budget_total 0",
		`outrigger_breaker_state{state="closed"} 1`, `outrigger_breaker_state{state="half_open"} 0`, `outrigger_breaker_state{state="open"} 0`,
		`outrigger_lifecycle_state{state="starting"} 1`, `outrigger_lifecycle_state{state="draining"} 0`,
		"outrigger_state_available 1", "outrigger_task_takeovers_total 301", "outrigger_tasks_outcome_unknown_total 302", "outrigger_tasks_handed_over_total 303",
		"outrigger_tasks_lost_total 304", "outrigger_state_tasks 305", "outrigger_state_task_bytes 306", "outrigger_state_replicas 307",
		`outrigger_state_bytes_total{direction="written",store="tasks"} 308`, `outrigger_state_bytes_total{direction="read",store="tasks"} 309`,
		`outrigger_state_stored_bytes{store="tasks"} 312`, `outrigger_state_max_bytes{store="tasks"} 313`,
		`outrigger_state_changes_total{store="tasks"} 310`, `outrigger_state_operations_total{operation="create",outcome="ok",store="tasks"} 311`,
		`outrigger_state_operation_duration_seconds_count{operation="create",store="tasks"} 311`,
		"outrigger_trusted 1", "outrigger_trust_changes_total 1",
		`outrigger_calls_refused_total{code="DESTRUCTIVE_BLOCKED",tool="shop.drop"} 2`,
		`outrigger_calls_refused_total{code="RATE_LIMITED",tool=""} 1`, `outrigger_calls_refused_total{code="RATE_LIMITED",tool="shop.get"} 1`,
		"outrigger_record_unavailable 0", "outrigger_record_failing 0", "outrigger_record_lines_written_total 0", "outrigger_record_lines_dropped_total 0",
		"outrigger_record_lines_late_total 0", "outrigger_record_lines_unfinished_total 0", "outrigger_record_errors_total 0",
		"outrigger_record_rotations_total 0", "outrigger_record_entries_open 1", "outrigger_record_lines_held 0", "outrigger_record_lines_queued 0",
		"# TYPE outrigger_requests_begun_total counter", "# TYPE outrigger_requests_in_flight gauge",
		"# TYPE go_goroutines gauge",
	)
}

func TestOpenMetricsWhereAsked(t *testing.T) {
	t.Parallel()
	m, err := export.NewPage(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	page, kind := scrape(t, m, "application/openmetrics-text; version=1.0.0")
	if !strings.HasPrefix(kind, "application/openmetrics-text") || !strings.HasSuffix(page, "\n# EOF\n") {
		t.Errorf("%s, ends with %q", kind, page[max(0, len(page)-20):])
	}
}

// TestNamesAndTexts holds our metrics against the conventions of Prometheus.
func TestNamesAndTexts(t *testing.T) {
	t.Parallel()
	m, err := export.NewPage(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(m.Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, f := range families {
		name := f.GetName()
		switch {
		case isOwn(name):
			own++
		case !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_"):
			t.Errorf("%s is neither ours nor the process's", name)
		}
	}
	if own < 20 {
		t.Errorf("%d metrics of ours", own)
	}
}

// TestOnlyWhatThereIs leaves out the parts that a process does not have.
func TestOnlyWhatThereIs(t *testing.T) {
	t.Parallel()
	m, err := export.NewPage(export.Sources{RecordUnavailable: true})
	if err != nil {
		t.Fatal(err)
	}
	page, _ := scrape(t, m, "text/plain")
	wantLines(t, page, "outrigger_record_unavailable 1", "outrigger_record_lines_written_total 0", "outrigger_catalog_breaking_changes_total 0")
	for _, name := range []string{"outrigger_requests", "outrigger_catalog_ready", "outrigger_event", "outrigger_trust", "outrigger_calls", "outrigger_limit", "outrigger_reload", "outrigger_log"} {
		if strings.Contains(page, "\n"+name) {
			t.Errorf("%s of a part that is not there", name)
		}
	}
}

func TestNilShowsNothing(t *testing.T) {
	t.Parallel()
	var m *export.Page
	m.BreakingChanges(1)
	if m.Handler() != nil {
		t.Error("nil has a handler")
	}
	if families, err := m.Gatherer().Gather(); err != nil || len(families) != 0 {
		t.Errorf("nil shows %v, %v", families, err)
	}
}

// TestScrapesAreBounded holds as many scrapes as there may be, and sends one more.
func TestScrapesAreBounded(t *testing.T) {
	t.Parallel()
	const most = 4
	begun, release := make(chan struct{}, most), make(chan struct{})
	m, err := export.NewPage(export.Sources{InFlight: func() int {
		begun <- struct{}{}
		<-release
		return 0
	}})
	if err != nil {
		t.Fatal(err)
	}
	h := m.Handler()
	codes := make(chan int, most)
	for range most {
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			codes <- w.Code
		}()
	}
	for range most {
		<-begun
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("one scrape too many: status %d", w.Code)
	}
	close(release)
	for range most {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
}

// heldBack is a guard with one tool that keeps running out of time.
func heldBack(t testing.TB) *backend.Guard {
	t.Helper()
	g := backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(1)), OpenFor: durationpb.New(time.Hour)}}), backend.GuardOptions{})
	_, _ = backend.DoGuarded(context.Background(), g, backend.GuardedCall{Key: "shop.slow"}, func(context.Context) (int, *errmap.Error) {
		return 0, errmap.New(errmap.Timeout)
	})
	return g
}
