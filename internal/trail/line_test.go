// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
)

const (
	someTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	inputError = `{"code":"INVALID_TOOL_INPUT","errorType":"SchemaError","retryable":false,"requestId":"a","tool":"shop.order","violations":[{"path":"/n","keyword":"minimum","message":"must be at least 1"}]}`
	spareError = `{"code":"PARSE_ERROR","errorType":"ValidationError","retryable":false,"requestId":null}`
)

// conversation is what the goldens hold: every kind of line.
func conversation(r *Run) {
	at := func(id, route, method, params string) Arrival {
		transport := "http"
		if route == "" {
			transport = "stdio"
		}
		return Arrival{RequestID: json.RawMessage(id), Transport: transport, Route: route, Method: method, Params: []byte(params)}
	}
	traced := at(`"a"`, "/rpc", "tools/call", `{"name":"shop.order","arguments":{"n":0,"apiKey":"k-1","note":"hi"}}`)
	traced.TraceID = someTrace
	first := r.Begin(traced)
	second := r.Begin(at(`7`, "/mcp", "tools/list", ``))
	third := r.Begin(at(`"7"`, "", "tools/call", `{"name":"login","arguments":{"user":"u","password":{"old":"p","new":["q"]}}}`))
	notification := r.Begin(at(``, "", "notifications/cancelled", `{"requestId":"x"}`))
	unreadable := r.Begin(at(``, "", "", ``))
	_ = r.Begin(at(`9007199254740993`, "/rpc", "ping", `{}`)) // no outcome

	unreadable.End(Outcome{Error: json.RawMessage(spareError), HTTPStatus: 400, Code: -32700})
	third.End(Outcome{OK: true, HTTPStatus: 200, Redact: []redact.Names{redact.NewNames([]string{"internal_note"})}, Result: []byte(
		`{"content":[{"type":"text","text":"{\n  \"token\": \"t-1\",\n  \"ok\": true\n}"}],"structuredContent":{"token":"t-1","internalNote":"psst","ok":true},"isError":false}`)})
	notification.End(Outcome{OK: true, HTTPStatus: 202})
	second.End(Outcome{OK: true, HTTPStatus: 200, Result: []byte("{ \"tools\" : [ ] }\n")})
	first.End(Outcome{Error: json.RawMessage(inputError), HTTPStatus: 422, Code: -32602})
}

func TestGolden(t *testing.T) {
	t.Parallel()
	schema := eventSchema(t)
	for _, payloads := range []bool{false, true} {
		name := "events.jsonl"
		if payloads {
			name = "events_payloads.jsonl"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := recordBegin(t, RecordOptions{Deterministic: true, Payloads: payloads})
			conversation(r)
			got := finished(t, r)
			for _, line := range got {
				conforms(t, schema, line)
			}
			path := filepath.Join("testdata", name)
			text := strings.Join(got, "\n") + "\n"
			if *update {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Error(diff)
			}
			if s := r.Stats(); s.Written != 6 || s.Unfinished != 1 || s.Dropped+s.Late+s.Errors != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestNoPayloadsUnlessAskedFor(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{})
	r.Begin(Arrival{Params: []byte(`{"a":"shibboleth"}`)}).End(Outcome{OK: true, Result: []byte(`"shibboleth"`)})
	got := finished(t, r)
	if len(got) != 1 || strings.Contains(got[0], "shibboleth") || strings.Contains(got[0], "params") {
		t.Error(got)
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", maxIDBytes) + `"`
	tests := []struct{ id, want string }{
		{`"a"`, `"a"`},
		{`7`, `7`}, {`-7`, `-7`}, {`0`, `0`}, {`9007199254740993`, `9007199254740993`},
		{`"7"`, `"7"`}, {`""`, `""`},
		{`"a\u0022\n\ud83d\ude00"`, `"a\u0022\n\ud83d\ude00"`}, {`"é"`, `"é"`},
		{``, `null`}, {`null`, `null`}, {`true`, `null`}, {`{}`, `null`}, {`[1]`, `null`},
		{`"`, `null`}, {`"a"b"`, `null`}, {`"a\"`, `null`}, {"\"a\nb\"", `null`}, {"\"\xff\"", `null`}, {`"\ud83d"`, `null`},
		{`01`, `null`}, {`1x`, `null`}, {`-`, `null`}, {"7\n", `null`}, {` 7`, `null`}, {`7,8`, `null`},
		{long, `null`},
	}
	r := recordBegin(t, RecordOptions{})
	for _, tt := range tests {
		r.Begin(Arrival{RequestID: json.RawMessage(tt.id)}).End(Outcome{OK: true})
	}
	got := recordIds(t, finished(t, r))
	for i, tt := range tests {
		if got[i] != tt.want {
			t.Errorf("%.40q is recorded as %s", tt.id, got[i])
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	s := eventSchema(t)
	tests := []struct{ in, want string }{
		{"tools/call", "tools/call"},
		{"a\nb\x00\"\\", "a\nb\x00\"\\"},
		{"\xff", "\uFFFD"},
		{strings.Repeat("m", maxTextBytes), strings.Repeat("m", maxTextBytes)},
		{strings.Repeat("é", maxTextBytes), strings.Repeat("é", maxTextBytes/2-1) + "…"},
		{strings.Repeat("\xbf", maxTextBytes+1), "…"},
	}
	r := recordBegin(t, RecordOptions{})
	for _, tt := range tests {
		r.Begin(Arrival{Transport: "http", Route: tt.in, Method: tt.in}).End(Outcome{OK: true})
	}
	got := finished(t, r)
	for i, tt := range tests {
		e := read(t, got[i])
		conforms(t, s, got[i])
		if e.Method == nil || *e.Method != tt.want || *e.Route != tt.want {
			t.Errorf("%.20q: %s", tt.in, got[i])
		}
	}
}

// Whatever an envelope holds, its line has one end for every reader and shows all of it.
func TestRecordLinesShowAllThatTheyHold(t *testing.T) {
	t.Parallel()
	const unseen = "\u0085\u2028\u2029\u202e\u2066\u200b\ufeff\x7f"
	quoted := []byte(`"` + unseen + `"`)
	r := recordBegin(t, RecordOptions{Payloads: true})
	arrival := Arrival{RequestID: quoted, Transport: unseen, Route: unseen, Method: unseen, Caller: unseen, Params: quoted}
	r.Begin(arrival).End(Outcome{Error: []byte(`{"message":"` + unseen + `"}`), Tool: unseen, Result: quoted})
	r.Begin(arrival) // never ends
	r.Documents().Begin(quoted).End(&Call{Tool: unseen, Input: Payload{JSON: quoted}, Output: Payload{JSON: quoted}})
	got := finished(t, r)
	documents, err := os.ReadFile(filepath.Join(r.Folder(), "calls.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(got, "\n") + string(documents)
	if at := strings.IndexAny(all, unseen); at >= 0 {
		t.Errorf("%+q is raw in %.60q", all[at:at+3], all[max(at-30, 0):])
	}
	if want := 9 + 5 + 4; strings.Count(all, `\u2028`) != want || *read(t, got[0]).Method != unseen {
		t.Errorf("%d texts, want %d: %s", strings.Count(all, `\u2028`), want, all)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, data, want string }{
		{"canonical", `{"code":"X"}`, `{"code":"X","httpStatus":404,"jsonrpcCode":-32001}`},
		{"empty", `{}`, `{"httpStatus":404,"jsonrpcCode":-32001}`},
		{"indented", "{\n\t\"code\": \"X\"\n}\n", `{"code":"X","httpStatus":404,"jsonrpcCode":-32001}`},
		{"spaced", `{ "code":"X" }`, `{ "code":"X","httpStatus":404,"jsonrpcCode":-32001}`},
		{"none", ``, `null`},
		{"torn", `{"code":"X"`, `null`},
		{"text", `"X"`, `null`},
		{"two", `{}{}`, `null`},
		{"huge", `{"code":"` + strings.Repeat("x", maxErrorBytes) + `"}`, `null`},
	}
	r := recordBegin(t, RecordOptions{})
	for _, tt := range tests {
		r.Begin(Arrival{}).End(Outcome{Error: json.RawMessage(tt.data), HTTPStatus: 404, Code: -32001})
	}
	r.Begin(Arrival{}).End(Outcome{Error: json.RawMessage(`{}`)})
	got := finished(t, r)
	for i, tt := range tests {
		if e := read(t, got[i]); string(e.Error) != tt.want || *e.Status != "error" {
			t.Errorf("%s: %s", tt.name, got[i])
		}
	}
	if e := read(t, got[len(tests)]); string(e.Error) != `{"httpStatus":null,"jsonrpcCode":null}` {
		t.Errorf("without numbers: %s", e.Error)
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		took time.Duration
		want string
	}{
		{0, "0.000"}, {-time.Second, "0.000"}, {999, "0.000"}, {time.Microsecond, "0.001"}, {45678 * time.Microsecond, "45.678"},
		{time.Hour, "3600000.000"},
	}
	for _, tt := range tests {
		if got := string(appendMillis(nil, tt.took)); got != tt.want {
			t.Errorf("%v is %s", tt.took, got)
		}
	}
}

// The clock says what time.Format says, whatever the order of times.
func TestClock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c clock
		last := rapid.Int64Range(0, 4102444800).Draw(t, "start")
		for range 10 {
			last += rapid.Int64Range(-2, 2).Draw(t, "step")
			at := time.Unix(last, rapid.Int64Range(0, 999999999).Draw(t, "nanos"))
			var got [timestampBytes]byte
			c.put(got[:], at)
			if want := at.UTC().Format("2006-01-02T15:04:05.000000Z"); string(got[:]) != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	})
	var c clock
	var got [timestampBytes]byte
	for _, at := range []time.Time{time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), {}} {
		c.put(got[:], at)
		if _, err := time.Parse(time.RFC3339Nano, string(got[:])); err != nil {
			t.Error(err)
		}
	}
}

func TestTraceID(t *testing.T) {
	t.Parallel()
	const parent = "-00f067aa0ba902b7-01"
	tests := []struct{ name, header, want string }{
		{"as specified", "00-" + someTrace + parent, someTrace},
		{"later version", "cc-" + someTrace + parent + "-more", someTrace},
		{"version ff", "ff-" + someTrace + parent, ""},
		{"longer than version 00", "00-" + someTrace + parent + "-more", ""},
		{"glued", "cc-" + someTrace + parent + "more", ""},
		{"upper case", "00-" + strings.ToUpper(someTrace) + parent, ""},
		{"zeros", "00-" + noTraceID + parent, ""},
		{"no parent", "00-" + someTrace + "-0000000000000000-01", ""},
		{"bad flags", "00-" + someTrace + "-00f067aa0ba902b7-0x", ""},
		{"bad version", "0x-" + someTrace + parent, ""},
		{"short", "00-" + someTrace, ""},
		{"none", "", ""},
	}
	for _, tt := range tests {
		if got := TraceID(tt.header); got != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// Without a trace id from the caller one is made, each its own.
func TestGeneratedTraceIDs(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{})
	for _, id := range []string{"", "", someTrace, "ABC", noTraceID, someTrace + "0"} {
		r.Begin(Arrival{TraceID: id}).End(Outcome{OK: true})
	}
	seen := map[string]bool{}
	for i, line := range finished(t, r) {
		id := read(t, line).TraceID
		if !isTraceID(id) || seen[id] || (id == someTrace) != (i == 2) {
			t.Errorf("line %d: trace id %q", i, id)
		}
		seen[id] = true
	}
}

// A line is one line of JSON of the published form, whatever comes in.
func TestEveryLineIsOfTheForm(t *testing.T) {
	t.Parallel()
	s := eventSchema(t)
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		r, err := OpenRecord(RecordOptions{Dir: dir, Payloads: rapid.Bool().Draw(t, "payloads"), Deterministic: true})
		if err != nil {
			t.Fatal(err)
		}
		raw := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.SampledFrom([][]byte{
			nil, []byte(`7`), []byte(`"a"`), []byte(`{"a":1}`), []byte("{\n}"), []byte(inputError), []byte(spareError),
		}))
		n := rapid.IntRange(1, 5).Draw(t, "n")
		for range n {
			e := r.Begin(Arrival{
				RequestID: raw.Draw(t, "id"), TraceID: rapid.SampledFrom([]string{"", someTrace, "x"}).Draw(t, "trace"),
				Transport: rapid.SampledFrom([]string{"", "http", "stdio"}).Draw(t, "transport"),
				Route:     rapid.String().Draw(t, "route"), Method: string(raw.Draw(t, "method")), Params: raw.Draw(t, "params"),
			})
			if rapid.IntRange(0, 4).Draw(t, "end") > 0 {
				data := rapid.SampledFrom([]string{"", inputError, spareError}).Draw(t, "error")
				e.End(Outcome{OK: rapid.Bool().Draw(t, "ok"), Error: json.RawMessage(data), HTTPStatus: 500, Code: -32603, Result: raw.Draw(t, "result")})
			}
		}
		got := finished(t, r)
		if len(got) != n {
			t.Fatalf("%d lines for %d envelopes", len(got), n)
		}
		for _, line := range got {
			conforms(t, s, line)
		}
	})
}

// Own names replace the default ones.
func TestOwnNames(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{Payloads: true, Redact: []string{"iban", " ", ""}})
	r.Begin(Arrival{Params: []byte(`{"IBAN":"x","token":"y","":"z"}`)}).End(Outcome{OK: true})
	if got := string(read(t, finished(t, r)[0]).Params); got != `{"IBAN":"[redacted]","token":"y","":"z"}` {
		t.Error(got)
	}
}
