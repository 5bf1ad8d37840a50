// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/testdata/schemas"
)

// full is an event with every member, and one odd text.
func full() Event {
	return Event{
		Caller: Caller{Name: "al\"ice\n\xff", Subject: "s", Issuer: "https://issuer.example/", ClientID: "c", Source: "oauth", Address: "10.0.0.1"},
		Edge:   "mcp", Route: "/mcp", Era: "2026-07-28", Operation: "call_tool", Tool: "a.b", Target: strings.Repeat("ä", 2000),
		Version: "1.0.0", Fingerprint: "ab", Destructive: true, Trust: "trusted", Decision: Consented, Rule: "r", Code: "OK", Outcome: "result",
		Duration: 1234567 * time.Nanosecond, RequestID: []byte(`"é\u0000"`), TraceID: "0af7651916cd43dd8448eb211c80319c", BytesIn: 3, BytesOut: 4,
		Arguments: Payload{JSON: []byte(`{"password":"x","a":[1]}`)}, Result: Payload{JSON: []byte(`{`)},
	}
}

// written is a trail's content after some work.
func written(t *testing.T, o AuditOptions, work func(*Audit)) string {
	t.Helper()
	o.Path = filepath.Join(t.TempDir(), "trail")
	trail, err := OpenAudit(o)
	if err != nil {
		t.Fatal(err)
	}
	work(trail)
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Every line is of the schema, whatever is in it, and a deterministic trail is the golden
// one.
func TestLines(t *testing.T) {
	t.Parallel()
	got := written(t, AuditOptions{Payloads: true, Deterministic: true, Fsync: SyncAlways}, func(trail *Audit) {
		e := full()
		e.ID = trail.NewID()
		if err := trail.Begin(t.Context(), &e); err != nil {
			t.Error(err)
		}
		if err := trail.Begin(t.Context(), &e); err != nil { // the first one counts
			t.Error(err)
		}
		trail.End(&e)
		trail.EndTask(&e)
		none := Event{ID: trail.NewID(), Operation: "complete", Code: "INVALID_PARAMS", Outcome: "error", RequestID: []byte(`{"no":"id"}`)}
		trail.End(&none)
		trail.Change(Change{Kind: "trust", Who: OfOperator("127.0.0.1:9"), Before: "untrusted", After: "trusted"})
		trail.Change(Change{Kind: "reload", Who: OfFile(), After: "callers", Code: "INVALID_PARAMS", Detail: "refused"})
		trail.Change(Change{Kind: "start", Who: OfProcess()})
		trail.Change(Change{Kind: "sign_in", Who: Caller{Name: "olive", Address: "127.0.0.1"}})
		inConsole := Event{ID: trail.NewID(), Caller: Caller{Name: "alice", Address: "127.0.0.1", Operator: "olive"}, Operation: "call_tool", Code: "OK", Outcome: "result"}
		trail.End(&inConsole)
	})
	path := filepath.Join("testdata", "lines.jsonl")
	if os.Getenv("UPDATE_AUDIT_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
	raw, err := schemas.Read(schemas.Audit)
	if err != nil {
		t.Fatal(err)
	}
	v, err := schema.Compile(raw)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(got) {
		if found, err := v.Validate([]byte(line)); err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v", line, err, found)
		}
	}
	if found, err := v.Validate([]byte(strings.Replace(got[:strings.IndexByte(got, '\n')], `"phase":"begin"`, `"phase":"end"`, 1))); err != nil || len(found) == 0 {
		t.Error("the schema admits an end without a code")
	}
}

// Whatever callers, operators and files name, a line has one end for every reader and shows
// all that it holds.
func TestLinesShowAllThatTheyHold(t *testing.T) {
	t.Parallel()
	const unseen = "\u0085\u2028\u2029\u202e\u2066\u200b\ufeff\x7f"
	got := written(t, AuditOptions{Payloads: true, Fsync: SyncAlways}, func(trail *Audit) {
		who := Caller{Name: unseen, Subject: unseen, Issuer: unseen, ClientID: unseen, Source: unseen, Address: unseen, Operator: unseen}
		payload := Payload{JSON: []byte(`{"` + unseen + `":"` + unseen + `"}`)}
		e := Event{
			ID: trail.NewID(), Caller: who, Edge: unseen, Route: unseen, Era: unseen, Operation: unseen, Tool: unseen, Target: unseen, Version: unseen,
			Fingerprint: unseen, Trust: unseen, Rule: unseen, Code: unseen, Outcome: unseen, RequestID: []byte(`"` + unseen + `"`), TraceID: unseen,
			Arguments: payload, Result: payload,
		}
		trail.End(&e)
		trail.EndTask(&e)
		trail.Change(Change{Kind: unseen, Who: who, Tool: unseen, Before: unseen, After: unseen, Code: unseen, Detail: unseen})
	})
	if at := strings.IndexAny(got, unseen); at >= 0 {
		t.Errorf("%+q is raw in %.60q", got[at:at+3], got[max(at-30, 0):])
	}
	texts := 0
	err := ReadAudit(strings.NewReader(got), func(l *AuditLine) error {
		texts += strings.Count(string(l.Raw), `\u2028`)
		if l.Caller.Name != unseen || l.Operation != unseen || l.Tool != unseen {
			t.Errorf("another text is read: %+q", l.Raw)
		}
		return nil
	}, func(f Fault) { t.Error(f) })
	if want := 4*7 + 3*14 - 2 + 2*5 + 6; err != nil || texts != want {
		t.Errorf("%v, %d texts, want %d", err, texts, want)
	}
}

func TestReadTakesWhatIsThere(t *testing.T) {
	t.Parallel()
	whole := written(t, AuditOptions{Deterministic: true}, func(trail *Audit) {
		for range 3 {
			e := full()
			e.ID = trail.NewID()
			trail.End(&e)
		}
	})
	long := `{"schema":"` + strings.Repeat("x", maxLine) + `"}`
	for _, tc := range []struct {
		name, in string
		lines    int
		faults   []Fault
	}{
		{"nothing", "", 0, nil},
		{"a whole trail", whole, 3, nil},
		{"the last line feed is missing", strings.TrimSuffix(whole, "\n"), 3, nil},
		{"a partial last line", whole[:len(whole)-20], 2, []Fault{{Number: 3, IsPartial: true}}},
		{"a torn line in the middle", whole[:len(whole)/2] + "\n" + whole, 4, []Fault{{Number: 2}}},
		{"another schema", `{"schema":"outrigger.audit.v2","id":"1","phase":"end"}` + "\n" + whole, 3, []Fault{{Number: 1}}},
		{"no id", `{"schema":"outrigger.audit.v1"}` + "\n", 0, []Fault{{Number: 1}}},
		{"no JSON", "hello\n\n" + whole, 3, []Fault{{Number: 1}, {Number: 2}}},
		{"too long", long + "\n" + whole, 3, []Fault{{Number: 1}}},
	} {
		lines, faults := 0, []Fault(nil)
		err := ReadAudit(strings.NewReader(tc.in), func(l *AuditLine) error {
			lines++
			if l.Tool != "a.b" || !bytes.Contains(l.Raw, []byte(l.ID)) {
				t.Errorf("%s: %+v", tc.name, l)
			}
			return nil
		}, func(f Fault) {
			f.Reason = ""
			faults = append(faults, f)
		})
		if err != nil || lines != tc.lines || len(faults) != len(tc.faults) {
			t.Errorf("%s: %d lines, %v, %v", tc.name, lines, faults, err)
			continue
		}
		for i := range faults {
			if faults[i] != tc.faults[i] {
				t.Errorf("%s: %+v, want %+v", tc.name, faults[i], tc.faults[i])
			}
		}
	}
	stop := errors.New("stop")
	if err := ReadAudit(strings.NewReader(whole), func(*AuditLine) error { return stop }, func(Fault) {}); !errors.Is(err, stop) {
		t.Error(err)
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	l := &AuditLine{Time: time.Unix(100, 0), Edge: "mcp", Tool: "fleet.cancel_order", Code: "OK", Decision: Allowed}
	l.Caller.Name, l.Caller.Address = "alice", "10.0.0.1"
	for _, tc := range []struct {
		name string
		f    Filter
		want bool
	}{
		{"nothing", Filter{}, true},
		{"name", Filter{Caller: "alice"}, true},
		{"pattern", Filter{Caller: "10.*", Tool: "fleet.*"}, true},
		{"another caller", Filter{Caller: "bob"}, false},
		{"another tool", Filter{Tool: "lab.*"}, false},
		{"code", Filter{Code: "ok", Edge: "MCP", Decision: "Allowed"}, true},
		{"another code", Filter{Code: "TIMEOUT"}, false},
		{"another edge", Filter{Edge: "rpc"}, false},
		{"another decision", Filter{Decision: "denied"}, false},
		{"within", Filter{Since: time.Unix(100, 0), Until: time.Unix(100, 0)}, true},
		{"too early", Filter{Since: time.Unix(101, 0)}, false},
		{"too late", Filter{Until: time.Unix(99, 0)}, false},
	} {
		if got := tc.f.Matches(l); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// Whatever is read, the reader ends, and each line is shown or a fault.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"schema":"outrigger.audit.v1","id":"1","phase":"end"}` + "\n" + `{"schema":"outri`))
	f.Add([]byte("\n\n"))
	f.Add([]byte(`{"schema":"outrigger.audit.v1","id":"1","phase":"end","time":"x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		told := 0
		err := ReadAudit(bytes.NewReader(raw), func(l *AuditLine) error {
			if l.ID == "" || l.Schema != Schema {
				t.Errorf("%+v", l)
			}
			told++
			return nil
		}, func(Fault) { told++ })
		want := bytes.Count(raw, []byte{'\n'})
		if len(raw) > 0 && raw[len(raw)-1] != '\n' {
			want++
		}
		if err != nil || told != want {
			t.Errorf("%d of %d lines, %v", told, want, err)
		}
	})
}

// A nil trail writes nothing.
func TestANilTrail(t *testing.T) {
	t.Parallel()
	var trail *Audit
	e := full()
	trail.End(&e)
	trail.EndTask(&e)
	trail.Change(Change{})
	if err := errors.Join(trail.Begin(t.Context(), &e), trail.Close()); err != nil || trail.IsOn() || trail.IsRequired() || trail.HasBegins() || trail.Stats().Written != 0 {
		t.Error(err)
	}
}

func BenchmarkEnd(b *testing.B) {
	trail, err := OpenAudit(AuditOptions{Path: filepath.Join(b.TempDir(), "trail"), Fsync: SyncInterval})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = trail.Close() }()
	e := full()
	e.Target, e.Arguments, e.Result = "", Payload{}, Payload{}
	b.ReportAllocs()
	for b.Loop() {
		e.ID = trail.NewID()
		trail.End(&e)
	}
}
