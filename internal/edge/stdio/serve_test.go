// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestBadLinesNeverEndTheConversation(t *testing.T) {
	t.Parallel()
	p := talk(t.Context(), t, sidecar(mcptest.Memory(t), mcptest.Echo), stdio.Options{Limits: jsonrpc.Limits{MaxBytes: 1 << 10}})
	for _, tc := range []struct {
		name, line string
		want       errmap.Code
	}{
		{"cut short", `{"jsonrpc":"2.0"`, errmap.ParseError},
		{"binary", "\x00\x01\xfe", errmap.ParseError},
		{"no message", `7`, errmap.InvalidEnvelope},
		{"an array", `[` + ping(`"a"`) + `]`, errmap.InvalidEnvelope},
		{"an id of null", ping(`null`), errmap.InvalidEnvelope},
		{"an invalid message without an id", `{"jsonrpc":"2.0"}`, errmap.InvalidEnvelope},
		{"an HTTP header", "Content-Length: 7\r", errmap.ParseError},
		{"too deep", strings.Repeat("[", 100), errmap.ParseError},
		{"over the limit", ping(`"` + strings.Repeat("x", 1<<10) + `"`), errmap.PayloadTooLarge},
		{"far over the limit", strings.Repeat("y", 1<<20), errmap.PayloadTooLarge},
	} {
		p.send(tc.line)
		if got := p.reply(); got.code() != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got.raw, tc.want)
		}
		p.send("", " ", "\t \r", ping(`"alive"`)+"\r")
		if got := p.reply(); got.code() != "" || string(got.ID) != `"alive"` {
			t.Fatalf("after %s: got %s", tc.name, got.raw)
		}
	}
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}

func TestTheLastLineNeedsNoEnd(t *testing.T) {
	t.Parallel()
	p := talk(t.Context(), t, sidecar(mcptest.Memory(t), mcptest.Echo), stdio.Options{})
	go func() {
		_, _ = p.in.Write([]byte(call(`"last"`, `{"nonce":"n"}`)))
		_ = p.in.Close()
	}()
	if got := p.reply(); string(got.ID) != `"last"` || got.code() != "" {
		t.Errorf("got %s", got.raw)
	}
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}

func TestManyCallsAreAnsweredEachWithItsOwn(t *testing.T) {
	t.Parallel()
	const calls = 50
	backend := newHeld()
	p := talk(t.Context(), t, sidecar(mcptest.Memory(t), backend.call), stdio.Options{})
	go func() { // in flight all at once, before the first is answered
		for range calls {
			<-backend.entered
		}
		close(backend.release)
	}()
	go func() {
		for i := range calls {
			_, _ = fmt.Fprintln(p.in, call(fmt.Sprintf(`"%d"`, i), fmt.Sprintf(`{"nonce":"n%d"}`, i)))
		}
	}()
	got := map[string]bool{}
	for range calls {
		r := p.reply() // each is one whole line, or it would not decode
		id := strings.Trim(string(r.ID), `"`)
		if r.Result == nil || !strings.Contains(string(r.Result.StructuredContent), `"nonce":"n`+id+`"`) {
			t.Errorf("%s has the answer of another: %s", id, r.raw)
		}
		got[id] = true
	}
	if len(got) != calls {
		t.Errorf("%d calls were answered, want %d", len(got), calls)
	}
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("more was written: %q", rest)
	}
}

func TestACancelledCallIsNotAnswered(t *testing.T) {
	t.Parallel()
	backend := newHeld()
	p := talk(t.Context(), t, sidecar(mcptest.Memory(t), backend.call), stdio.Options{AnyID: true})
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`
	p.send(call(`7`, `{}`))
	<-backend.entered
	p.send(fmt.Sprintf(cancel, `"7"`), fmt.Sprintf(cancel, `8`), ping(`"p"`))
	if got := p.reply(); string(got.ID) != `"p"` {
		t.Errorf("got %s", got.raw)
	}
	// Registration happens in reading order, so the cancellation finds the call
	// and the id is free for the next.
	p.send(fmt.Sprintf(cancel, `7`), call(`7`, `{"nonce":"again"}`))
	<-backend.entered
	close(backend.release)
	if got := p.reply(); string(got.ID) != `7` || !strings.Contains(got.raw, "again") {
		t.Errorf("got %s", got.raw)
	}
	if rest := p.end(); len(rest) > 0 {
		t.Errorf("the cancelled call was answered: %q", rest)
	}
}

func TestOfTwoEqualIDsInFlightTheSecondIsRefused(t *testing.T) {
	t.Parallel()
	backend := newHeld()
	p := talk(t.Context(), t, sidecar(mcptest.Memory(t), backend.call), stdio.Options{AnyID: true})
	p.send(call(`7`, `{"nonce":"first"}`))
	<-backend.entered
	p.send(call(`7`, `{"nonce":"second"}`))
	if got := p.reply(); got.code() != errmap.DuplicateRequestID || string(got.ID) != `7` {
		t.Errorf("got %s", got.raw)
	}
	p.send(call(`"7"`, `{"nonce":"text"}`)) // another id
	<-backend.entered
	close(backend.release)
	got := map[string]bool{}
	for range 2 {
		r := p.reply()
		got[string(r.ID)] = strings.Contains(r.raw, map[string]string{"7": "first", `"7"`: "text"}[string(r.ID)])
	}
	if diff := cmp.Diff(map[string]bool{"7": true, `"7"`: true}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	p.end()
}

func FuzzConversation(f *testing.F) {
	live := mcptest.Memory(f)
	for _, seed := range []string{
		ping(`"1"`) + "\n" + call(`"2"`, `{"nonce":"n"}`) + "\n",
		initialize + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\r\n\n \n{",
		`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{` + meta + `}}`,
		"[]\n\xff\n" + ping(`"\u0031"`) + "\n" + ping(`"1"`),
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"2"}}` + "\n" + strings.Repeat("x", 3000) + "\n" + ping(`"z"`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out strings.Builder
		b := sidecar(live, mcptest.Echo)
		if err := stdio.Serve(context.Background(), b, strings.NewReader(string(in)), &out, stdio.Options{Limits: jsonrpc.Limits{MaxBytes: 2048}}); err != nil {
			t.Fatal(err)
		}
		if n := b.Flights().InFlight(); n != 0 {
			t.Errorf("%d calls are still in flight", n)
		}
		want := expected(in)
		for l := range strings.Lines(out.String()) {
			r := decode(t, strings.TrimSuffix(l, "\n"))
			want[string(r.ID)]--
		}
		for id, n := range want {
			if id != "" && id != "null" && n > 0 {
				t.Errorf("the request %s lacks an answer", id)
			}
		}
		if answers, most := strings.Count(out.String(), "\n"), strings.Count(string(in), "\n")+1; answers > most {
			t.Errorf("%d lines for %d", answers, most)
		}
	})
}

// expected counts the valid requests of an input by their id as it came. What
// may be silenced by a cancellation is left out.
func expected(in []byte) map[string]int {
	want := map[string]int{}
	if strings.Contains(string(in), "cancelled") || strings.Contains(string(in), `\u`) {
		return want
	}
	for l := range strings.Lines(string(in)) {
		l = strings.TrimSuffix(strings.TrimSuffix(l, "\n"), "\r")
		if msg := jsonrpc.Parse([]byte(l), jsonrpc.ProfileMCP, jsonrpc.Limits{MaxBytes: 2048}); msg.Fault == nil && msg.Kind == jsonrpc.KindRequest {
			want[string(msg.ID.Raw())]++
		}
	}
	return want
}
