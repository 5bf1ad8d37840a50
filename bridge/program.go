// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/program"
	"github.com/outrigger-mcp/outrigger/internal/program/check"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// Programs bound the programs of [catalog.RunName].
type Programs struct {
	// Limits bound each of them.
	Limits program.Limits
	// MaxRunning is how many run at once, of which each caller has a share.
	MaxRunning int
	Share      peer.Rule
	// AskEach has users asked at each destructive call that asks, and not once before the run.
	AskEach bool
}

// programs runs programs. Each call of one is a request, which takes all steps of a call.
type programs struct {
	parts   *parts
	stats   *telemetry.Stats
	panics  *panics
	sealer  *keys.Sealer
	limits  program.Limits
	askEach bool
	running *peer.Ledger
	// cpu has a place for each program that computes. One that waits for its calls has none.
	cpu chan struct{}
	// call runs a request of a program.
	call func(ctx context.Context, req *Request) *Response
}

func newPrograms(p *parts, opts *Options, panics *panics, call func(context.Context, *Request) *Response) *programs {
	if opts.Programs == nil {
		return &programs{}
	}
	out := &programs{
		parts: p, stats: opts.Stats, panics: panics, sealer: opts.Sealer, limits: opts.Programs.Limits, askEach: opts.Programs.AskEach, call: call,
		running: peer.NewLedger(int64(opts.Programs.MaxRunning), opts.Programs.Share),
		// The other half is for calls: a program may use the CPU for as long as its steps take.
		cpu: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	if most := int64(opts.MaxResult); most > 0 {
		out.limits.Result = min(out.limits.Result, most)
	}
	return out
}

// Outcomes of programs, for the metric.
const (
	programOK      = "ok"
	programDry     = "dry_run"
	programRefused = "refused"
	programAsked   = "asked"
	programFailed  = "failed"
)

// run checks a program and runs it.
func (p *programs) run(ctx context.Context, c *toolCall) *errmap.Error {
	if p.call == nil {
		return errmap.Because(errmap.MethodNotFound, "this sidecar runs no programs")
	}
	if a := p.parts.admission; a.shed != nil && !c.req.Paced {
		if err := a.shed(); err != nil {
			return err
		}
	}
	switch p.running.Acquire(c.req.Caller) {
	case peer.ShareFull:
		return unavailable("too many programs are running (--program-max-running)")
	case peer.Over:
		return errmap.OverShare("this caller's programs exceed its share (--program-max-running, --caller-share)")
	case peer.Granted:
	}
	defer p.running.Release(c.req.Caller)
	timeout := p.limits.Time
	if c.req.Timeout > 0 {
		timeout = min(timeout, c.req.Timeout)
	}
	deadline, hasDeadline := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := &programRun{programs: p, outer: c, given: compact.ReadRun(c.arguments())}
	until, _ := ctx.Deadline()
	r.isOwnTime = timeout == p.limits.Time && (!hasDeadline || until.Before(deadline))
	defer r.pause()
	outcome, err := r.run(ctx)
	p.stats.Program(outcome, 1)
	return err
}

// programRun is one run of a program.
type programRun struct {
	*programs
	outer *toolCall
	given compact.Run
	// base is what all requests of the run have in common.
	base   Request
	id     trail.ID
	atMost int
	// isOwnTime is set where the time of programs ends before that of the caller.
	isOwnTime bool

	journal journal

	// computing guards isComputing: the run has a place in cpu.
	computing   sync.Mutex
	isComputing bool

	// mu guards what follows. active counts the calls under way; begun those that began.
	mu            sync.Mutex
	active, begun int
	// consented is how many more calls of a tool the user agreed to; negative: any number.
	consented map[string]int
	// pending are the calls that wait for an answer of the user or of others. With the first one the run stops: no further call begins,
	// and idle is closed when those under way have ended.
	pending []pendingCall
	idle    chan struct{}
	// events guards the order of events.
	events sync.Mutex
}

// pendingCall is a call that is made again when there is an answer.
type pendingCall struct {
	Number int `json:"n"`
	// State is that of its question, Approval the handle of its approval.
	State    []byte `json:"s,omitempty"`
	Approval string `json:"a,omitempty"`

	call  *program.Call
	asks  *outriggerv1.InputRequired
	waits *errmap.Error
}

func (r *programRun) run(ctx context.Context) (outcome string, failed *errmap.Error) {
	c := r.outer
	digest := sha256.Sum256([]byte(r.given.Program))
	if inv := c.req.invocation(); inv != nil {
		inv.mu.Lock()
		inv.event.Program = &trail.Program{Digest: "sha256:" + hex.EncodeToString(digest[:])}
		inv.mu.Unlock()
		r.id = inv.id
		if err := r.parts.auditor.recordCall(ctx, c); err != nil {
			return programRefused, err
		}
	}
	var err *errmap.Error
	if c.req, err = c.req.Complete(); err != nil {
		return programRefused, err
	}
	inputs, err := r.inputs()
	if err != nil {
		return programRefused, err
	}
	if err = r.resume(ctx); err != nil {
		return programRefused, err
	}
	r.begin()
	r.Resume(ctx)
	world := r.world(ctx)
	var plan []check.Planned
	parsed, findings := program.Parse(r.given.Program, r.limits)
	if len(findings) == 0 {
		plan, findings = parsed.Check(world, inputs)
	}
	switch {
	case r.given.IsDryRun:
		c.worked = true
		c.resp.Result = Payload{Bytes: r.dryRun(plan, findings)}
		return programDry, nil
	case len(findings) > 0:
		return programRefused, refusedProgram(c.tool.Name, findings)
	}
	r.atMost = r.mostCalls(plan)
	if isAsked, err := r.consent(ctx, plan); isAsked || err != nil {
		return outcomeOf(err, isAsked), err
	}
	if inv := c.req.invocation(); inv != nil {
		inv.mu.Lock()
		inv.isRunning, inv.event.Rule = true, c.resp.Decision.Rule
		inv.mu.Unlock()
	}
	out := parsed.Run(ctx, world, inputs, r)
	r.pause()
	return r.end(ctx, out)
}

// world is the catalog as the caller sees it. Its types are made once for all runs.
func (r *programRun) world(ctx context.Context) *check.World {
	cat := r.outer.catalog
	shared, _ := cat.Programs(func() any { return &check.World{Catalog: cat} }).(*check.World)
	return shared.For(func(t *catalog.Tool) *errmap.Error { return r.parts.directory.mayUse(ctx, t) })
}

func outcomeOf(err *errmap.Error, isAsked bool) string {
	if err == nil && isAsked {
		return programAsked
	}
	return programRefused
}

// inputs are the inputs as a JSON object.
func (r *programRun) inputs() ([]byte, *errmap.Error) {
	switch given := r.given.Inputs; {
	case given == nil:
		return emptyObject, nil
	case compact.IsObject(given):
		return given, nil
	default:
		if inputs := transcode.UnquoteObject(given); inputs != nil {
			return inputs, nil
		}
	}
	return nil, errmap.InvalidInput(r.outer.tool.Name, true, errmap.Violation{
		Path: "/" + catalog.InputsArgument, Keyword: "type", Message: "want a JSON object, or a string that holds one",
	})
}

// begin makes what the requests of the run have in common.
func (r *programRun) begin() {
	from := r.outer.req
	r.base = Request{
		Op: OpCall, Origin: from.Origin, ID: from.ID, Through: from.Tool, Protocol: from.Protocol, Paced: from.Paced, Header: from.Header, Caller: from.Caller,
		Peer: from.Peer, Transport: from.Transport, Route: from.Route, Era: from.Era, Revision: from.Revision, Meta: from.Meta, console: from.console,
	}
	if from.Context != nil {
		r.base.Context = proto.CloneOf(from.Context)
		r.base.Context.ProgressToken = nil
		if r.base.Context.Capabilities != nil {
			r.base.Context.Capabilities.Tasks = false // a program has no use for the id of one
		}
	}
	if _, ok := from.Header[backend.ApprovalHeader]; ok {
		r.base.Header = from.Header.Clone()
		delete(r.base.Header, backend.ApprovalHeader)
	}
}

// mostCalls is how many calls the plan has at most, within the limit of the run.
func (r *programRun) mostCalls(plan []check.Planned) int {
	n := 0
	for _, p := range plan {
		if p.AtMost < 0 || p.AtMost > r.limits.Calls {
			return r.limits.Calls
		}
		n += p.AtMost
	}
	return min(n, r.limits.Calls)
}

// maxFindings bounds the faults that an error lists.
const maxFindings = 100

// refusedProgram is the error for a program with faults.
func refusedProgram(tool string, findings []check.Finding) *errmap.Error {
	var faults []errmap.Violation
	for i, f := range findings {
		if i == maxFindings {
			break
		}
		faults = append(faults, errmap.Violation{Path: "/" + catalog.ProgramArgument, Keyword: f.Rule, Message: textOf(f)})
	}
	err := errmap.InvalidInput(tool, true, faults...)
	err.Advice = "Nothing was called. Correct the program and run it again."
	return err
}

// textOf is a fault with its place.
func textOf(f check.Finding) string {
	text := fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Message)
	if f.Instead != "" {
		text += "; write " + f.Instead
	}
	return text
}

// dryRun is the result of a check.
func (r *programRun) dryRun(plan []check.Planned, findings []check.Finding) []byte {
	type fault struct {
		Line    int    `json:"line"`
		Column  int    `json:"column"`
		Rule    string `json:"rule"`
		Message string `json:"message"`
		Instead string `json:"instead,omitempty"`
	}
	type planned struct {
		Tool          string   `json:"tool"`
		AtMost        int      `json:"atMost"`
		IsDestructive bool     `json:"destructive,omitempty"`
		Places        []string `json:"places"`
	}
	out := struct {
		Findings []fault   `json:"findings"`
		Plan     []planned `json:"plan"`
	}{[]fault{}, []planned{}}
	for _, f := range findings {
		out.Findings = append(out.Findings, fault(f))
	}
	for _, p := range plan {
		one := planned{Tool: p.Tool.Name, AtMost: r.most(p), IsDestructive: p.Tool.Metadata.Destructive, Places: []string{}}
		for _, at := range p.Places {
			one.Places = append(one.Places, fmt.Sprintf("%d:%d", at.Line, at.Col))
		}
		out.Plan = append(out.Plan, one)
	}
	return encoded(out)
}

// most is how often a tool may be called.
func (r *programRun) most(p check.Planned) int {
	if p.AtMost < 0 {
		return r.limits.Calls
	}
	return min(p.AtMost, r.limits.Calls)
}

// encoded is the JSON of what has one.
func encoded(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// consent asks the user about all destructive calls of the plan that would ask, before the run, and refuses a program with one that
// could not even ask.
func (r *programRun) consent(ctx context.Context, plan []check.Planned) (isAsked bool, failed *errmap.Error) {
	var ask []check.Planned
	for _, p := range plan {
		probe := &toolCall{req: r.request(&program.Call{Tool: p.Tool}), tool: p.Tool}
		failed = r.parts.gatekeeper.gate(ctx, probe)
		switch {
		case failed != nil && p.Tool.Preview != nil:
			failed = nil // the call may be a preview
		case failed != nil:
			failed = failed.InProgram(p.Tool.Name, int(p.Places[0].Line), int(p.Places[0].Col))
			for _, at := range p.Places {
				failed.Violations = append(failed.Violations, errmap.Violation{
					Path: "/" + catalog.ProgramArgument, Keyword: "destructive", Message: fmt.Sprintf("line %d, column %d: %s", at.Line, at.Col, p.Tool.Name),
				})
			}
			return false, failed
		case probe.blocked != nil && !probe.isFirm:
			ask = append(ask, p)
		}
	}
	if r.askEach || len(ask) == 0 || r.journal.Granted != nil {
		return false, nil
	}
	if asked := r.journal.Asked; asked != nil {
		if answer := r.outer.req.InputResponses[confirmKey].GetElicitation(); answer != nil {
			if yes, fault := content.Consents(answer); !yes {
				refused := unconsented(r.outer.tool.Name, answer, fault)
				refused.Message = strings.ReplaceAll(refused.Message, "Destructive tool blocked:", "Destructive tool blocked: the program was not run,")
				return false, refused
			}
			r.journal.Granted, r.journal.Asked = asked, nil
			r.consented = maps.Clone(asked)
			if inv := r.outer.req.invocation(); inv != nil {
				inv.consented = true
			}
			return false, nil
		}
	}
	r.journal.Asked = map[string]int{}
	for _, p := range ask {
		r.journal.Asked[p.Tool.Name] = r.most(p)
	}
	return true, r.ask(ctx, map[string]*outriggerv1.InputRequest{confirmKey: content.AskConsentTo(r.question(ask))})
}

const (
	// maxAskedPlaces bounds the places of a question, and maxAskedLine what it shows of the line of one, in bytes.
	maxAskedPlaces = 10
	maxAskedLine   = 200
)

// question lists destructive calls for the user.
func (r *programRun) question(ask []check.Planned) string {
	lines := strings.Split(r.given.Program, "\n")
	var out strings.Builder
	out.WriteString("A program may call tools that are marked destructive: their changes may be irreversible.")
	for _, p := range ask {
		fmt.Fprintf(&out, "\n%s (%s), at most %d times:", p.Tool.Name, p.Tool.Title, r.most(p))
		for i, at := range p.Places {
			if i == maxAskedPlaces {
				fmt.Fprintf(&out, " and at %d more places", len(p.Places)-i)
				break
			}
			text := ""
			if n := int(at.Line) - 1; n >= 0 && n < len(lines) {
				text = shownLine(lines[n])
			}
			fmt.Fprintf(&out, "\n  line %d: %s", at.Line, text)
		}
	}
	out.WriteString("\nRun it?")
	return out.String()
}

// shownLine is a line of a program for the user.
func shownLine(line string) string {
	line = strings.Map(func(c rune) rune {
		if unicode.IsGraphic(c) {
			return c
		}
		return ' '
	}, strings.TrimSpace(line))
	return content.CutText(line, maxAskedLine)
}

// ask ends the round with a question.
func (r *programRun) ask(_ context.Context, asks map[string]*outriggerv1.InputRequest) *errmap.Error {
	text, err := r.sealable(maxInlineState)
	if err != nil {
		return err
	}
	// It counts once: what comes after the journal would be called again.
	sealed, err := r.parts.rounds.sealState(r.outer.req.Caller, r.outer.digest(), state{asked: true, asker: r.outer.req.Span.Context(), backend: text})
	if err != nil {
		return err
	}
	r.outer.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{
		InputRequired: &outriggerv1.InputRequired{RequestState: sealed, InputRequests: asks},
	}}
	return nil
}

// end is what has become of the run.
func (r *programRun) end(ctx context.Context, out *program.Outcome) (outcome string, failed *errmap.Error) {
	r.outer.view = policy.KeptAs(r.journal.kept()) // for what is held of it
	if len(r.pending) > 0 {
		return r.await(ctx, out)
	}
	ran := ranOf(out.Calls)
	if out.Err == nil {
		result := out.Result
		if result == nil {
			result = []byte("null")
		}
		r.outer.worked = true
		r.outer.resp.Result = Payload{Bytes: encoded(struct {
			Result json.RawMessage `json:"result"`
			Ran    []ranTool       `json:"ran"`
		}{result, ran})}
		return programOK, nil
	}
	return programFailed, r.cut(ctx, out, ran)
}

// ranTool is what was called of a tool.
type ranTool struct {
	Tool   string `json:"tool"`
	Calls  int    `json:"calls"`
	Failed int    `json:"failed,omitempty"`
}

func ranOf(calls []program.Made) []ranTool {
	out, at := []ranTool{}, map[string]int{}
	for _, made := range calls {
		name := made.Call.Tool.Name
		i, ok := at[name]
		if !ok {
			i, at[name] = len(out), len(out)
			out = append(out, ranTool{Tool: name})
		}
		out[i].Calls++
		if made.Err != nil {
			out[i].Failed++
		}
	}
	return out
}

// cut is the error of a run that ended early, with what had run and where what it had read can be found.
func (r *programRun) cut(ctx context.Context, out *program.Outcome, ran []ranTool) *errmap.Error {
	failed := *out.Err
	if call := out.Failed; call != nil {
		failed = *failed.InProgram(call.Tool.Name, call.Line, call.Column)
	}
	if isOver := errors.Is(context.Cause(ctx), context.DeadlineExceeded); isOver && (failed.Code == errmap.Cancelled || failed.Code == errmap.Timeout) {
		failed = *errmap.New(errmap.Timeout)
		if r.isOwnTime {
			failed = *program.TimedOut(r.limits.Time)
		}
	}
	about := struct {
		Ran    []ranTool `json:"ran"`
		Line   int       `json:"line,omitempty"`
		Column int       `json:"column,omitempty"`
		URI    string    `json:"uri,omitempty"`
		Until  string    `json:"until,omitempty"`
	}{Ran: ran, Line: out.Line, Column: out.Column}
	if data := r.journal.read(); len(ran) > 0 && data != nil {
		reduction := &content.Reduction{}
		r.parts.decoder.holdWhole(r.outer, reduction, data)
		if about.URI = reduction.URI; about.URI != "" {
			about.Until = reduction.Until.UTC().Format(time.RFC3339)
		}
	}
	for _, made := range out.Calls {
		if again := false; !made.Call.Tool.IsIdempotent() {
			failed.Retryable, failed.RetryAfter = &again, 0 // it would run twice
		}
	}
	failed.Partial, failed.PartialIs = encoded(about), "The program ended at this place. These calls had run, and no others"
	if about.URI != "" {
		failed.PartialIs += "; their results can be read from uri"
	}
	return &failed
}

// await ends the round of a run of which calls wait for answers: with their questions, or else with the error that says that others
// have to approve.
func (r *programRun) await(ctx context.Context, out *program.Outcome) (outcome string, failed *errmap.Error) {
	asks := map[string]*outriggerv1.InputRequest{}
	var waits *errmap.Error
	for _, p := range r.pending {
		for key, q := range p.asks.GetInputRequests() {
			asks[fmt.Sprintf("%d.%s", p.Number, key)] = q
		}
		if p.waits != nil && waits == nil {
			waits = p.waits.InProgram(p.call.Tool.Name, p.call.Line, p.call.Column)
		}
	}
	r.journal.Pending = r.pending
	if waits == nil || len(asks) > 0 {
		if failed = r.ask(ctx, asks); failed != nil {
			return programFailed, r.cut(ctx, &program.Outcome{Err: failed, Calls: out.Calls, Line: out.Line, Column: out.Column}, ranOf(out.Calls))
		}
		return programAsked, nil
	}
	text, failed := r.sealable(maxInlineHandle)
	if failed != nil {
		return programFailed, r.cut(ctx, &program.Outcome{Err: failed, Calls: out.Calls, Line: out.Line, Column: out.Column}, ranOf(out.Calls))
	}
	handle, err := r.sealer.Seal(r.handleBinding(), text)
	if err != nil {
		return programFailed, errmap.Wrap(errmap.InternalError, err)
	}
	asked := *waits
	asked.Handle = handle
	return programAsked, &asked
}

// handleTTL is how long the handle of a program opens that waits for an approval. The approval has its own time.
const handleTTL = 24 * time.Hour

func (r *programRun) handleBinding() keys.Binding {
	return keys.Binding{Purpose: "program-approval", Principal: r.outer.req.Caller, Digest: r.outer.digest(), TTL: handleTTL}
}

// request is the request of a call of the program.
func (r *programRun) request(call *program.Call) *Request {
	req := r.base
	req.Tool, req.Arguments.Bytes = call.Tool.Name, call.Arguments
	req.part = &part{program: trail.Program{Run: r.id, Call: call.Number, Line: call.Line, Column: call.Column}}
	if key := backend.IdempotencyKey(req.Header); key != "" {
		// One key is for one call. A program makes the same calls with the same numbers each time.
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d", key, call.Number))
		req.Header = req.Header.Clone()
		req.Header[backend.IdempotencyHeader] = []string{hex.EncodeToString(sum[:])}
	}
	return &req
}

// Call implements [program.Host].
func (r *programRun) Call(ctx context.Context, call *program.Call) (result []byte, failed *errmap.Error) {
	defer func() {
		if p := recover(); p != nil {
			result, failed = nil, r.panics.recovered(p, zap.String(logkey.CanonicalTool, call.Tool.Name))
		}
	}()
	digest := requestDigest(OpCall, call.Tool.Name, call.Arguments)
	isConsented := r.isConsented(call.Tool.Name)
	if result, failed, ok := r.journal.replay(r.outer.req, call.Number, digest[:]); ok {
		return result, failed
	}
	if !r.enter() {
		return nil, r.stopped(ctx)
	}
	req := r.request(call)
	req.part.isConsented = isConsented
	if until, ok := ctx.Deadline(); ok {
		req.Timeout = max(time.Until(until), time.Millisecond)
	}
	r.answer(req, call.Number)
	req.Events = r.passOn(ctx)
	r.progress(ctx, call)
	req.Span = r.outer.req.Span.Part("execute_tool")
	r.journal.saw(call.Tool.Name, r.parts.rulebook.kept(ctx, call.Tool))
	resp := r.call(ctx, req)
	EndSpan(req.Span, resp, req.Protocol, resp.About(nil))
	result, failed, wait := r.outcome(resp)
	if wait == nil {
		r.journal.add(call, digest[:], result, failed)
		r.leave(nil)
		return result, failed
	}
	wait.Number, wait.call = call.Number, call
	r.leave(wait)
	return nil, r.stopped(ctx)
}

// isConsented takes one of the calls of a tool that the user agreed to.
func (r *programRun) isConsented(tool string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.consented[tool]
	if !ok || n == 0 {
		return false
	}
	r.consented[tool] = n - 1
	return true
}

// answer gives a call that is made again the answers to its questions.
func (r *programRun) answer(req *Request, number int) {
	for _, p := range r.journal.Pending {
		if p.Number != number {
			continue
		}
		if p.Approval != "" {
			req.Header = req.Header.Clone()
			if req.Header == nil {
				req.Header = map[string][]string{}
			}
			req.Header[backend.ApprovalHeader] = []string{p.Approval}
		}
		prefix := fmt.Sprintf("%d.", number)
		for key, answer := range r.outer.req.InputResponses {
			if rest, ok := strings.CutPrefix(key, prefix); ok {
				if req.InputResponses == nil {
					req.InputResponses = map[string]*outriggerv1.InputResponse{}
				}
				req.InputResponses[rest] = answer
			}
		}
		req.RequestState, req.Repeated = p.State, p.Approval == ""
	}
}

// outcome is the result of a call, or what it waits for.
func (r *programRun) outcome(resp *Response) (result []byte, failed *errmap.Error, wait *pendingCall) {
	defer resp.Release(r.parts.decoder.buffers)
	if failed = resp.Err; failed != nil {
		if failed.Code == errmap.ApprovalRequired && failed.Handle != "" {
			return nil, nil, &pendingCall{Approval: failed.Handle, waits: failed}
		}
		return nil, failed, nil
	}
	if in := resp.inputRequired(); in != nil {
		return nil, nil, &pendingCall{State: in.GetRequestState(), asks: in}
	}
	if resp.Outcome.GetTask() != nil {
		return nil, errmap.Because(errmap.InvalidToolOutput, "the tool answered with a task, for which a program cannot wait"), nil
	}
	if done := resp.Outcome.GetResult(); done.GetStatus() == content.StatusFailure {
		failed = errmap.New(errmap.ToolExecutionFailed, errmap.Message(done.GetError().GetErrorMessage()))
		failed.BackendCode = "unknown"
		return nil, failed, nil
	}
	return bytes.Clone(resp.JSON()), nil, nil
}

// enter begins a call, unless the run has stopped.
func (r *programRun) enter() bool {
	r.mu.Lock()
	isOver := r.idle != nil
	if !isOver {
		r.active++
	}
	r.mu.Unlock()
	if !isOver {
		r.pause()
	}
	return !isOver
}

// leave ends a call. Where that waits for an answer, the run stops.
func (r *programRun) leave(wait *pendingCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait != nil {
		r.pending = append(r.pending, *wait)
		if r.idle == nil {
			r.idle = make(chan struct{})
		}
	}
	if r.active--; r.active == 0 && r.idle != nil {
		close(r.idle)
	}
}

// stopped ends a call that does not run because the run has stopped. It returns when the calls under way have ended, because what comes
// back from here cancels them.
func (r *programRun) stopped(ctx context.Context) *errmap.Error {
	select {
	case <-r.idle:
	case <-ctx.Done():
	}
	return errmap.New(errmap.Cancelled)
}

// pause gives the place in cpu back, if the run has it.
func (r *programRun) pause() {
	r.computing.Lock()
	defer r.computing.Unlock()
	if r.isComputing {
		r.isComputing = false
		<-r.cpu
	}
}

// Resume implements [program.Host]. It waits for a place in cpu, if the run has none. A run that has ended goes on without one, to its end.
func (r *programRun) Resume(ctx context.Context) {
	r.computing.Lock()
	defer r.computing.Unlock()
	if r.isComputing {
		return
	}
	select {
	case r.cpu <- struct{}{}:
		r.isComputing = true
	case <-ctx.Done():
	}
}

// passOn is what takes the events of a call. The messages for logs go on to the caller. Progress of one call says nothing about the
// program, which reports its own.
func (r *programRun) passOn(ctx context.Context) func(*outriggerv1.ToolEvent) {
	events := r.outer.events(ctx)
	if events == nil {
		return nil
	}
	return func(e *outriggerv1.ToolEvent) {
		if e.GetLog() == nil {
			return
		}
		r.events.Lock()
		defer r.events.Unlock()
		events(e)
	}
}

// progress reports that a call begins.
func (r *programRun) progress(ctx context.Context, call *program.Call) {
	events := r.outer.events(ctx)
	if events == nil {
		return
	}
	r.events.Lock()
	defer r.events.Unlock()
	r.mu.Lock()
	r.begun++
	begun := r.begun
	r.mu.Unlock()
	events(&outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Progress{Progress: &outriggerv1.Progress{
		Progress: float64(begun), Total: proto.Float64(math.Max(float64(r.atMost), float64(begun))),
		Message: fmt.Sprintf("call %d of at most %d: %s", begun, max(r.atMost, begun), call.Tool.Name),
	}}})
}
