// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// Options say where answers come from.
type Options struct {
	// Recording has recorded calls; nil for none.
	Recording *Recording
	Match     Match
	// Latency: an answer takes as long as it took when it was recorded.
	Latency bool
	// Invents: what was not recorded is invented. Seed is what inventions depend on besides the call.
	Invents bool
	Seed    uint64
	// Catalog returns the current catalog, nil before the first.
	Catalog func() *catalog.Catalog
}

// Upstream is a bridge.Upstream that answers without a backend. Make one with [New].
type Upstream struct {
	opts Options

	mu    sync.Mutex
	index *index // of the newest catalog that was asked for
}

// New returns an Upstream.
func New(o Options) *Upstream { return &Upstream{opts: o} }

// Close closes the recording.
func (u *Upstream) Close() error {
	if u == nil || u.opts.Recording == nil {
		return nil
	}
	return u.opts.Recording.Close()
}

// current returns the index for the current catalog.
func (u *Upstream) current() *index {
	cat := u.opts.Catalog()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.index == nil || u.index.catalog != cat {
		u.index = newIndex(u.opts.Recording, cat)
	}
	return u.index
}

// find finds the messages that answer a call.
func (u *Upstream) find(ctx context.Context, m *catalog.Method, wires [][]byte) ([][]byte, *errmap.Error) {
	x := u.current()
	if x.catalog == nil {
		return nil, errmap.New(errmap.Unavailable)
	}
	tool, _ := x.catalog.ByProcedure(m.Procedure)
	args, err := argumentsOf(m, tool, x.catalog.Types(), wires)
	if err != nil {
		return nil, errmap.Wrap(errmap.SerializationError, err)
	}
	if found := u.choose(x, args); found != nil {
		return u.read(ctx, x, m, found)
	}
	if u.opts.Invents {
		return u.invent(ctx, x, m, args)
	}
	name := strings.TrimPrefix(m.Procedure, "/")
	if tool != nil {
		name = tool.Name
	}
	return nil, u.nothing(x, name, args)
}

// choose chooses the recorded call that answers; nil for none.
func (u *Upstream) choose(x *index, args *arguments) *record {
	if same := x.same[args.key]; same != nil {
		return same.next()
	}
	if u.opts.Match == MatchExact || u.opts.Recording == nil {
		return nil
	}
	near := x.nearest(args, u.opts.Match == MatchFuzzy)
	if len(near) == 0 {
		return nil
	}
	return near[0].next()
}

// nothing is the error of a call that nothing was recorded for.
func (u *Upstream) nothing(x *index, name string, args *arguments) *errmap.Error {
	text := "no call of " + name + " was recorded"
	if near := x.nearest(args, false); len(near) > 0 {
		text = fmt.Sprintf("no call of %s with such arguments was recorded (--replay-match %s); the nearest are", name, u.opts.Match)
		for i, one := range near[:min(len(near), maxNearest)] {
			text += strings.Repeat(",", min(i, 1)) + " " + u.input(one)
		}
	}
	return errmap.FromBackendStatus(connect.CodeNotFound, text, nil)
}

// Bounds of the text about what was not recorded.
const (
	maxNearest      = 3
	maxNearestBytes = 300
)

// input is the recorded input of a group of calls.
func (u *Upstream) input(g *group) string {
	l, err := u.opts.Recording.line(g.records[0].call)
	if err != nil {
		return "(unreadable)"
	}
	if len(l.Input) > maxNearestBytes {
		return strings.ToValidUTF8(string(l.Input[:maxNearestBytes]), "") + "…"
	}
	return string(l.Input)
}

// read reads the answer of a recorded call.
func (u *Upstream) read(ctx context.Context, x *index, m *catalog.Method, found *record) ([][]byte, *errmap.Error) {
	l, failed := u.recall(ctx, x, found)
	if failed != nil {
		return nil, failed
	}
	messages, err := x.output(m, found.tool, l.Output)
	if err != nil {
		return nil, errmap.Wrap(errmap.InvalidToolOutput, err)
	}
	return messages, nil
}

// recall reads a recorded call that has a result, once its time is over, or returns the error that it has.
func (u *Upstream) recall(ctx context.Context, x *index, found *record) (*line, *errmap.Error) {
	if u.opts.Latency {
		if err := wait(ctx, found.call.took); err != nil {
			return nil, err
		}
	}
	if found.drift != "" {
		return nil, errmap.New(errmap.InvalidToolOutput, errmap.WithViolations(errmap.Violation{
			Keyword: "replay", Message: "the recorded call does not fit the descriptors of today: " + found.drift,
		}))
	}
	l, err := u.opts.Recording.line(found.call)
	if err != nil {
		return nil, errmap.Wrap(errmap.Unavailable, err, errmap.Message("Tool service unavailable: the recording cannot be read"))
	}
	if l.Error != nil {
		return nil, l.Error.canonical(x.catalog.Types())
	}
	return l, nil
}

// wait waits for a time, as long as the call lasts.
func wait(ctx context.Context, d time.Duration) *errmap.Error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// ended is the error of a call whose context has ended.
func ended(ctx context.Context) *errmap.Error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errmap.Wrap(errmap.Timeout, context.Cause(ctx))
	}
	return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
}

// canonical is the error that was recorded.
func (f *failure) canonical(types *catalog.Types) *errmap.Error {
	var details []*anypb.Any
	for _, raw := range f.Data.Details {
		if one := detail(raw, types); one != nil {
			details = append(details, one)
		}
	}
	out := errmap.New(errmap.Code(f.Data.Code), errmap.Message(f.Message))
	out.Details = details
	if out.Code == errmap.ToolExecutionFailed {
		status := &backend.Error{Kind: backend.KindStatus, Code: connect.CodeUnknown, PeerStatus: f.Data.BackendStatus, Message: f.Message, Details: details}
		_ = status.Code.UnmarshalText([]byte(f.Data.BackendCode)) // else it stays unknown
		code := status.Code
		if status.PeerStatus != 0 {
			code = connect.Code(status.PeerStatus)
		}
		// Typed callers get the status as the backend sent it.
		out = errmap.FromBackendStatus(code, "", details).WithCause(status)
		out.Message = f.Message
	}
	out.Retryable, out.RetryAfter = f.Data.Retryable, time.Duration(min(f.Data.RetryAfterMs, maxTook.Milliseconds()))*time.Millisecond
	return out
}

// detail reads a detail of an error; nil if it is none.
func detail(raw json.RawMessage, types *catalog.Types) *anypb.Any {
	out := new(anypb.Any)
	if (protojson.UnmarshalOptions{Resolver: types}).Unmarshal(raw, out) == nil {
		return out
	}
	var bytes struct {
		URL   string `json:"@type"`
		Value []byte `json:"value"`
	}
	if json.Unmarshal(raw, &bytes) != nil || bytes.URL == "" {
		return nil
	}
	return &anypb.Any{TypeUrl: bytes.URL, Value: bytes.Value}
}

// Call implements bridge.Upstream.
func (u *Upstream) Call(ctx context.Context, m *catalog.Method, in []byte, _ http.Header) (*backend.Answer, *errmap.Error) {
	found, err := u.find(ctx, m, [][]byte{in})
	if err != nil {
		return nil, err
	}
	return &backend.Answer{Body: found[0]}, nil
}

// Stream implements bridge.Upstream.
func (u *Upstream) Stream(ctx context.Context, m *catalog.Method, in []byte, _ http.Header, each func([]byte) error) (*backend.Answer, *errmap.Error) {
	found, err := u.find(ctx, m, [][]byte{in})
	if err != nil {
		return nil, err
	}
	for _, message := range found {
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		if err := each(message); err != nil {
			return nil, errmap.Wrap(errmap.Cancelled, err)
		}
	}
	return &backend.Answer{}, nil
}

// Open implements bridge.Upstream. The answer comes when the input has ended.
func (u *Upstream) Open(ctx context.Context, m *catalog.Method, _ http.Header) (backend.OpenRPC, *errmap.Error) {
	own, stop := context.WithCancel(ctx)
	return &stream{upstream: u, method: m, ctx: own, stop: stop, sent: make(chan struct{})}, nil
}

// maxSent bounds the bytes of the messages of one stream.
const maxSent = 64 << 20

// stream is an open RPC. It collects what is sent, and answers at the end of it.
type stream struct {
	upstream *Upstream
	method   *catalog.Method
	ctx      context.Context
	stop     context.CancelFunc

	mu    sync.Mutex
	input [][]byte
	size  int
	over  bool // the input has ended
	sent  chan struct{}

	// What follows belongs to the receiver.
	isFound bool
	found   [][]byte
	err     *errmap.Error
}

// Send implements [backend.OpenRPC].
func (s *stream) Send(message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil || s.over:
		return io.EOF
	case s.size+len(message) > maxSent:
		return errmap.Because(errmap.PayloadTooLarge, fmt.Sprintf("a replay takes streams of at most %d bytes", maxSent))
	}
	s.input = append(s.input, slices.Clone(message))
	s.size += len(message)
	return nil
}

// CloseSend implements [backend.OpenRPC].
func (s *stream) CloseSend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.over = true
		close(s.sent)
	}
}

// Receive implements [backend.OpenRPC].
func (s *stream) Receive() ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	if !s.isFound {
		select {
		case <-s.sent:
		case <-s.ctx.Done():
			s.err = ended(s.ctx)
			return nil, s.err
		}
		if s.found, s.err = s.upstream.find(s.ctx, s.method, s.input); s.err != nil {
			return nil, s.err
		}
		s.isFound = true
	}
	if len(s.found) == 0 {
		return nil, io.EOF
	}
	next := s.found[0]
	s.found = s.found[1:]
	return next, nil
}

// Header implements [backend.OpenRPC].
func (*stream) Header() (http.Header, bool) { return nil, true }

// Trailer implements [backend.OpenRPC].
func (*stream) Trailer() http.Header { return nil }

// Close implements [backend.OpenRPC].
func (s *stream) Close() { s.stop() }

// index is a recording for one catalog.
type index struct {
	catalog *catalog.Catalog
	same    map[key]*group
	// natives are the native tools, by the names that their backend has for them.
	natives map[string]*catalog.Tool
	// groups are the different arguments of each procedure and of each native tool, in the order in which they were recorded first.
	groups map[string][]*group
	leaves int
	summary
}

// maxAllLeaves bounds the values that are kept for comparison: some 100 MB. Calls beyond it answer the same arguments only.
const maxAllLeaves = 4_000_000

// group are the recorded calls with the same arguments.
type group struct {
	leaves    []leaf
	isPreview bool
	records   []*record

	mu sync.Mutex
	at int
}

// next returns the calls in their order, and then the last one again.
func (g *group) next() *record {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.records[min(g.at, len(g.records)-1)]
	g.at++
	return out
}

// record is one recorded call of a tool of the catalog.
type record struct {
	call  *call
	tool  *catalog.Tool
	drift string // why it does not fit; empty where it does
}

// maxCompared bounds the groups that one call is compared with, the newest first.
const maxCompared = 10_000

// nearest returns the groups of the same procedure or native tool whose arguments differ least from others, the best first.
func (x *index) nearest(args *arguments, sameThing bool) []*group {
	type ranked struct {
		group *group
		rank  int
	}
	var found []ranked
	all := x.groups[args.of]
	for _, g := range slices.Backward(all[max(0, len(all)-maxCompared):]) {
		if rank, other := differences(args.leaves, g.leaves); g.isPreview == args.isPreview && (!sameThing || other == 0) {
			found = append(found, ranked{g, rank})
		}
	}
	slices.SortStableFunc(found, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	out := make([]*group, len(found))
	for i := range found {
		out[i] = found[i].group
	}
	return out
}

// newIndex reads a recording for a catalog. Both may be nil.
func newIndex(r *Recording, cat *catalog.Catalog) *index {
	x := &index{catalog: cat, same: map[key]*group{}, groups: map[string][]*group{}, natives: map[string]*catalog.Tool{}}
	if cat != nil {
		for _, tool := range cat.All() {
			if tool.Native {
				x.natives[tool.NativeName] = tool
			}
		}
	}
	if r == nil || cat == nil {
		return x
	}
	x.unfinished, x.bad = r.unfinished, r.bad
	for i := range r.calls {
		x.add(r, &r.calls[i])
	}
	return x
}

// add adds a call, or notes why it cannot answer.
func (x *index) add(r *Recording, c *call) {
	tool, ok := x.catalog.Lookup(c.tool)
	if !ok {
		x.note(c, gone, "")
		return
	}
	l, err := r.line(c)
	switch {
	case err != nil:
		x.note(c, unreadable, err.Error())
		return
	case isOmitted(l.Input) || isOmitted(l.Output):
		x.note(c, omitted, "")
		return
	case l.Error == nil && l.Output == nil:
		x.note(c, withoutAnswer, "")
		return
	case l.Error != nil && decidedHere(l.Error.Data.Code):
		x.note(c, refused, "")
		return
	}
	if tool.Native {
		x.addNative(c, l, tool)
		return
	}
	if l.Preview && tool.Preview == nil {
		x.note(c, driftedInput, "the tool has no preview any more")
		return
	}
	wires, err := input(tool, x.catalog.Types(), l.Input)
	if l.Preview && err == nil {
		wires[0] = tool.Preview.Request(nil, wires[0])
		if by := tool.Preview.Tool; by != nil {
			tool = by
		}
	}
	var args *arguments
	if err == nil {
		args, err = argumentsOf(tool.Method, tool, x.catalog.Types(), wires)
	}
	if err != nil {
		x.note(c, driftedInput, err.Error())
		return
	}
	one := &record{call: c, tool: tool}
	if l.Error == nil && !x.answers(one, l.Output) {
		return
	}
	x.keep(one, args)
	if l.lacksValues() {
		x.note(c, lacksValues, "")
	}
}

// lacksValues reports whether the record left something out that is secret.
func (l *line) lacksValues() bool {
	return strings.Contains(string(l.Input)+string(l.Output), `"`+redacted+`"`)
}

// answers notes what is the matter with the output of a call, and reports whether the call can answer all the same.
func (x *index) answers(one *record, output json.RawMessage) bool {
	_, err := x.output(one.tool.Method, one.tool, output)
	var why lackingError
	switch {
	case errors.As(err, &why):
		x.note(one.call, why.reason, "")
		return false
	case err != nil:
		one.drift = err.Error()
		x.note(one.call, drifted, one.drift)
	}
	return true
}

// keep keeps a call by its arguments.
func (x *index) keep(one *record, args *arguments) {
	g := x.same[args.key]
	if g == nil {
		g = &group{leaves: args.leaves, isPreview: args.isPreview}
		x.same[args.key] = g
		if x.leaves += len(g.leaves); x.leaves <= maxAllLeaves {
			x.groups[args.of] = append(x.groups[args.of], g)
		} else {
			g.leaves = nil
		}
	}
	g.records = append(g.records, one)
	x.kept++
}

// isOmitted reports whether a record has a note in the place of a payload.
func isOmitted(raw json.RawMessage) bool {
	return strings.HasPrefix(string(raw), `{"dev.outrigger/omitted":`)
}

// decidedHere reports whether a code says what the sidecar found before it called the backend, or what became of the caller. That is
// decided anew.
func decidedHere(code string) bool {
	switch errmap.Code(code) {
	case errmap.InvalidToolInput, errmap.PermissionDenied, errmap.DestructiveBlocked, errmap.RateLimited, errmap.Unauthenticated,
		errmap.InvalidAuthorization, errmap.Cancelled, errmap.MissingClientCapability, errmap.PayloadTooLarge, errmap.ApprovalRequired, errmap.InvalidParams:
		return true
	}
	_, err := errmap.Lookup(errmap.Code(code))
	return err != nil
}

// maxItems bounds the messages of one recorded stream.
const maxItems = 100_000

// input is what a recorded call sent.
func input(tool *catalog.Tool, types *catalog.Types, raw json.RawMessage) ([][]byte, error) {
	if !tool.TakesStream() {
		wire, err := tool.In.ToWire(nil, raw)
		if err != nil { // a secret that was left out may break a rule
			if wire, other := fromJSON(tool.Method.Descriptor.Input(), types, raw); other == nil {
				return [][]byte{wire}, nil
			}
			return nil, err
		}
		return [][]byte{wire}, nil
	}
	header, items, err := tool.Stream.Split(raw, maxItems)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	if header != nil {
		wire, err := tool.Stream.HeaderToWire(context.Background(), nil, header)
		if err != nil {
			return nil, err
		}
		out = append(out, wire)
	}
	for i, item := range items {
		wire, err := tool.Stream.ItemToWire(context.Background(), nil, nil, i, item)
		if err != nil {
			return nil, err
		}
		out = append(out, wire)
	}
	return out, nil
}
