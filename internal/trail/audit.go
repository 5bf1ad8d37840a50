// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
)

// stdout is the Path of a trail on standard output.
const stdout = "stdout"

// AuditOptions configure an Audit. Zero fields take their defaults.
type AuditOptions struct {
	// Path is the file, or Stdout, which is written to Out.
	Path string
	Out  io.Writer
	// MaxFileBytes, MaxFiles, Fsync, FsyncInterval and MaxQueuedBytes are those of
	// [LineOptions].
	MaxFileBytes   int64
	MaxFiles       int
	Fsync          Sync
	FsyncInterval  time.Duration
	MaxQueuedBytes int
	// Required makes Begin fail for an invocation that cannot be recorded.
	Required bool
	// Payloads records arguments and results, without the values of members with these
	// names; nil means redact.DefaultNames. MaxPayloadBytes bounds each of them.
	Payloads        bool
	Redact          []string
	MaxPayloadBytes int
	// Deterministic fixes the clock, durations and ids.
	Deterministic bool
	Log           *zap.Logger
}

// optionalWait bounds how long an invocation waits for a trail that is not required: a
// disk that hangs costs one call that time, and the others nothing.
const optionalWait = time.Second

// Audit is an audit trail. Make one with [OpenAudit].
type Audit struct {
	opts    AuditOptions
	encoder encoder
	writer  *LineWriter
	buffers sync.Pool // of *[]byte
	refused atomic.Uint64
}

// AuditStats are counts since Open.
type AuditStats struct {
	LineStats
	// Refused counts the invocations that were refused because they could not be recorded.
	Refused uint64
}

// OpenAudit opens the trail. An error means that the file cannot be opened.
func OpenAudit(o AuditOptions) (*Audit, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Redact == nil {
		o.Redact = redact.DefaultNames()
	}
	defaults.Fill(&o.MaxPayloadBytes, defaults.AuditMaxPayloadBytes)
	t := &Audit{opts: o, encoder: encoder{
		ids: newIDs(o.Deterministic), payloads: o.Payloads,
		redactor: redact.Redactor{Base: redact.NewNames(o.Redact)}, limit: o.MaxPayloadBytes,
	}}
	file := LineOptions{
		Path: o.Path, MaxFileBytes: o.MaxFileBytes, MaxFiles: o.MaxFiles, Sync: o.Fsync, SyncEvery: o.FsyncInterval,
		MaxPendingBytes: o.MaxQueuedBytes, Log: o.Log,
	}
	if o.Path == stdout {
		file.Out = o.Out
	}
	if !o.Required {
		file.CommitWait = optionalWait
	}
	var err error
	if t.writer, err = openLines(file); err != nil {
		return nil, fmt.Errorf("audit trail: %w", err)
	}
	return t, nil
}

// IsOn reports whether there is a trail.
func (t *Audit) IsOn() bool { return t != nil }

// HasPayloads reports whether arguments and results are recorded, and the maximum size of
// each.
func (t *Audit) HasPayloads() (maxBytes int, ok bool) {
	if t == nil {
		return 0, false
	}
	return t.opts.MaxPayloadBytes, t.opts.Payloads
}

// IsRequired reports whether what cannot be recorded is refused.
func (t *Audit) IsRequired() bool { return t != nil && t.opts.Required }

// HasBegins reports whether invocations have two lines.
func (t *Audit) HasBegins() bool {
	return t != nil && (t.opts.Required || t.opts.Fsync == SyncAlways)
}

// NewID returns the id of a new invocation. Call it only if the trail is on.
func (t *Audit) NewID() ID { return t.encoder.ids.next() }

// Begin writes the first line of an invocation, if the trail has two for each, and returns
// once it is on the disk. An error means that the invocation must be refused, because it
// cannot be recorded; it is nil if the trail is not required. Only the first call for an
// event writes.
func (t *Audit) Begin(ctx context.Context, e *Event) error {
	if !t.HasBegins() || e.hasBegun {
		return nil
	}
	e.hasBegun = true
	line := t.buffer()
	defer t.recycle(line)
	*line = t.encoder.event((*line)[:0], t.now(), PhaseBegin, e)
	err := t.writer.Commit(ctx, *line)
	if err == nil || !t.opts.Required {
		return nil
	}
	if ctx.Err() == nil {
		t.refused.Add(1)
	}
	return err
}

// End writes the line of an invocation that has ended. It does not wait for the disk. An
// invocation that Begin has not seen gets its first line too, if there are two.
func (t *Audit) End(e *Event) {
	if t == nil {
		return
	}
	line := t.buffer()
	defer t.recycle(line)
	*line = (*line)[:0]
	if t.HasBegins() && !e.hasBegun {
		e.hasBegun = true
		*line = t.encoder.event(*line, t.now(), PhaseBegin, e)
		t.writer.Append(*line)
		*line = (*line)[:0]
	}
	t.write(line, PhaseEnd, e)
}

// EndTask writes the line of a call that ran on as a task and has ended. The event has
// the id of the call.
func (t *Audit) EndTask(e *Event) {
	if t == nil {
		return
	}
	line := t.buffer()
	defer t.recycle(line)
	*line = (*line)[:0]
	t.write(line, PhaseTask, e)
}

func (t *Audit) write(line *[]byte, phase Phase, e *Event) {
	if t.opts.Deterministic {
		e.Duration = 0
	}
	*line = t.encoder.event(*line, t.now(), phase, e)
	t.writer.Append(*line)
}

// Change writes the line of a change. It does not wait for the disk, because what keeps
// the trail from being written may be what the change mends.
func (t *Audit) Change(c Change) {
	if t == nil {
		return
	}
	line := t.buffer()
	defer t.recycle(line)
	*line = t.encoder.change((*line)[:0], t.now(), t.encoder.ids.next(), &c)
	t.writer.Append(*line)
}

func (t *Audit) buffer() *[]byte {
	if line, ok := t.buffers.Get().(*[]byte); ok {
		return line
	}
	line := make([]byte, 0, 1024)
	return &line
}

func (t *Audit) recycle(line *[]byte) {
	if cap(*line) <= maxPooled {
		t.buffers.Put(line)
	}
}

func (t *Audit) now() time.Time {
	if t.opts.Deterministic {
		return deterministicStart
	}
	return time.Now()
}

// Stats returns the current counts, or zero counts for nil.
func (t *Audit) Stats() AuditStats {
	if t == nil {
		return AuditStats{}
	}
	return AuditStats{LineStats: t.writer.Stats(), Refused: t.refused.Load()}
}

// Close writes and syncs the remaining lines. An error means that lines are missing.
func (t *Audit) Close() error {
	if t == nil {
		return nil
	}
	if err := t.writer.Close(); err != nil {
		return fmt.Errorf("audit trail: %w", err)
	}
	return nil
}

// Phase says which of the lines of an invocation a line is.
type Phase string

// The phases. PhaseTask is the end of a call that ran on as a task, after the PhaseEnd in
// which the caller got the task.
const (
	PhaseBegin  Phase = "begin"
	PhaseEnd    Phase = "end"
	PhaseTask   Phase = "task"
	PhaseChange Phase = "change"
)

// Decision is what the policy said about an invocation. The empty one is null in a line:
// the invocation ended before there was a decision, for example because there is no such
// tool.
type Decision string

// The decisions. Asked is set if the user was asked for consent, and Consented if the
// user gave it.
const (
	Allowed   Decision = "allowed"
	Denied    Decision = "denied"
	Asked     Decision = "asked"
	Consented Decision = "consented"
	// Approved is set if others approved the call.
	Approved Decision = "approved"
)

// Caller is who asked.
type Caller struct {
	// Name is the name of the caller. Subject and Issuer identify it together with Source,
	// which says how it was identified. ClientID is the OAuth client. All are empty for a
	// caller without authentication.
	Name, Subject, Issuer, ClientID, Source string
	// Address is the address of its connection, "stdio", or the part of the process that
	// asked.
	Address string
	// Operator is the operator in whose console the caller asked, empty for others.
	Operator string
}

// Event is one invocation. Begin and End do not keep its bytes.
type Event struct {
	// ID is that of all lines of the invocation, of [Audit.NewID].
	ID     ID
	Caller Caller
	// Edge, Route and Era say how the request came in, and Operation what it asked for.
	Edge, Route, Era, Operation string
	// Tool is the canonical name of the tool; Version, Fingerprint and Destructive belong to
	// it. Target is what else is named: the URI of a resource, the name of a prompt, the id
	// of a task, or the name of a tool that does not exist.
	Tool, Target, Version, Fingerprint string
	Destructive                        bool
	// Trust is the caller's permission to run destructive tools.
	Trust    string
	Decision Decision
	// Rule is the name of the rule that decided.
	Rule string
	// Preview: the backend was asked what the call would do.
	Preview bool
	// Program says which program made the call, or which one it ran; nil for other calls.
	Program *Program
	// Code is the canonical code of the error, "OK" without one. Outcome is what the caller
	// got: result, error, input_required, task or cancelled.
	Code, Outcome string
	// Cause is why, if the code alone does not say it: what the caller is not told.
	Cause    string
	Duration time.Duration
	// RequestID is the id of the request as JSON, and TraceID that of the trace.
	RequestID []byte
	TraceID   string
	// BytesIn and BytesOut are the sizes of arguments and result; of a stream, of all its messages.
	BytesIn, BytesOut int
	// Arguments and Result are recorded if payloads are, both as JSON.
	Arguments, Result Payload

	// hasBegun: the first of two lines was written.
	hasBegun bool
}

// Program is a program of catalog.run in the line of its run, or of a call that it made.
type Program struct {
	// Digest is the SHA-256 of the program, in the line of a run.
	Digest string
	// Run is the ID of the run in the line of a call. Call is its number in the run, and Line and Column its place in the program.
	Run                ID
	Call, Line, Column int
}

// Change is a change by an operator, or of a file.
type Change struct {
	// Kind is what changed: trust, registration, drain, refresh, configuration, callers,
	// certificates, keys or another word in snake case.
	Kind string
	// Who asked for the change. For a change of a file, Name is "file".
	Who Caller
	// Tool is the tool that the change is about, empty if it is about none.
	Tool string
	// Before and After are the states, where there are two.
	Before, After string
	// Code is the canonical code if the change was refused, empty otherwise.
	Code string
	// Detail says more, for people. It must not have secrets.
	Detail string
}

// OfFile is the Who of a change of a file.
func OfFile() Caller { return Caller{Name: "file"} }

// OfOperator is the Who of a change over the admin listener: by the name of the operator,
// or by the address of one that did not authenticate.
func OfOperator(who string) Caller {
	if _, err := netip.ParseAddrPort(who); err == nil {
		return Caller{Name: "operator", Address: who}
	}
	return Caller{Name: who}
}

// OfProcess is the Who of a change by the process itself, such as a drain after a signal.
func OfProcess() Caller { return Caller{Name: "process"} }

// Filter chooses lines. Empty fields choose all.
type Filter struct {
	// Caller is a pattern with * for the name, the subject, the OAuth client or the address
	// of the caller, or for the operator in whose console it asked, and Tool one for the tool or the target.
	Caller, Tool string
	// Since and Until bound the time, both inclusive.
	Since, Until time.Time
	// Code, Edge and Decision are compared without regard to case.
	Code, Edge, Decision string
}

// Matches reports whether a line is chosen.
func (f *Filter) Matches(l *AuditLine) bool {
	return f.matchesCaller(l) && f.matchesTool(l) && f.matchesTime(l.Time) &&
		matchesWord(f.Code, l.Code) && matchesWord(f.Edge, l.Edge) && matchesWord(f.Decision, string(l.Decision))
}

func (f *Filter) matchesCaller(l *AuditLine) bool {
	if f.Caller == "" {
		return true
	}
	c := &l.Caller
	for _, name := range [...]string{c.Name, c.Subject, c.ClientID, c.Address, c.Operator} {
		if name != "" && glob.Match(f.Caller, name) {
			return true
		}
	}
	return false
}

func (f *Filter) matchesTool(l *AuditLine) bool {
	return f.Tool == "" || l.Tool != "" && glob.Match(f.Tool, l.Tool) || l.Target != "" && glob.Match(f.Tool, l.Target)
}

func (f *Filter) matchesTime(t time.Time) bool {
	return (f.Since.IsZero() || !t.Before(f.Since)) && (f.Until.IsZero() || !t.After(f.Until))
}

func matchesWord(want, got string) bool { return want == "" || strings.EqualFold(want, got) }

// ID is the id of an invocation or a change: unique among all lines of all processes.
type ID struct{ number uint64 }

// idBytes is the size of the random part of ids: no two of 2^32 processes draw the same
// with a probability worth a thought.
const idBytes = 12

// ids makes the ids of one process: a random prefix, and a number.
type ids struct {
	prefix string
	last   atomic.Uint64
}

func newIDs(deterministic bool) *ids {
	var raw [idBytes]byte
	if !deterministic {
		_, _ = rand.Read(raw[:]) // it never fails
	}
	return &ids{prefix: hex.EncodeToString(raw[:]) + "-"}
}

func (i *ids) next() ID { return ID{i.last.Add(1)} }

func (i *ids) append(dst []byte, id ID) []byte {
	return strconv.AppendUint(append(dst, i.prefix...), id.number, 10)
}

// Schema is the name of the schema of a line.
const Schema = "outrigger.audit.v1"

const (
	lineOpen = `{"schema":"` + Schema + `","time":"`
	// timeLayout has a fixed width, so that lines compare as text.
	timeLayout = "2006-01-02T15:04:05.000000Z"
	// maxText bounds each text of a line. A longer one is cut, and ends in an ellipsis.
	maxText = 1024
)

// encoder encodes the lines of an audit trail.
type encoder struct {
	ids      *ids
	payloads bool
	redactor redact.Redactor
	limit    int
}

func (e *encoder) head(dst []byte, now time.Time, id ID, phase Phase, who *Caller) []byte {
	dst = now.UTC().AppendFormat(append(dst, lineOpen...), timeLayout)
	dst = e.ids.append(append(dst, `","id":"`...), id)
	dst = append(append(append(dst, `","phase":"`...), phase...), '"')
	dst = member(dst, `,"caller":{"name":`, who.Name)
	dst = member(dst, `,"subject":`, who.Subject)
	dst = member(dst, `,"issuer":`, who.Issuer)
	dst = member(dst, `,"client_id":`, who.ClientID)
	dst = member(dst, `,"source":`, who.Source)
	dst = member(dst, `,"address":`, who.Address)
	if who.Operator != "" {
		dst = member(dst, `,"operator":`, who.Operator)
	}
	return append(dst, '}')
}

// event writes a line about an invocation into dst. What is not known when it begins is null.
func (e *encoder) event(dst []byte, now time.Time, phase Phase, ev *Event) []byte {
	dst = e.head(dst, now, ev.ID, phase, &ev.Caller)
	dst = member(dst, `,"edge":`, ev.Edge)
	dst = member(dst, `,"route":`, ev.Route)
	dst = member(dst, `,"era":`, ev.Era)
	dst = member(dst, `,"operation":`, ev.Operation)
	dst = member(dst, `,"tool":`, ev.Tool)
	dst = member(dst, `,"target":`, ev.Target)
	dst = member(dst, `,"version":`, ev.Version)
	dst = member(dst, `,"fingerprint":`, ev.Fingerprint)
	dst = append(dst, `,"destructive":`...)
	if ev.Tool == "" {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendBool(dst, ev.Destructive)
	}
	if ev.Preview {
		dst = append(dst, `,"preview":true`...)
	}
	if ev.Program != nil {
		dst = e.program(dst, ev.Program)
	}
	dst = member(dst, `,"trust":`, ev.Trust)
	dst = member(dst, `,"decision":`, string(ev.Decision))
	dst = member(dst, `,"rule":`, ev.Rule)
	if phase == PhaseBegin {
		dst = append(dst, `,"code":null,"outcome":null,"cause":null,"duration_ms":null`...)
	} else {
		dst = member(dst, `,"code":`, ev.Code)
		dst = member(dst, `,"outcome":`, ev.Outcome)
		dst = member(dst, `,"cause":`, ev.Cause)
		dst = appendMillis(append(dst, `,"duration_ms":`...), ev.Duration)
	}
	dst = appendID(append(dst, `,"request_id":`...), ev.RequestID)
	dst = member(dst, `,"trace_id":`, ev.TraceID)
	dst = strconv.AppendInt(append(dst, `,"bytes_in":`...), int64(ev.BytesIn), 10)
	dst = append(dst, `,"bytes_out":`...)
	if phase == PhaseBegin {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, int64(ev.BytesOut), 10)
	}
	if e.payloads {
		dst = ev.Arguments.append(append(dst, `,"arguments":`...), e.redactor, e.limit)
		dst = append(dst, `,"result":`...)
		if phase == PhaseBegin {
			dst = append(dst, "null"...)
		} else {
			dst = ev.Result.append(dst, e.redactor, e.limit)
		}
	}
	return jsontext.Visible(append(dst, "}\n"...), 0)
}

// program writes the member about the program of an invocation.
func (e *encoder) program(dst []byte, p *Program) []byte {
	if p.Call == 0 {
		return append(member(append(dst, `,"program":{`...), `"digest":`, p.Digest), '}')
	}
	dst = e.ids.append(append(dst, `,"program":{"run":"`...), p.Run)
	dst = strconv.AppendInt(append(dst, `","call":`...), int64(p.Call), 10)
	dst = strconv.AppendInt(append(dst, `,"line":`...), int64(p.Line), 10)
	return append(strconv.AppendInt(append(dst, `,"column":`...), int64(p.Column), 10), '}')
}

func (e *encoder) change(dst []byte, now time.Time, id ID, c *Change) []byte {
	dst = e.head(dst, now, id, PhaseChange, &c.Who)
	dst = member(dst, `,"operation":`, c.Kind)
	dst = member(dst, `,"tool":`, c.Tool)
	dst = member(dst, `,"before":`, c.Before)
	dst = member(dst, `,"after":`, c.After)
	code := c.Code
	if code == "" {
		code = "OK"
	}
	dst = member(dst, `,"code":`, code)
	dst = member(dst, `,"detail":`, c.Detail)
	return jsontext.Visible(append(dst, "}\n"...), 0)
}

// member appends a name and its text, or null for an empty one.
func member(dst []byte, name, text string) []byte {
	dst = append(dst, name...)
	if text == "" {
		return append(dst, "null"...)
	}
	return jsontext.AppendString(dst, clipped(text, maxText))
}

// appendMillis appends a duration in milliseconds, with three digits behind the point.
func appendMillis(dst []byte, took time.Duration) []byte {
	us := max(took.Microseconds(), 0)
	dst = strconv.AppendInt(dst, us/1000, 10)
	us %= 1000
	return append(dst, '.', byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
}
