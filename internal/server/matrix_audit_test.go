// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// entry is what the matrix compares of a line of the trail.
type entry struct {
	Name, Subject, Issuer, Source string
	Operation, Tool, Target       string
	Decision                      trail.Decision
	Rule, Code                    string
}

// traceOf is the id of the trace of a cell, which tells its lines from others.
func traceOf(t testing.TB) string {
	sum := sha256.Sum256([]byte(t.Name()))
	return hex.EncodeToString(sum[:16])
}

// traced adds the trace of a cell to the requests of a client.
type traced struct {
	trace string
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (x traced) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", "00-"+x.trace+"-00f067aa0ba902b7-01")
	return x.next.RoundTrip(r)
}

// withTrail writes an audit trail to a file.
func withTrail(path string) func(*configv1.Config) {
	return func(c *configv1.Config) {
		c.Audit = &configv1.Audit{Path: proto.String(path), Fsync: proto.String("never")}
	}
}

// entriesOf reads a trail by trace. Each line of an invocation belongs to a trace.
func entriesOf(t *testing.T, path string) map[string][]entry {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	out := map[string][]entry{}
	err = trail.ReadAudit(f, func(l *trail.AuditLine) error {
		if l.Phase == trail.PhaseChange {
			return nil
		}
		var of struct {
			Trace string `json:"trace_id"`
		}
		if err := json.Unmarshal(l.Raw, &of); err != nil {
			return err
		}
		who := &l.Caller
		out[of.Trace] = append(out[of.Trace], entry{who.Name, who.Subject, who.Issuer, who.Source, l.Operation, l.Tool, l.Target, l.Decision, l.Rule, l.Code})
		return nil
	}, func(f trail.Fault) { t.Error(f) })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// identity is how the trail names a caller of the matrix.
func (w who) identity() entry {
	switch {
	case w.grant != nil:
		return entry{Name: w.grant.Name, Subject: w.grant.Name, Source: "tokens"}
	case w.uri != "":
		return entry{Name: w.uri, Subject: w.uri, Source: "certificate"}
	case w.issuer != "":
		return entry{Name: subject, Subject: subject, Issuer: w.issuer, Source: "oauth"}
	}
	return entry{}
}

// entries are the lines that the table expects of a cell.
func (c *cell) entries() []entry {
	o, e := c.operation, c.who.identity()
	if !c.denied && o.onDenial {
		return nil
	}
	e.Operation, e.Target, e.Code, e.Decision = o.audited, o.target, c.outcome.code, trail.Allowed
	if o.audited == "call_tool" || o.audited == "read_resource" && !c.denied {
		e.Tool = o.tool
	}
	switch {
	case c.denied:
		e.Decision, e.Rule = trail.Denied, cmp.Or(c.rule, "grants")
	case e.Code == string(errmap.DestructiveBlocked):
		e.Decision, e.Rule = trail.Denied, "destructive_gate"
	case e.Code == string(errmap.InvalidParams): // there is no such task to decide about
		e.Decision = ""
	case e.Code == "":
		e.Code = "OK"
	}
	if o.event != "" && c.denied && !c.who.isGranted(&operation{publish: published}) {
		second := e // the row publishes what it listens for
		second.Operation, second.Target = "publish", published
		return []entry{e, second}
	}
	return []entry{e}
}

// auditTrail collects cells, and compares them with the audit trail of their sidecar.
type auditTrail struct {
	path  string
	cells map[string]cell
}

func newTrail(t *testing.T) *auditTrail {
	return &auditTrail{path: filepath.Join(t.TempDir(), "audit.jsonl"), cells: map[string]cell{}}
}

// witness implements [witness].
func (x *auditTrail) witness(t *testing.T, _ *matrix, c cell) { x.cells[traceOf(t)] = c }

// check ends the sidecar, so that all lines are written, and compares.
func (x *auditTrail) check(t *testing.T, m *matrix) {
	t.Helper()
	m.rig.End()
	lines := entriesOf(t, x.path)
	for trace, c := range x.cells {
		got, want := lines[trace], c.entries()
		delete(lines, trace)
		if !slices.Equal(got, want) {
			t.Errorf("%s, %s, %s left\n%+v, want\n%+v", c.who.name, c.edge, c.operation.name, got, want)
		}
	}
	if len(lines) > 0 {
		t.Errorf("lines of no cell: %+v", lines)
	}
}

// TestStrangersLeaveNoLine: a request without valid credentials is refused and fills no disk.
func TestStrangersLeaveNoLine(t *testing.T) {
	t.Parallel()
	x := newTrail(t)
	m := newMatrix(t, newDirectory(t, callers()), withTrail(x.path))
	for _, w := range []who{{name: "no token"}, {name: "unknown token", token: "unknown-0123456789"}} {
		for _, o := range operations() {
			for edge, got := range m.strangers(t, w, &o) {
				if got.code != string(errmap.Unauthenticated) || got.challenge == "" || got.status != 0 && got.status != http.StatusUnauthorized {
					t.Errorf("%s, %s, %s: %+v", w.name, edge, o.name, got)
				}
			}
		}
	}
	if m.backend.calls.Load() > 0 || len(m.rig.Native.Seen()) > 0 {
		t.Error("something reached the backend")
	}
	x.check(t, m)
}

// strangers does an operation on every edge that a caller can use without a first answer.
func (m *matrix) strangers(t *testing.T, w who, o *operation) map[string]outcome {
	t.Helper()
	out := map[string]outcome{}
	for _, e := range columns() {
		if e.bare || strings.HasPrefix(e.name, "MCP 2025") {
			continue
		}
		if got, ok := e.run(t, m, w, o); ok {
			out[e.name] = got
		}
	}
	client := w.client(t, 1)
	if o.canonical != "" {
		out["/rpc, batch"], _ = sendHTTP(t, client, m.url+"/rpc", `[{"jsonrpc":"2.0","id":"1","method":"`+o.canonical+`","params":{`+o.canonicalParams+`}}]`)
	}
	if o.mcp != "" && !o.modernOnly {
		method := o.mcp
		if o.get {
			method = ""
		}
		out["MCP 2025-06-18"] = legacySession{url: m.url + "/mcp", revision: "2025-06-18", id: "none"}.send(t, client, method, o.params)
	}
	return out
}

// ruled is a policy: one for a caller of all tools, and one that looks at arguments.
func ruled(c *configv1.Config) {
	c.Access.Policy = &configv1.Policy{Rules: []*configv1.PolicyRule{
		{Name: "b-stays-ashore", Effect: "deny", When: `caller.issuer == "` + issuerB + `"`, Tools: []string{"fleet.*"}},
		{Name: "no-n", Effect: "deny", When: `args.nonce == "n" && caller.subject == "` + subject + `"`, Tools: []string{"lab.echo"}},
	}}
}

// TestMatrixOfRules: what a rule denies is refused on every edge, and the trail has its name.
// Where scopes refuse first, it is they that are named.
func TestMatrixOfRules(t *testing.T) {
	t.Parallel()
	x := newTrail(t)
	m := newMatrix(t, newDirectory(t, callers()), func(c *configv1.Config) {
		withTrail(x.path)(c)
		ruled(c)
	})
	for _, w := range callers() {
		for _, e := range columns() {
			for _, o := range operations() {
				rule := w.deniedBy(&o)
				if rule == "" {
					continue
				}
				t.Run(w.name+"/"+e.name+"/"+o.name, func(t *testing.T) {
					got, ok := e.run(t, m, w, &o)
					if !ok {
						t.Skip("this edge has no such operation")
					}
					if got.code != string(errmap.PermissionDenied) || got.challenge != "" || !strings.Contains(got.body, rule) && got.status != 0 {
						t.Errorf("got %+v, want the rule %s", got, rule)
					}
					x.witness(t, m, cell{who: w, edge: e.name, operation: &o, outcome: got, denied: true, rule: rule})
				})
			}
		}
	}
	if m.backend.calls.Load() > 0 || len(x.cells) == 0 {
		t.Errorf("%d cells, and %d calls reached the backend", len(x.cells), m.backend.calls.Load())
	}
	x.check(t, m)
}

// deniedBy is the rule that denies a call; "" if none does, or if the caller is refused before.
func (w who) deniedBy(o *operation) string {
	switch {
	case o.audited != "call_tool" || w.challenge(o) != "":
		return ""
	case w.issuer == issuerB && strings.HasPrefix(o.tool, "fleet."):
		return "b-stays-ashore"
	case o.tool == "lab.echo" && w.identity().Subject == subject:
		return "no-n"
	}
	return ""
}
