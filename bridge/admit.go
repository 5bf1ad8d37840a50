// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
)

// admission lets calls run as far as there is room.
type admission struct {
	slots   *policy.Slots
	streams *peer.Ledger
	shed    func() *errmap.Error
	short   func() bool
	// alone holds a value while a call runs alone, because memory is short.
	alone chan struct{}

	openMu sync.Mutex
	// open are the streams that have a place, and opened counts all that had one.
	open   map[uint64]*adminv1.LongLived
	opened uint64
}

// admit lets a call run once there is memory and a place for it. What it takes
// is given back by leave.
func (a *admission) admit(ctx context.Context, c *toolCall) *errmap.Error {
	if err := a.admitted(ctx, c); err != nil {
		return err
	}
	if err := backend.CheckIdempotencyKey(c.req.Header); err != nil {
		return err
	}
	var err *errmap.Error
	defer c.traceQueue(c.req.Span.Now())
	if c.req.Paced {
		c.place, err = a.slots.Wait(ctx, c.req.Caller, c.tool.Name) // and its own time begins then
	} else {
		c.place, err = a.slots.Acquire(ctx, c.req.Caller, c.tool.Name)
	}
	return err
}

// admitted refuses a call while memory is short, or lets it wait.
func (a *admission) admitted(ctx context.Context, c *toolCall) *errmap.Error {
	switch {
	case a.shed == nil:
		return nil
	case c.req.Paced:
		return a.awaitMemory(ctx, c)
	}
	return a.shed()
}

// memoryLook is how often a call that waits for memory looks whether there is
// some. Their number is bounded by their edge.
const memoryLook = 50 * time.Millisecond

// awaitMemory lets a call run whose caller is held back by flow control: at once
// while there is memory, and one at a time while it is short. Its message is in
// memory either way, and to run it is what frees that.
func (a *admission) awaitMemory(ctx context.Context, c *toolCall) *errmap.Error {
	if a.short == nil || !a.short() {
		return nil
	}
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	for a.short() {
		select {
		case a.alone <- struct{}{}:
			c.alone = true
			return nil
		case <-look.C:
		case <-ctx.Done():
			return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
		}
	}
	return nil
}

// leave gives back what admit and result took. A call that runs on as a task has a bound of
// its own.
func (a *admission) leave(c *toolCall) {
	c.endTurn()
	if c.alone {
		c.alone = false
		<-a.alone
	}
	c.place.Release(c.worked)
	if c.approved != nil {
		c.approved.end(context.Background(), c.resp.Err)
	}
}

// room refuses a call that admit would refuse at once.
func (a *admission) room(ctx context.Context, c *toolCall) *errmap.Error {
	if c.req.Paced {
		return nil
	}
	if err := a.admitted(ctx, c); err != nil {
		return err
	}
	if err := backend.CheckIdempotencyKey(c.req.Header); err != nil {
		return err
	}
	if c.req.Exchange != nil {
		return nil // it takes no slot
	}
	return a.slots.Reject(c.req.Caller, c.tool.Name)
}

// openStream takes one of the places for long-lived streams, or returns why there is none.
func (a *admission) openStream(caller, what, tool string) (release func(), err *errmap.Error) {
	switch a.streams.Acquire(caller) {
	case peer.ShareFull:
		return nil, errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: too many streams are open (--max-streams)"))
	case peer.Over:
		return nil, errmap.OverShare("this caller's open streams exceed its share (--max-streams, --caller-share)")
	case peer.Granted:
	}
	a.openMu.Lock()
	defer a.openMu.Unlock()
	a.opened++
	number := a.opened
	if a.open == nil {
		a.open = map[uint64]*adminv1.LongLived{}
	}
	a.open[number] = &adminv1.LongLived{
		Id: strconv.FormatUint(number, 10), Caller: caller, Tool: tool, Detail: what, State: "open", Began: timestamppb.Now(),
	}
	return func() {
		a.streams.Release(caller)
		a.openMu.Lock()
		defer a.openMu.Unlock()
		delete(a.open, number)
	}, nil
}

// gatekeeper holds destructive tools back from callers that are not trusted.
type gatekeeper struct {
	policy *policy.Gate
	rules  Rules
	// canConfirm is set where the user is asked in place of a refusal.
	canConfirm bool
}

// gate asks the policy before the arguments are looked at. Where the policy is
// to ask the user, that comes after the arguments have been checked.
func (g *gatekeeper) gate(ctx context.Context, c *toolCall) *errmap.Error {
	if c.tool.Compact != catalog.NotCompact {
		return nil // the tool that it finds or calls is what matters
	}
	blocked := g.policy.CheckFor(c.tool, identity.FromContext(ctx), c.req.Caller)
	mayAsk := g.canConfirm
	if blocked == nil {
		blocked, mayAsk = g.unconfirmed(c), true
	}
	switch {
	case blocked == nil || c.req.Wanted.Preview && c.tool.Preview != nil: // a preview changes nothing
		return nil
	case mayAsk && g.canAsk(c):
		c.blocked = blocked
		return nil
	case c.looksLikePreview():
		c.blocked, c.isFirm = blocked, true // unless what is sent is one
		return nil
	}
	return advisePreview(c, blocked)
}

// unconfirmed refuses a destructive tool that is called by way of a compact catalog, unless the user consents: a host that
// may always call the one tool may not for that call all others. An operator has decided otherwise if a rule of the policy
// allows the tool by its name.
func (g *gatekeeper) unconfirmed(c *toolCall) *errmap.Error {
	if c.req.Through == "" || !policy.Verbs.Holds(c.tool) {
		return nil
	}
	if rules, ok := g.rules.(interface{ Names(tool *catalog.Tool) bool }); ok && rules.Names(c.tool) {
		return nil
	}
	through := catalog.CallName
	if c.req.part != nil {
		through = catalog.RunName
	}
	return errmap.New(errmap.DestructiveBlocked, errmap.Tool(c.tool.Name), errmap.Message("Destructive tool blocked: "+c.tool.Name+
		" is marked destructive, so the user must consent to each call through "+through+", and this client cannot ask; an operator can allow "+c.tool.Name+" by its name in a policy rule"))
}

// canAsk reports whether a call that is held back can be put to the user: the
// caller's client has a form for it.
func (g *gatekeeper) canAsk(c *toolCall) bool {
	if c.req.Arguments.Encoding != EncodingJSON {
		return false
	}
	var err *errmap.Error
	if c.req, err = c.req.Complete(); err != nil {
		return false
	}
	return c.req.Context.GetCapabilities().GetElicitation().GetForm()
}

// Rules are a [policy.Authority] that also decides about calls by their arguments.
type Rules interface {
	policy.Authority
	// MayCall decides about a call. arguments are valid: the bytes of the request, or JSON
	// for a native tool; they must not be kept. rule and effect ("allow", "deny" or "approve") are those
	// that decided, and empty if none did. The error is PERMISSION_DENIED.
	MayCall(who *identity.Identity, tool *catalog.Tool, arguments []byte) (rule, effect string, err *errmap.Error)
	// ReadsArguments reports whether a decision about calls of the tool takes their
	// arguments. If not, the [policy.Authority] has said all.
	ReadsArguments(tool *catalog.Tool) bool
	resultRules
	// Asks is what a rule with the effect "approve" asks for; false if there is none of the name. HasApprovals reports whether there
	// is any.
	Asks(rule string) (policy.Asks, bool)
	HasApprovals() bool
	// Unrecorded are fields whose values records leave out; nil for none. UnrecordedPaths are such fields of a tool's results, by
	// their paths.
	Unrecorded() *redact.Others
	UnrecordedPaths(tool *catalog.Tool) []string
	// Count is called once for each call that a rule decided, when it has ended.
	Count(rule, effect string)
}

// resultRules decide what callers see of results.
type resultRules interface {
	// View is what a caller sees of what a tool answers; nil where that is everything.
	View(who *identity.Identity, tool *catalog.Tool) *policy.View
	// TreatsResults reports whether there is a View for a caller and a tool. ResultsKey identifies all views of a caller in this process;
	// empty where it sees everything.
	TreatsResults() bool
	ResultsKey(who *identity.Identity) string
}

// effectDeny is the effect of a rule that refuses, effectApprove that of one that asks others.
const (
	effectDeny    = "deny"
	effectApprove = "approve"
)

// rulebook asks the policy rules about the arguments of calls.
type rulebook struct{ rules Rules }

// readsArguments reports whether a rule takes the arguments of a tool's calls.
func (p *rulebook) readsArguments(t *catalog.Tool) bool {
	return p.rules != nil && p.rules.ReadsArguments(t)
}

// permit is permitCall for what cannot wait for others.
func (p *rulebook) permit(ctx context.Context, c *toolCall) *errmap.Error {
	err := p.permitCall(ctx, c)
	if err == nil && c.asks != "" {
		err = needsOneMessage(c.tool, c.asks)
	}
	return err
}

// permitCall asks the rules about a call whose arguments are known to be valid. Where one of them has others approve it, that is in asks.
func (p *rulebook) permitCall(ctx context.Context, c *toolCall) *errmap.Error {
	if p.rules == nil || c.tool.Compact != catalog.NotCompact {
		return nil
	}
	if c.req.Items != nil && !c.input.hasFirst {
		return nil // there is no message yet, and each is asked about when it comes
	}
	defer c.req.Span.Step(telemetry.StepPolicy, c.req.Span.Now())
	arguments := c.wire
	if c.tool.Native {
		arguments = c.arguments()
	}
	if c.tool.TakesStream() {
		return p.permitMessage(ctx, c, arguments)
	}
	err := p.decide(ctx, c, arguments)
	if err == nil && c.resp.Decision.Effect == effectApprove {
		c.asks = c.resp.Decision.Rule
	}
	return err
}

// permitMessage asks the rules about one message of a stream. What they said of the first one is the decision about the
// stream, unless they refuse a later one.
func (p *rulebook) permitMessage(ctx context.Context, c *toolCall, wire []byte) *errmap.Error {
	if p.rules == nil {
		return nil
	}
	err := p.decide(ctx, c, wire)
	if err == nil && c.resp.Decision.Effect == effectApprove {
		err = needsOneMessage(c.tool, c.resp.Decision.Rule)
	}
	return err
}

// decide asks the rules about one message, and notes what they say.
func (p *rulebook) decide(ctx context.Context, c *toolCall, wire []byte) *errmap.Error {
	rule, effect, err := p.rules.MayCall(identity.FromContext(ctx), c.tool, wire)
	if c.resp.Decision.Rule == "" || err != nil {
		c.resp.Decision = Decision{Rule: rule, Effect: effect}
	}
	return err
}

// decided completes the decision of a response and counts it. A tool that a rule hides is
// refused before a call of it begins.
func (p *rulebook) decided(resp *Response) {
	if resp.Err != nil && resp.Err.Rule != "" && !isOfAPart(resp.Err) {
		resp.Decision = Decision{Rule: resp.Err.Rule, Effect: effectDeny}
	}
	if resp.Decision.Rule != "" {
		p.rules.Count(resp.Decision.Rule, resp.Decision.Effect)
	}
}

// rates counts requests against the limits of their callers and tools.
type rates struct {
	limiter   *policy.Limiter
	askShared func(ctx context.Context, caller, tool string, isPart bool) *errmap.Error
	askUnread func(caller, tool string) *errmap.Error
}

// limit counts the call against the rates of its caller and its tool.
func (r *rates) limit(_ context.Context, c *toolCall) *errmap.Error {
	return r.check(c.req.Caller, c.tool.Name)
}

// check counts a request against the rate of its caller, and refuses one of a caller that does not read its answers, and a call of a
// tool whose results are not read. tool is empty for what is no call.
func (r *rates) check(caller, tool string) *errmap.Error {
	err := r.limiter.Check(caller, tool)
	if err == nil && r.askUnread != nil {
		err = r.askUnread(caller, tool)
	}
	return err
}

// share counts the call against the rates that replicas share.
func (r *rates) share(ctx context.Context, c *toolCall) *errmap.Error {
	return r.shared(ctx, c.req, c.tool.Name, c.isPart)
}

// shared asks about one request, if there is something to ask.
func (r *rates) shared(ctx context.Context, req *Request, tool string, isPart bool) *errmap.Error {
	if r.askShared == nil {
		return nil
	}
	start := req.Span.Now()
	err := r.askShared(ctx, req.Caller, tool, isPart)
	req.Span.Step(telemetry.StepRates, start)
	if err != nil && err.Code == errmap.RateLimited {
		r.limiter.CountRefused(tool)
	}
	return err
}

// deadlines knows how long a call may take.
type deadlines struct {
	// most is the default of the sidecar.
	most time.Duration
}

// timeout is the shortest of the caller's, the tool's and the default.
func (l *deadlines) timeout(c *toolCall) time.Duration {
	timeout := l.allowed(c)
	if c.req.Timeout > 0 {
		timeout = min(timeout, c.req.Timeout)
	}
	return timeout - c.place.Waited
}

// allowed is the shorter of the tool's and the default: what a call has where
// its caller does not say less.
func (l *deadlines) allowed(c *toolCall) time.Duration {
	if c.tool.Timeout > 0 {
		return min(l.most, c.tool.Timeout)
	}
	return l.most
}

// streamTime is how long the stream of a call is read: as long as its tool allows, or less if its caller wants less.
func (l *deadlines) streamTime(c *toolCall) time.Duration {
	most := streamTime(l.timeout(c), c.tool.StreamTime)
	if asked := c.req.Wanted.StreamTime; asked > 0 {
		return min(most, asked)
	}
	return most
}

// streamTime is how long a stream is read: to its deadline less a second, at least
// half of that, and no longer than its tool says.
func streamTime(deadline, declared time.Duration) time.Duration {
	most := max(deadline-streamReserve, deadline/2)
	if declared > 0 {
		return min(most, declared)
	}
	return most
}

// streamReserve is the part of a call's deadline that is left to answer with what
// a stream without an end has brought.
const streamReserve = time.Second

// advisePreview adds to a refusal that the caller may still have a preview.
func advisePreview(c *toolCall, refused *errmap.Error) *errmap.Error {
	if refused != nil && c.tool.Preview != nil {
		refused.Advice = content.PreviewAdvice
	}
	return refused
}

// needsOneMessage refuses what cannot wait for others.
func needsOneMessage(tool *catalog.Tool, rule string) *errmap.Error {
	err := errmap.New(errmap.PermissionDenied, errmap.Tool(tool.Name), errmap.Message("Permission denied: policy rule "+rule+
		" asks others to approve this use of tool "+tool.Name+", which only a call with one message can wait for; streams, reads of resources and completions cannot"),
		errmap.WithViolations(errmap.Violation{Keyword: "policy", Message: "rule " + rule}))
	err.Rule = rule
	return err
}
