// SPDX-License-Identifier: Apache-2.0

package rpchttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func ping(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping","params":{}}`
}

// outcomes are the replies of a batch as "id code".
func outcomes(t *testing.T, body string) []string {
	t.Helper()
	var out []string
	for _, m := range decode[[]message](t, body) {
		out = append(out, strings.TrimSpace(string(m.ID)+" "+string(m.code())))
	}
	return out
}

func TestBatch(t *testing.T) {
	t.Parallel()
	_, url := edge(t, rpchttp.Options{MaxBatch: 5})
	echo := func(id string) string { return call(id, "lab.echo", `{}`) }
	for _, tc := range []struct {
		name    string
		entries []string
		want    []string
	}{
		{"one", []string{ping(`"a"`)}, []string{`"a"`}},
		{"in the order of the requests", []string{
			call(`"slow"`, "lab.sleep", `{"duration":"0.05s"}`), ping(`"b"`), echo(`"c"`),
		}, []string{`"slow"`, `"b"`, `"c"`}},
		{"notifications are left out", []string{`{"jsonrpc":"2.0","method":"n"}`, ping(`"b"`), `{"jsonrpc":"2.0","method":"n"}`}, []string{`"b"`}},
		{"notifications whose params do not fit are left out", []string{`{"jsonrpc":"2.0","method":"n","params":null}`, ping(`"b"`), `{"jsonrpc":"2.0","method":"n","params":[]}`}, []string{`"b"`}},
		{"faults beside good ones", []string{ping(`"a"`), `7`, `{"jsonrpc":"2.0","id":"x"}`, echo(`"b"`), call(`"u"`, "lab.ecko", `{}`)},
			[]string{`"a"`, `null INVALID_ENVELOPE`, `"x" INVALID_ENVELOPE`, `"b"`, `"u" TOOL_NOT_FOUND`}},
		{"a batch in a batch", []string{ping(`"a"`), "[" + ping(`"b"`) + "]"}, []string{`"a"`, `null INVALID_ENVELOPE`}},
		{"of equal ids the second is refused", []string{
			call(`"s"`, "lab.sleep", `{"duration":"0.05s"}`), echo(`"s"`), ping(`"t"`),
		}, []string{`"s"`, `"s" DUPLICATE_REQUEST_ID`, `"t"`}},
		{"ids are equal by their value", []string{
			call(`"a/"`, "lab.sleep", `{"duration":"0.05s"}`), echo(`"\u0061\/"`),
		}, []string{`"a/"`, `"\u0061\/" DUPLICATE_REQUEST_ID`}},
		{"a cancellation of an earlier entry leaves it out", []string{
			call(`"s"`, "lab.sleep", `{"duration":"60s"}`), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`, ping(`"t"`),
		}, []string{`"t"`}},
		{"the most that may be", []string{ping(`"1"`), ping(`"2"`), ping(`"3"`), ping(`"4"`), ping(`"5"`)},
			[]string{`"1"`, `"2"`, `"3"`, `"4"`, `"5"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(t, url, " [ "+strings.Join(tc.entries, " ,\n")+" ] ")
			if got.status != http.StatusOK {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if diff := cmp.Diff(tc.want, outcomes(t, got.body)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBatchesThatAreRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	_, url := edge(t, rpchttp.Options{})
	for _, tc := range []struct {
		name, body string
		status     int
		code       errmap.Code
	}{
		{"empty", `[]`, 400, errmap.InvalidEnvelope},
		{"empty with space", " [ \n ] ", 400, errmap.InvalidEnvelope},
		{"over 100", "[" + strings.Repeat(ping(`"x"`)+",", 100) + ping(`"y"`) + "]", 413, errmap.PayloadTooLarge},
		{"cut short", "[" + ping(`"a"`), 400, errmap.ParseError},
		{"a syntax error in one entry", "[" + ping(`"a"`) + `,{"a":}]`, 400, errmap.ParseError},
		{"a duplicate name in one entry", "[" + ping(`"a"`) + `,{"a":1,"\u0061":2}]`, 400, errmap.ParseError},
		{"a tail", "[" + ping(`"a"`) + "]]", 400, errmap.ParseError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(t, url, tc.body)
			m := decode[message](t, got.body)
			if got.status != tc.status || m.code() != tc.code || string(m.ID) != "null" {
				t.Errorf("got %d %s, want %d %s", got.status, got.body, tc.status, tc.code)
			}
		})
	}
}

// A hundred entries are in flight at once: none is answered before all have
// reached the backend.
func TestTheEntriesOfABatchRunConcurrently(t *testing.T) {
	t.Parallel()
	const entries = 100
	backend := newHeld()
	b := dialect.New(bridge.New(mcptest.Memory(t), backend, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	url := mcptest.Serve(t, rpchttp.New(b, rpchttp.Options{}))
	var parts, want []string
	for i := range entries {
		parts = append(parts, call(fmt.Sprintf(`"%d"`, i), "lab.echo", fmt.Sprintf(`{"nonce":"n%d"}`, i)))
		want = append(want, fmt.Sprintf(`"%d"`, i))
	}
	go func() {
		for range entries {
			<-backend.entered
		}
		close(backend.release)
	}()
	got := post(t, url, "["+strings.Join(parts, ",")+"]")
	if diff := cmp.Diff(want, outcomes(t, got.body)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for i, m := range decode[[]message](t, got.body) {
		if !strings.Contains(string(m.Result), fmt.Sprintf(`"nonce":"n%d"`, i)) {
			t.Errorf("entry %d has the answer of another: %s", i, m.Result)
		}
	}
}
