// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// counting is a backend that counts its calls, and answers with their number.
type counting struct {
	mu    sync.Mutex
	calls []string
	takes time.Duration
	size  int
	fails []*errmap.Error // one for each call
}

func (s *counting) call(ctx context.Context, m *mcptest.Method, _ []byte, _ http.Header) (*mcptest.Answer, *errmap.Error) {
	s.mu.Lock()
	s.calls = append(s.calls, m.Procedure)
	n := len(s.calls)
	var failed *errmap.Error
	if n <= len(s.fails) {
		failed = s.fails[n-1]
	}
	s.mu.Unlock()
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
	}
	if failed != nil {
		return nil, failed
	}
	text := fmt.Sprintf("answer %d", n) + strings.Repeat("x", s.size)
	return &mcptest.Answer{Body: protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), text)}, nil
}

func (s *counting) open(t *testing.T, configure func(*configv1.Config)) *mcptest.Rig {
	t.Helper()
	return mcptest.Pipe(t, mcptest.Parts{From: mcptest.Files(shop(), "shop.v1.Shop"), Backend: mcptest.Upstream(s.call), Configure: both(ofShop, trusted, configure)})
}

// keyed is a call of Burn with a key.
func keyed(b *mcptest.Rig, key string, change func(*mcptest.Call)) *mcptest.Call {
	call := toolCall(b, "shop.burn", `{"name":"a"}`)
	call.Caller, call.Header = "ann", http.Header{idempotencyHeader: {key}}
	if change != nil {
		change(call)
	}
	return call
}

func TestARepeatedCallGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	const first = `{"text":"answer 1"}`
	for _, tc := range []struct {
		name      string
		configure func(*configv1.Config)
		change    func(*mcptest.Call) // of the second call
		key       string
		wait      time.Duration
		code      errmap.Code
		want      string
		calls     int
	}{
		{name: "the same", want: first, calls: 1},
		{name: "other spellings", change: func(c *mcptest.Call) { c.Arguments = ` {"name" : "a"}` }, want: first, calls: 1},
		{name: "nearly a day later", wait: 24*time.Hour - time.Minute, want: first, calls: 1},
		{name: "a day later", wait: 24*time.Hour + time.Minute, want: `{"text":"answer 2"}`, calls: 2},
		{name: "other arguments", change: func(c *mcptest.Call) { c.Arguments = `{"name":"b"}` }, code: errmap.InvalidToolInput, calls: 1},
		{name: "another tool", change: func(c *mcptest.Call) { c.Tool = "shop.drop" }, code: errmap.InvalidToolInput, calls: 1},
		{name: "other fields", change: func(c *mcptest.Call) { c.Fields = "text" }, code: errmap.InvalidToolInput, calls: 1},
		{name: "another caller", change: func(c *mcptest.Call) { c.Caller = "bob" }, want: `{"text":"answer 2"}`, calls: 2},
		{name: "another key", key: "k2", want: `{"text":"answer 2"}`, calls: 2},
		{name: "a tool that reads", change: func(c *mcptest.Call) { c.Tool = "shop.drop_look" }, want: `{"text":"answer 2"}`, calls: 2},
		{name: "off", configure: func(c *configv1.Config) { c.Limits.AnswerTtl = durationpb.New(0) }, want: `{"text":"answer 2"}`, calls: 2},
		{name: "a short time", configure: func(c *configv1.Config) { c.Limits.AnswerTtl = durationpb.New(time.Minute) }, wait: 2 * time.Minute, want: `{"text":"answer 2"}`, calls: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &counting{}
				b := s.open(t, tc.configure)
				if got := b.Handle(t.Context(), keyed(b, "k", nil)); string(got.Result) != first {
					t.Fatalf("the first call: %v %s", got.Err, got.Result)
				}
				time.Sleep(tc.wait)
				key := "k"
				if tc.key != "" {
					key = tc.key
				}
				got := b.Handle(t.Context(), keyed(b, key, tc.change))
				if codeOf(got) != tc.code || string(got.Result) != tc.want || len(s.calls) != tc.calls {
					t.Errorf("%v %s, %d calls", got.Err, got.Result, len(s.calls))
				}
			})
		})
	}
}

// TestWhichFailuresAreAnswers: those that the tool decided, and none that may pass.
func TestWhichFailuresAreAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failed *errmap.Error
		code   errmap.Code
		calls  int
	}{
		"the tool's own": {errmap.New(errmap.ToolExecutionFailed, errmap.Message("no such order"), errmap.BackendCode("not_found")), errmap.ToolExecutionFailed, 1},
		"may pass":       {errmap.New(errmap.ToolExecutionFailed, errmap.BackendCode("unavailable")), "", 2},
		"unavailable":    {errmap.New(errmap.Unavailable), "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &counting{fails: []*errmap.Error{tc.failed}}
				b := s.open(t, func(c *configv1.Config) { c.Resilience.Retry.MaxAttempts = new(int32(1)) })
				first := b.Handle(t.Context(), keyed(b, "k", nil))
				time.Sleep(time.Hour)
				second := b.Handle(t.Context(), keyed(b, "k", nil))
				if codeOf(first) != tc.failed.Code || codeOf(second) != tc.code || len(s.calls) != tc.calls {
					t.Errorf("%v, then %v, %d calls", first.Err, second.Err, len(s.calls))
				}
				if tc.code != "" && (first.Err.Message != second.Err.Message || first.Err.BackendCode != second.Err.BackendCode) {
					t.Errorf("%v, then %v", first.Err, second.Err)
				}
			})
		})
	}
}

// TestAnEffectIsNotRepeatedBecauseItsAnswerIsRefused: what the sidecar finds wrong with an answer comes after the effect.
func TestAnEffectIsNotRepeatedBecauseItsAnswerIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		configure func(*configv1.Config)
		size      int
		code      errmap.Code
	}{
		"by the policy": {func(c *configv1.Config) {
			c.Access.Policy = &configv1.Policy{
				Classes: []*configv1.FieldClass{{Name: "pii", Groups: []string{"support"}, Otherwise: "deny"}}, Fields: map[string]string{"shop.v1.Said.text": "pii"},
			}
		}, 0, errmap.PermissionDenied},
		"by its size": {func(c *configv1.Config) { c.Limits.MaxResultBytes = new(int64(1024)) }, 2000, errmap.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &counting{size: tc.size}
			b := s.open(t, tc.configure)
			for range 2 {
				if got := b.Handle(t.Context(), keyed(b, "k", nil)); codeOf(got) != tc.code || len(s.calls) != 1 {
					t.Errorf("%v %s, %d calls", got.Err, got.Result, len(s.calls))
				}
			}
		})
	}
}

func TestCallsWithOneKeyRunOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &counting{takes: 10 * time.Second}
		b := s.open(t, nil)
		const callers = 8
		got := make([]string, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				out := b.Handle(t.Context(), keyed(b, "k", nil))
				got[i] = fmt.Sprint(string(out.Result), out.Err)
			})
		}
		all.Wait()
		if len(s.calls) != 1 || len(slices.Compact(got)) != 1 || !strings.HasPrefix(got[0], `{"text":"answer 1"}`) {
			t.Errorf("%d calls, answers %q", len(s.calls), got)
		}
	})
}

func TestTheWaitForAnAnswerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &counting{takes: 20 * time.Second}
		b := s.open(t, nil)
		done := make(chan *mcptest.Outcome, 1)
		go func() { done <- b.Handle(t.Context(), keyed(b, "k", nil)) }()
		synctest.Wait()
		hurried := b.Handle(t.Context(), keyed(b, "k", func(c *mcptest.Call) { c.Timeout = time.Second }))
		if codeOf(hurried) != errmap.Timeout || len(s.calls) != 1 {
			t.Errorf("%v, %d calls", hurried.Err, len(s.calls))
		}
		if got := <-done; got.Err != nil {
			t.Error(got.Err)
		}
	})
}

func TestAnAnswerThatIsTooLargeIsNotKept(t *testing.T) {
	t.Parallel()
	s := &counting{size: 5000}
	b := s.open(t, func(c *configv1.Config) { c.Limits.MaxAnswerBytes = new(int64(65536)) })
	if got := b.Handle(t.Context(), keyed(b, "k", nil)); got.Err != nil {
		t.Fatal(got.Err)
	}
	got := b.Handle(t.Context(), keyed(b, "k", nil))
	if codeOf(got) != errmap.ResourceExhausted || !strings.Contains(got.Err.Message, "--max-answer-bytes") || len(s.calls) != 1 {
		t.Errorf("%v, %d calls", got.Err, len(s.calls))
	}
}

// TestTheOldestAnswersMakeRoom: those of the caller itself first.
func TestTheOldestAnswersMakeRoom(t *testing.T) {
	t.Parallel()
	s := &counting{}
	b := s.open(t, func(c *configv1.Config) { c.Limits.MaxAnswers = new(int32(3)) })
	call := func(caller, key string) string {
		return string(b.Handle(t.Context(), keyed(b, key, func(c *mcptest.Call) { c.Caller = caller })).Result)
	}
	ann := call("ann", "k")
	for i := range 10 {
		call("bob", fmt.Sprint("k", i))
	}
	if got := call("ann", "k"); got != ann {
		t.Errorf("%s, then %s", ann, got)
	}
	before := len(s.calls)
	if call("bob", "k9"); len(s.calls) != before {
		t.Error("the newest answer is not kept")
	}
	if call("bob", "k0"); len(s.calls) != before+1 {
		t.Error("the oldest answer is kept")
	}
}

// TestAPreviewIsNoAnswer, and neither is a question.
func TestAPreviewIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := &shopkeeper{}
	ann := s.open(t, asks)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shop_delete","arguments":{"name":"a"%s},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"dev.outrigger/idempotency-key":"k"%s}%s}}`
	for _, more := range []string{`,"validateOnly":true`, ``} {
		meta := ""
		if more == "" {
			meta = `,"dev.outrigger/preview":true`
		}
		if got := ann.sendRaw(fmt.Sprintf(call, more, meta, "")); !strings.Contains(got.raw, "would delete a") {
			t.Fatal(got.raw)
		}
	}
	asked := ann.sendRaw(fmt.Sprintf(call, "", "", ""))
	for _, yes := range []string{consent(asked), ""} { // what ran before needs no consent
		if got := ann.sendRaw(fmt.Sprintf(call, "", "", yes)); !strings.Contains(got.raw, "deleted a") {
			t.Fatal(got.raw)
		}
	}
	if !slices.Equal(s.effects, []string{"a"}) {
		t.Errorf("effects %v", s.effects)
	}
}

// TestAConfirmedCallIsRepeated bit for bit, as a client does that lost the answer.
func TestAConfirmedCallIsRepeated(t *testing.T) {
	t.Parallel()
	s := &shopkeeper{}
	ann := s.open(t, asks)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shop_delete","arguments":{"name":"a"},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"dev.outrigger/idempotency-key":"k"}%s}}`
	yes := fmt.Sprintf(call, consent(ann.sendRaw(fmt.Sprintf(call, ""))))
	for range 2 {
		if got := ann.sendRaw(yes); !strings.Contains(got.raw, "deleted a") || len(s.effects) != 1 {
			t.Errorf("%s, effects %v", got.raw, s.effects)
		}
	}
}

// TestSpellingsOfACall: there are many ways to write one message.
func TestSpellingsOfACall(t *testing.T) {
	t.Parallel()
	name := protowire.AppendString(protowire.AppendTag(nil, orderName, protowire.BytesType), "a")
	flag := protowire.AppendVarint(protowire.AppendTag(nil, orderValidateOnly, protowire.VarintType), 0)
	s := &counting{}
	b := s.open(t, nil)
	for _, wire := range [][]byte{slices.Concat(name, flag), slices.Concat(flag, name), name} {
		got := b.Handle(t.Context(), &mcptest.Call{
			Origin: b.NewOrigin(), Caller: "ann", Header: http.Header{idempotencyHeader: {"k"}}, Procedure: "/shop.v1.Shop/Delete", Wire: wire, IsWire: true,
		})
		if got.Err != nil || len(s.calls) != 1 {
			t.Errorf("%x: %v, %d calls", wire, got.Err, len(s.calls))
		}
	}
	for _, text := range []string{`{"name":"a"}`, `{"name":"a","validateOnly":false}`, `{"validate_only":false,"name":"a"}`} {
		got := b.Handle(t.Context(), keyed(b, "k2", func(c *mcptest.Call) { c.Tool, c.Arguments = "shop.delete", text }))
		if string(got.Result) != `{"text":"answer 2"}` {
			t.Errorf("%s: %v %s", text, got.Err, got.Result)
		}
	}
}

// TestAnswersOfTenants: headers that the backend is sent may say for whom a call is, and those of a trace do not.
func TestAnswersOfTenants(t *testing.T) {
	t.Parallel()
	s := &counting{}
	b := s.open(t, func(c *configv1.Config) { c.Backend.Metadata.Inbound = []string{"x-tenant", "x-request-id"} })
	for i, tc := range []struct{ tenant, want string }{{"red", "1"}, {"blue", "2"}, {"red", "1"}} {
		got := b.Handle(t.Context(), keyed(b, "k", func(c *mcptest.Call) {
			c.Header.Set("X-Tenant", tc.tenant)
			c.Header.Set("X-Request-Id", fmt.Sprint(i))
		}))
		if string(got.Result) != `{"text":"answer `+tc.want+`"}` {
			t.Errorf("%s: %v %s", tc.tenant, got.Err, got.Result)
		}
	}
}

// TestRecordedErrorsLackSecrets, also those of their details.
func TestRecordedErrorsLackSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	detail := &anypb.Any{TypeUrl: "type.googleapis.com/shop.v1.Order", Value: slices.Concat(
		protowire.AppendString(protowire.AppendTag(nil, orderName, protowire.BytesType), "TAINTED"),
		protowire.AppendString(protowire.AppendTag(nil, orderPIN, protowire.BytesType), "7264"),
	)}
	s := &counting{fails: []*errmap.Error{errmap.FromBackendStatus(9, "no", []*anypb.Any{detail})}}
	t.Run("recorded", func(t *testing.T) {
		b := s.open(t, both(recording(dir), func(c *configv1.Config) {
			c.Access.Policy = &configv1.Policy{
				Classes: []*configv1.FieldClass{{Name: "pii", Groups: []string{"support"}}}, Fields: map[string]string{"shop.v1.Order.name": "pii"},
			}
		}))
		ctx := mcptest.AsMember(t, outrigger.Grant{Name: "ann", Tools: []string{"*"}}, "support")
		if got := b.Handle(ctx, keyed(b, "k", nil)); codeOf(got) != errmap.ToolExecutionFailed {
			t.Error(got.Err)
		}
	})
	text, err := os.ReadFile(filepath.Join(dir, "mcp_server", "envelope_validation", ".latest", "calls.jsonl"))
	if err != nil || strings.Contains(string(text), "TAINTED") || strings.Contains(string(text), "7264") || !strings.Contains(string(text), "shop.v1.Order") {
		t.Errorf("%v %s", err, text)
	}
}

// TestAnAnswerIsForOneView: a repetition by a caller who sees something else now is an error, and no second call.
func TestAnAnswerIsForOneView(t *testing.T) {
	t.Parallel()
	s, sees := &counting{}, &mcptest.Blind{}
	parts := mcptest.Parts{From: mcptest.Files(shop(), "shop.v1.Shop"), Backend: mcptest.Upstream(s.call), Configure: both(ofShop, trusted, func(c *configv1.Config) {
		c.Access.Policy = &configv1.Policy{
			Classes: []*configv1.FieldClass{{Name: "pii", Groups: []string{"support"}, Otherwise: "mask"}}, Fields: map[string]string{"shop.v1.Said.text": "pii"},
		}
	})}
	parts.Adjust.Rules = func(r mcptest.Rules) mcptest.Rules {
		sees.Rules = r
		return sees
	}
	b := mcptest.Pipe(t, parts)
	for i, at := range []string{"", "*", ""} {
		sees.At = at
		got := b.Handle(t.Context(), keyed(b, "k", nil))
		code, want := errmap.Code(""), `{"text":"********"}`
		if i == 1 {
			code, want = errmap.PermissionDenied, ""
		}
		if codeOf(got) != code || string(got.Result) != want || len(s.calls) != 1 {
			t.Errorf("%d: %v %s, %d calls", i, got.Err, got.Result, len(s.calls))
		}
	}
}

// TestAnEffectThatMayHaveHappenedIsNotRepeated: where a call was sent and it is not known what became of it, a repetition says so, and
// runs only if the tool may be repeated.
func TestAnEffectThatMayHaveHappenedIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fails *errmap.Error // nil: the caller leaves
		takes time.Duration
		code  errmap.Code
		again errmap.Code
		tool  *configv1.ToolOptions
		calls int
	}{
		"timeout":               {takes: time.Hour, code: errmap.Timeout, again: errmap.TransportError, calls: 1},
		"broken off":            {fails: errmap.New(errmap.TransportError), code: errmap.TransportError, again: errmap.TransportError, calls: 1},
		"cancelled":             {fails: errmap.New(errmap.Cancelled), code: errmap.Cancelled, again: errmap.TransportError, calls: 1},
		"not reached":           {fails: errmap.New(errmap.Unavailable), code: errmap.Unavailable, calls: 2},
		"of an idempotent tool": {fails: errmap.New(errmap.TransportError), code: errmap.TransportError, tool: &configv1.ToolOptions{Idempotent: new(true)}, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &counting{takes: tc.takes, fails: []*errmap.Error{tc.fails}}
				b := s.open(t, func(c *configv1.Config) {
					c.Resilience.Retry.MaxAttempts = new(int32(1))
					if tc.tool != nil {
						c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "shop.v1.Shop/Burn", Tool: tc.tool})
					}
				})
				first := b.Handle(t.Context(), keyed(b, "k", nil))
				s.takes = 0
				began := time.Now()
				second := b.Handle(t.Context(), keyed(b, "k", nil))
				if codeOf(first) != tc.code || codeOf(second) != tc.again || len(s.calls) != tc.calls || time.Since(began) != 0 {
					t.Errorf("%v, then after %v %v, %d calls", first.Err, time.Since(began), second.Err, len(s.calls))
				}
				if tc.again != "" && (second.Err.CanRetry(true) || !strings.Contains(second.Err.Advice, "new key") || !strings.Contains(second.Err.Message, "is not known")) {
					t.Errorf("%+v", second.Err)
				}
			})
		})
	}
}

// TestARepeatedFailureOfATypedCall is the status of the backend as it came, the second time too.
func TestARepeatedFailureOfATypedCall(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	backend := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"code":"failed_precondition","message":"password=hunter2 is wrong","details":[{"type":"google.rpc.RequestInfo","value":"CgFh"}]}`)
	})
	b := mcptest.Pipe(t, mcptest.Parts{
		From: mcptest.Files(shop(), "shop.v1.Shop"), Behind: "connect+" + mcptest.Serve(t, backend), Configure: both(ofShop, trusted),
	})
	url, client := b.Serve(t), mcptest.Client(t, 1)
	ask := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/shop.v1.Shop/Burn", strings.NewReader(`{"name":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(idempotencyHeader, "k")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, string(raw), err)
	}
	first, second := ask(), ask()
	if first != second || !strings.Contains(first, "hunter2") || !strings.Contains(first, "RequestInfo") || calls.Load() != 1 {
		t.Errorf("%s, then %s; %d calls", first, second, calls.Load())
	}
}
