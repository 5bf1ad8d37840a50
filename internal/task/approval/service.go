// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

const (
	// Keep is how long a record is kept once nothing can change it.
	Keep = 24 * time.Hour
	// UseWithin is the least time for which an approved call may be run, so that an approval in the last minute is of use.
	UseWithin = time.Hour
	// maxReason is the maximum size of a reason in bytes.
	maxReason = 1024
	// sweepInterval is the longest time between two looks for what has expired.
	sweepInterval = time.Minute
	// keptPerWaiting is how many calls of one caller that ended undecided are kept for each that may wait.
	keptPerWaiting = 8
	// maxUnfinished bounds the ends of calls that are still to be written.
	maxUnfinished = 1024
	// writeTimeout bounds a write that no request waits for.
	writeTimeout = 5 * time.Second
	// writeAttempts is how often the end of a call is written.
	writeAttempts = 5
	// unavailablePause is between two attempts while the store is away.
	unavailablePause = time.Second
	keyBytes         = 10
)

// Options configure a [Service]. Zero fields have their defaults.
type Options struct {
	Store Store
	// Self is this process, and Alive reports whether another one lives, with an error where that is not known now; nil where processes
	// share nothing.
	Self  string
	Alive func(ctx context.Context, owner string) (bool, error)
	// Rule returns a rule in use with the effect "approve", and Operator an operator as it is now.
	Rule     func(name string) (Rule, bool)
	Operator func(name string) (Approver, bool)
	// MaxWaiting bounds the calls that wait, MaxPerCaller those of one caller.
	MaxWaiting, MaxPerCaller int
	// Now is the clock of records. Nil means [time.Now].
	Now func() time.Time
	// Happened hears each event that this process made, and OnError what no caller can. They must return quickly; nil hears nothing.
	Happened func(Event)
	OnError  func(error)
}

// Service asks for approvals, takes decisions and lets approved calls run. Make one with [New].
type Service struct {
	opts Options

	mu    sync.Mutex
	subs  map[*subscriber]struct{}
	waits map[string]map[chan struct{}]struct{} // by key
	// unfinished are the ends of calls that are still to be written; woken has Run look for them.
	unfinished map[*Claim]unfinished
	woken      chan struct{}

	asked, approved, denied, expired, cancelled, ran, over atomic.Uint64
}

type subscriber struct{ f func(Event) }

// New returns a service of a store.
func New(o Options) *Service {
	defaults.Fill(&o.MaxWaiting, defaults.ApprovalsMaxWaiting)
	defaults.Fill(&o.MaxPerCaller, defaults.ApprovalsMaxWaitingPerCaller)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Happened == nil {
		o.Happened = func(Event) {}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	if o.Rule == nil {
		o.Rule = func(string) (Rule, bool) { return Rule{}, false }
	}
	if o.Operator == nil {
		o.Operator = func(string) (Approver, bool) { return Approver{}, false }
	}
	s := &Service{opts: o, subs: map[*subscriber]struct{}{}, waits: map[string]map[chan struct{}]struct{}{}, unfinished: map[*Claim]unfinished{}, woken: make(chan struct{}, 1)}
	o.Store.Watch(s.changed)
	return s
}

// Use sets what is known of rules and operators. Call it before the first call, where [New] was too early for them.
func (s *Service) Use(rule func(name string) (Rule, bool), operator func(name string) (Approver, bool), happened func(Event)) {
	s.opts.Rule, s.opts.Operator = rule, operator
	if happened != nil {
		s.opts.Happened = happened
	}
}

// Call is a call that a rule asks approval for.
type Call struct {
	// Requester is the name of the caller, Principal what it is identified by.
	Requester, Principal string
	Tool, Title          string
	// ToolDigest identifies what the tool is.
	ToolDigest [32]byte
	Rule       Rule
	// Arguments is a digest of the arguments that the approval is for. ArgumentsJSON are all of them, Preview what the call would do.
	Arguments     [32]byte
	ArgumentsJSON []byte
	Preview       string
}

// key is where the record of a call is. Equal calls have the same.
func (c *Call) key() string {
	h := sha256.New()
	for _, part := range [...]string{c.Principal, c.Tool, c.Rule.Name, string(c.Arguments[:])} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:keyBytes])
}

// isOf reports whether a record is of this very call, whatever rule and tool say now.
func (c *Call) isOf(r *statev1.ApprovalRecord) bool {
	return r.GetPrincipal() == c.Principal && r.GetTool() == c.Tool && r.GetRule() == c.Rule.Name && string(r.GetArgumentsDigest()) == string(c.Arguments[:])
}

// outdated says why a record that is not over is no longer what the call needs; empty if it is.
func (c *Call) outdated(r *statev1.ApprovalRecord) string {
	switch {
	case string(r.GetToolDigest()) != string(c.ToolDigest[:]):
		return "the tool changed since approval was asked for"
	case string(r.GetRuleDigest()) != string(c.Rule.Digest[:]):
		return "the policy rule changed since approval was asked for"
	}
	return ""
}

// keyOf is the key that an id begins with.
func keyOf(id string) string {
	key, _, _ := strings.Cut(id, "-")
	return key
}

// isOpen reports whether a record may still change by a decision or a run.
func isOpen(r *statev1.ApprovalRecord) bool {
	return r.GetState() == Waiting || r.GetState() == Approved || r.GetState() == Running
}

// Ask returns the record of a call, and makes one if there is none that says what becomes of the call: a new one waits. known is the
// id of the record that the caller knows, whose end it is to learn even where it could ask again; empty for none.
func (s *Service) Ask(ctx context.Context, c *Call, known string) (*statev1.ApprovalRecord, *errmap.Error) {
	key := c.key()
	for {
		e, err := s.current(ctx, key)
		if err != nil {
			return nil, Canonical(ctx, err)
		}
		r := e.Record
		if s.isAnswer(r, c, known) {
			return r, nil
		}
		next, failed := s.renew(ctx, c, key, e)
		if failed != nil || next != nil {
			return next, failed
		}
	}
}

// IsAsked reports whether there is a record that [Service.Ask] would return for a call and what its caller knows.
func (s *Service) IsAsked(ctx context.Context, c *Call, known string) bool {
	e, err := s.current(ctx, c.key())
	return err == nil && s.isAnswer(e.Record, c, known)
}

// isAnswer reports whether a record, nil for none, says now what becomes of a call.
func (s *Service) isAnswer(r *statev1.ApprovalRecord, c *Call, known string) bool {
	return r != nil && s.settle(r) == r && c.answeredBy(r, known, s.opts.Now())
}

// renew takes a step towards a new record in the place of one that does not answer a call: the old one ends, and is kept beside the new
// one, for those who look. It returns nil where there is another step to take.
func (s *Service) renew(ctx context.Context, c *Call, key string, e Entry) (*statev1.ApprovalRecord, *errmap.Error) {
	next, full := s.begin(c)
	if full != nil {
		return nil, full
	}
	var err error
	r := e.Record
	switch settled := s.settle(r); {
	case settled != r:
		next, err = nil, s.put(ctx, key, settled, e.Version)
	case r != nil && isOpen(r):
		why := c.outdated(r)
		if !c.isOf(r) {
			why = "another call took its place"
		}
		next, err = nil, s.put(ctx, key, ended(r, Cancelled, why), e.Version)
	default:
		if r != nil {
			err = s.opts.Store.Put(ctx, r.GetId(), r, 0, Keep)
		}
		if err == nil || errors.Is(err, ErrConflict) {
			err = s.put(ctx, key, next, e.Version)
		}
	}
	switch {
	case errors.Is(err, ErrConflict):
		return nil, nil //nolint:nilnil // said above
	case err != nil:
		return nil, Canonical(ctx, err)
	}
	return next, nil
}

// answeredBy reports whether a record says what becomes of the call.
func (c *Call) answeredBy(r *statev1.ApprovalRecord, known string, now time.Time) bool {
	if !c.isOf(r) {
		return false
	}
	switch r.GetState() {
	case Waiting, Approved:
		return c.outdated(r) == ""
	case Running:
		return true
	case Denied:
		return r.GetId() == known || now.Before(r.GetExpires().AsTime())
	}
	return r.GetId() == known && known != ""
}

// begin is a new record, or why there is no room for it.
func (s *Service) begin(c *Call) (*statev1.ApprovalRecord, *errmap.Error) {
	now := s.opts.Now()
	all, loaded := s.opts.Store.Known()
	if !loaded {
		return nil, Canonical(context.Background(), ErrUnavailable)
	}
	waiting, own, left := 0, 0, 0
	for _, r := range all {
		if (r.GetState() == Cancelled || r.GetState() == Expired) && r.GetPrincipal() == c.Principal {
			left++
		}
		if r.GetState() != Waiting || !now.Before(r.GetExpires().AsTime()) {
			continue
		}
		if waiting++; r.GetPrincipal() == c.Principal {
			own++
		}
	}
	if waiting >= s.opts.MaxWaiting || own >= s.opts.MaxPerCaller || own+left >= keptPerWaiting*s.opts.MaxPerCaller {
		s.over.Add(1)
		text := "too many calls wait for approval (--max-approvals)"
		if own >= s.opts.MaxPerCaller {
			text = "too many calls of this caller wait for approval (--max-approvals-per-caller)"
		}
		if own < s.opts.MaxPerCaller && waiting < s.opts.MaxWaiting {
			text = "too many calls of this caller were left undecided in the last day (--max-approvals-per-caller)"
		}
		return nil, errmap.New(errmap.ResourceExhausted, errmap.Tool(c.Tool), errmap.Message("Approval not asked for: "+text+"; call again once others are decided"))
	}
	return &statev1.ApprovalRecord{
		Id: c.key() + "-" + strconv.FormatInt(now.UnixMilli(), 36), Requester: c.Requester, Principal: c.Principal,
		Tool: c.Tool, Title: c.Title, ToolDigest: slices.Clone(c.ToolDigest[:]), Rule: c.Rule.Name, RuleDigest: slices.Clone(c.Rule.Digest[:]),
		ArgumentsDigest: slices.Clone(c.Arguments[:]), ArgumentsJson: c.ArgumentsJSON, Preview: c.Preview, State: Waiting,
		Created: timestamppb.New(now), Expires: timestamppb.New(now.Add(c.Rule.Within)), Needed: int32(c.Rule.Count),
	}, nil
}

// current is the record of a key; none is an entry without one.
func (s *Service) current(ctx context.Context, key string) (Entry, error) {
	e, err := s.opts.Store.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Entry{}, nil
	}
	return e, err
}

// settle is the record with what time has done to it; the same one if that is nothing.
func (s *Service) settle(r *statev1.ApprovalRecord) *statev1.ApprovalRecord {
	if (r.GetState() == Waiting || r.GetState() == Approved) && !s.opts.Now().Before(r.GetExpires().AsTime()) {
		why := "it was not decided in time"
		if r.GetState() == Approved {
			why = "it was approved and not run in time"
		}
		return ended(r, Expired, why)
	}
	return r
}

// changedTo is a copy of a record in another state.
func changedTo(r *statev1.ApprovalRecord, state string) *statev1.ApprovalRecord {
	out := proto.CloneOf(r)
	out.State = state
	return out
}

// ended is a copy of a record that has ended.
func ended(r *statev1.ApprovalRecord, state, why string) *statev1.ApprovalRecord {
	out := changedTo(r, state)
	out.Ended = why
	if state == Cancelled || state == Expired { // a caller may make many of them
		out.ArgumentsJson, out.Preview = nil, ""
	}
	return out
}

// put stores a record in the place of the one with the version, and tells of it.
func (s *Service) put(ctx context.Context, key string, r *statev1.ApprovalRecord, version uint64) error {
	err := s.opts.Store.Put(ctx, key, r, version, keepOf(r, s.opts.Now()))
	if errors.Is(err, ErrUnavailable) && s.isStored(ctx, key, r) {
		err = nil
	}
	if err != nil {
		return err
	}
	s.count(r)
	if kind := kindOf(r); kind != "" {
		s.opts.Happened(Event{Kind: kind, Record: r})
	}
	return nil
}

// isStored reports whether a record was stored although the store did not say so.
func (s *Service) isStored(ctx context.Context, key string, r *statev1.ApprovalRecord) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unavailablePause)
	defer cancel()
	e, err := s.opts.Store.Get(ctx, key)
	return err == nil && proto.Equal(e.Record, r)
}

// kindOf is the kind of the event that brought a record into its state; empty where another event tells of it.
func kindOf(r *statev1.ApprovalRecord) string {
	switch {
	case r.GetState() == Waiting && len(r.GetDecisions()) == 0:
		return EventAsked
	case r.GetState() == Waiting, r.GetState() == Approved, r.GetState() == Denied:
		return EventDecided
	case r.GetState() == Running:
		return ""
	}
	return EventEnded
}

// count counts what a record came to.
func (s *Service) count(r *statev1.ApprovalRecord) {
	switch r.GetState() {
	case Waiting:
		if len(r.GetDecisions()) == 0 {
			s.asked.Add(1)
		}
	case Approved:
		s.approved.Add(1)
	case Denied:
		s.denied.Add(1)
	case Expired:
		s.expired.Add(1)
	case Cancelled:
		s.cancelled.Add(1)
	case Done:
		s.ran.Add(1)
	}
}

// find is the entry of an id, and its key.
func (s *Service) find(ctx context.Context, id string) (Entry, string, error) {
	if id == "" {
		return Entry{}, "", ErrNotFound // as where there is no record
	}
	key := keyOf(id)
	e, err := s.current(ctx, key)
	if err != nil {
		return Entry{}, "", err
	}
	if e.Record.GetId() == id {
		return e, key, nil
	}
	if e, err = s.opts.Store.Get(ctx, id); err == nil && e.Record.GetId() != id {
		err = ErrNotFound // a key alone names whatever is there
	}
	return e, id, err
}

// List returns the records that wait, the oldest first, and with decided behind them also those that were decided or ended, as long as
// they are kept.
func (s *Service) List(_ context.Context, decided bool) ([]*statev1.ApprovalRecord, *errmap.Error) {
	all, loaded := s.opts.Store.Known()
	if !loaded {
		return nil, Canonical(context.Background(), ErrUnavailable)
	}
	out, seen := make([]*statev1.ApprovalRecord, 0, len(all)), map[string]bool{}
	for _, r := range all {
		r = s.settle(r)
		if !seen[r.GetId()] && (decided || r.GetState() == Waiting) {
			seen[r.GetId()] = true
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *statev1.ApprovalRecord) int {
		if isWaiting := a.GetState() == Waiting; isWaiting != (b.GetState() == Waiting) {
			if isWaiting {
				return -1
			}
			return 1
		}
		return cmp.Or(a.GetCreated().AsTime().Compare(b.GetCreated().AsTime()), cmp.Compare(a.GetId(), b.GetId()))
	})
	return out, nil
}

// Get returns one record. The error is RESOURCE_NOT_FOUND or UNAVAILABLE.
func (s *Service) Get(ctx context.Context, id string) (*statev1.ApprovalRecord, *errmap.Error) {
	e, _, err := s.find(ctx, id)
	if err != nil {
		return nil, Canonical(ctx, err)
	}
	return s.settle(e.Record), nil
}

// ErrOver is the cause of the error of a decision about a record that does not wait any more.
var ErrOver = errors.New("approval: it does not wait any more")

// Decide is the decision of one approver, and returns the record after it. The error is PERMISSION_DENIED for one that may not decide,
// INVALID_PARAMS without a reason, and with [ErrOver] where the record does not wait any more; RESOURCE_NOT_FOUND or UNAVAILABLE.
func (s *Service) Decide(ctx context.Context, id string, who Approver, approve bool, reason string) (*statev1.ApprovalRecord, *errmap.Error) {
	if reason = strings.TrimSpace(reason); reason == "" || len(reason) > maxReason || !utf8.ValidString(reason) {
		return nil, errmap.New(errmap.InvalidParams, errmap.Message("Invalid params: a decision needs a reason of 1 to 1024 bytes"))
	}
	for {
		e, key, err := s.find(ctx, id)
		if err != nil {
			return nil, Canonical(ctx, err)
		}
		r := s.settle(e.Record)
		if r.GetState() != Waiting {
			return nil, errmap.Wrap(errmap.InvalidParams, ErrOver, errmap.Message("Invalid params: approval "+id+" does not wait any more: it is "+r.GetState()))
		}
		if why := s.WhyNot(r, who); why != "" {
			return nil, errmap.New(errmap.PermissionDenied, errmap.Message("Permission denied: "+why))
		}
		next := changedTo(r, Waiting)
		next.Decisions = append(next.Decisions, &statev1.ApprovalRecord_Decision{
			Approver: who.Name, Approved: approve, Reason: reason, Time: timestamppb.New(s.opts.Now()),
		})
		rule, ok := s.opts.Rule(r.GetRule())
		switch {
		case !ok || string(rule.Digest[:]) != string(r.GetRuleDigest()):
			// Whatever asks again does so by the rules that are in use.
			next = ended(r, Cancelled, "the policy rule changed since approval was asked for")
		case !approve:
			next.State, next.Ended = Denied, "denied by "+who.Name+": "+reason
		case len(next.GetDecisions()) >= int(next.GetNeeded()):
			next.State = Approved
			if least := s.opts.Now().Add(UseWithin); least.After(next.GetExpires().AsTime()) {
				next.Expires = timestamppb.New(least)
			}
		}
		err = s.put(ctx, key, next, e.Version)
		switch {
		case errors.Is(err, ErrConflict):
			continue
		case err != nil:
			return nil, Canonical(ctx, err)
		case next.GetState() == Cancelled:
			return nil, errmap.Wrap(errmap.InvalidParams, ErrOver, errmap.Message("Invalid params: approval "+id+" is cancelled: "+next.GetEnded()))
		}
		return next, nil
	}
}

// WhyNot says why an approver may not decide about a record now; empty if it may.
func (s *Service) WhyNot(r *statev1.ApprovalRecord, who Approver) string {
	rule, ok := s.opts.Rule(r.GetRule())
	if !ok {
		return "there is no rule " + r.GetRule() + " any more that asks for approval"
	}
	if why := whyNotOf(r, &rule, who); why != "" {
		return why
	}
	for _, d := range r.GetDecisions() {
		if d.GetApprover() == who.Name {
			return who.Name + " has decided already"
		}
		if other, ok := s.opts.Operator(d.GetApprover()); ok && slices.ContainsFunc(other.CallsAs, func(name string) bool { return slices.Contains(who.CallsAs, name) }) {
			return who.Name + " and " + other.Name + " may call as the same caller, so that they count as one person"
		}
	}
	return ""
}

// whyNotOf says why a rule does not let an operator decide about a record, whatever others decided.
func whyNotOf(r *statev1.ApprovalRecord, rule *Rule, who Approver) string {
	for _, name := range append([]string{who.Name}, who.CallsAs...) {
		if name != "" && (name == r.GetRequester() || name == r.GetPrincipal()) {
			return who.Name + " made the call, or may call as its caller"
		}
	}
	if !slices.Contains(rule.Callers, who.Name) && !slices.ContainsFunc(rule.Groups, func(g string) bool { return slices.Contains(who.Groups, g) }) {
		return "rule " + rule.Name + " names neither " + who.Name + " nor one of its groups as approver"
	}
	return ""
}

// IsUsed reports whether the approval with an id was used to run this very call, by the tool and the rule of now. The error is UNAVAILABLE.
func (s *Service) IsUsed(ctx context.Context, c *Call, id string) (bool, *errmap.Error) {
	r, err := s.Get(ctx, id)
	if err != nil && err.Code == errmap.ResourceNotFound {
		return false, nil
	}
	isUsed := r.GetState() == Running || r.GetState() == Done
	return isUsed && c.isOf(r) && c.outdated(r) == "", err
}

// Claim is the right to run an approved call once. Give it back with [Service.Finish].
type Claim struct {
	// ID is that of the record, Approvers those who agreed.
	ID        string
	Approvers []string
	key       string
	token     string
}

// ErrChanged is the cause of the error of a claim that no approval holds for any more: the call must ask again.
var ErrChanged = errors.New("approval: it must be asked for again")

// ErrRuns is the cause of the error of a claim of a call that runs elsewhere.
var ErrRuns = errors.New("approval: the call runs elsewhere")

// Claim takes an approved call to run it here. The error is APPROVAL_REQUIRED while the record waits, PERMISSION_DENIED where it must
// not run (with [ErrChanged] where another question could change that), TRANSPORT_ERROR where a process that ran it has departed and
// its tool is not idempotent, and UNAVAILABLE.
func (s *Service) Claim(ctx context.Context, c *Call, id string, idempotent bool) (*Claim, *errmap.Error) {
	token := s.token()
	for {
		e, key, err := s.find(ctx, id)
		switch {
		case errors.Is(err, ErrUnavailable) && ctx.Err() == nil && s.pause(ctx):
			continue // whether it was taken is known once the store is back
		case err != nil:
			return nil, Canonical(ctx, err)
		}
		r := e.Record
		if r.GetOwner() == token {
			return &Claim{ID: id, Approvers: approvers(r), key: key, token: token}, nil
		}
		next, failed := s.claimed(ctx, c, r, token, idempotent)
		if next == nil {
			return nil, failed
		}
		err = s.put(ctx, key, next, e.Version)
		switch {
		case errors.Is(err, ErrConflict):
			continue
		case errors.Is(err, ErrUnavailable) && ctx.Err() == nil:
			continue
		case err != nil:
			return nil, Canonical(ctx, err)
		case failed != nil:
			return nil, failed
		}
		return &Claim{ID: id, Approvers: approvers(next), key: key, token: token}, nil
	}
}

// pause waits a moment, and reports whether ctx goes on.
func (s *Service) pause(ctx context.Context) bool {
	timer := time.NewTimer(unavailablePause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// claimed is the record once a call was taken to run, or once it is clear that it cannot be, with why; nil where nothing is to be
// stored.
func (s *Service) claimed(ctx context.Context, c *Call, r *statev1.ApprovalRecord, token string, idempotent bool) (*statev1.ApprovalRecord, *errmap.Error) {
	if settled := s.settle(r); settled != r {
		return settled, Refusal(settled)
	}
	switch r.GetState() {
	case Approved:
		if why := s.revoked(c, r); why != "" {
			return ended(r, Cancelled, why), errmap.Wrap(errmap.PermissionDenied, ErrChanged, errmap.Message("Permission denied: "+why), errmap.Tool(c.Tool))
		}
	case Running:
		alive, err := s.lives(ctx, r.GetOwner())
		switch {
		case err != nil:
			return nil, Canonical(ctx, err)
		case alive:
			return nil, Refusal(r)
		case !idempotent:
			return ended(r, Done, "outcome unknown: the replica that ran it stopped"), Unknown(c.Tool)
		}
	default:
		return nil, Refusal(r)
	}
	next := changedTo(r, Running)
	next.Owner = token
	return next, nil
}

// revoked says why an approved record does not hold any more; empty if it does.
func (s *Service) revoked(c *Call, r *statev1.ApprovalRecord) string {
	if !c.isOf(r) {
		return "the arguments are not those that were approved"
	}
	if why := c.outdated(r); why != "" {
		return why
	}
	for _, d := range r.GetDecisions() {
		who, ok := s.opts.Operator(d.GetApprover())
		if !ok {
			return "approver " + d.GetApprover() + " is no operator any more"
		}
		if why := whyNotOf(r, &c.Rule, who); why != "" {
			return "approver " + who.Name + " may not approve any more: " + why
		}
	}
	return ""
}

// lives reports whether the process of a token lives.
func (s *Service) lives(ctx context.Context, token string) (bool, error) {
	owner, _, _ := strings.Cut(token, "/")
	if owner == s.opts.Self || s.opts.Alive == nil {
		return true, nil
	}
	alive, err := s.opts.Alive(ctx, owner)
	if err != nil && !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return alive, err
}

// approvers are those who agreed.
func approvers(r *statev1.ApprovalRecord) []string {
	var out []string
	for _, d := range r.GetDecisions() {
		if d.GetApproved() {
			out = append(out, d.GetApprover())
		}
	}
	return out
}

// Finish notes that a call has run, or with notSent that the backend was not called, so that the approval may be used again.
func (s *Service) Finish(ctx context.Context, claim *Claim, notSent bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var err error
	for range writeAttempts {
		if err = s.finish(ctx, claim, notSent); err == nil {
			return
		}
		if !errors.Is(err, ErrConflict) && !s.pause(ctx) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unfinished) >= maxUnfinished {
		s.opts.OnError(fmt.Errorf("approval: the end of a call: %w", err))
		return
	}
	s.unfinished[claim] = unfinished{notSent: notSent, until: s.opts.Now().Add(Keep)}
	wake(s.woken)
}

// unfinished is the end of a call that is still to be written, until the record is gone.
type unfinished struct {
	notSent bool
	until   time.Time
}

// finish tries once to write the end of a call.
func (s *Service) finish(ctx context.Context, claim *Claim, notSent bool) error {
	e, err := s.current(ctx, claim.key)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case e.Record.GetOwner() != claim.token || e.Record.GetState() != Running:
		if e.Record.GetOwner() == claim.token && e.Record.GetState() == Done && e.Record.GetEnded() == "" {
			s.finished(e.Record) // only the acknowledgement of it was lost
		}
		return nil // another process has it, or has ended it
	}
	next := changedTo(e.Record, Done)
	if notSent {
		next.State, next.Owner = Approved, ""
	}
	err = s.opts.Store.Put(ctx, claim.key, next, e.Version, keepOf(next, s.opts.Now()))
	if errors.Is(err, ErrUnavailable) && s.isStored(ctx, claim.key, next) {
		err = nil
	}
	if err == nil && !notSent {
		s.finished(next)
	}
	return err
}

// finishLater writes the ends of calls that could not be written yet, and reports whether all are.
func (s *Service) finishLater(ctx context.Context) bool {
	s.mu.Lock()
	all := maps.Clone(s.unfinished)
	s.mu.Unlock()
	isAll := true
	for claim, end := range all {
		err := s.finish(ctx, claim, end.notSent)
		if err != nil && s.opts.Now().Before(end.until) {
			isAll = false
			continue
		}
		if err != nil {
			s.opts.OnError(fmt.Errorf("approval: the end of a call: %w", err))
		}
		s.mu.Lock()
		delete(s.unfinished, claim)
		s.mu.Unlock()
	}
	return isAll
}

// wake has a loop look again.
func wake(woken chan<- struct{}) {
	select {
	case woken <- struct{}{}:
	default:
	}
}

// finished tells that a call has run.
func (s *Service) finished(r *statev1.ApprovalRecord) {
	s.count(r)
	s.opts.Happened(Event{Kind: EventEnded, Record: r})
}

// keepOf is how long a record is kept.
func keepOf(r *statev1.ApprovalRecord, now time.Time) time.Duration {
	if isOpen(r) {
		return Keep + max(r.GetExpires().AsTime().Sub(now), 0)
	}
	return Keep
}

// Cancel ends a record that has not run, with the reason.
func (s *Service) Cancel(ctx context.Context, id, why string) *errmap.Error {
	for {
		e, key, err := s.find(ctx, id)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return Canonical(ctx, err)
		}
		if state := e.Record.GetState(); state != Waiting && state != Approved {
			return nil
		}
		err = s.put(ctx, key, ended(e.Record, Cancelled, why), e.Version)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return Canonical(ctx, err)
		}
		return nil
	}
}

// Waive takes a call that needs no approval any more, to run it here without one: it ends the record with the reason, once. It reports
// whether this very call ended it so; where it did not, the record says why: it has run, was waived before, denied, or expired.
func (s *Service) Waive(ctx context.Context, id, why string) (*statev1.ApprovalRecord, bool, *errmap.Error) {
	token := s.token()
	for {
		e, key, err := s.find(ctx, id)
		if err != nil {
			if errors.Is(err, ErrUnavailable) && ctx.Err() == nil && s.pause(ctx) {
				continue // whether it was ended is known once the store is back
			}
			return nil, false, Canonical(ctx, err)
		}
		r := s.settle(e.Record)
		mayEnd := r.GetState() == Waiting || r.GetState() == Approved || r.GetState() == Cancelled
		if IsWaived(r) || !mayEnd {
			return r, r.GetOwner() == token, nil
		}
		next := ended(r, Cancelled, why)
		next.Owner = token
		if r.GetState() == Cancelled { // its end was told of
			err = s.opts.Store.Put(ctx, key, next, e.Version, Keep)
		} else {
			err = s.put(ctx, key, next, e.Version)
		}
		switch {
		case err == nil:
			return next, true, nil
		case errors.Is(err, ErrConflict), errors.Is(err, ErrUnavailable) && ctx.Err() == nil:
		default:
			return nil, false, Canonical(ctx, err)
		}
	}
}

// IsWaived reports whether a call was taken to run without its approval; see [Service.Waive].
func IsWaived(r *statev1.ApprovalRecord) bool { return r.GetState() == Cancelled && r.GetOwner() != "" }

// token is a new name of one use of an approval by this process.
func (s *Service) token() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	return s.opts.Self + "/" + hex.EncodeToString(random[:])
}

// Wait returns the record once it does not wait any more. The error is that of [Service.Get], or CANCELLED with the cause of ctx.
func (s *Service) Wait(ctx context.Context, id string) (*statev1.ApprovalRecord, *errmap.Error) {
	key := keyOf(id)
	woken := make(chan struct{}, 1)
	s.mu.Lock()
	if s.waits[key] == nil {
		s.waits[key] = map[chan struct{}]struct{}{}
	}
	s.waits[key][woken] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.waits[key], woken); len(s.waits[key]) == 0 {
			delete(s.waits, key)
		}
	}()
	for {
		r, err := s.Get(ctx, id)
		switch {
		case ctx.Err() != nil:
			return nil, errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
		case err != nil && err.Code == errmap.Unavailable:
			s.pause(ctx)
			continue
		case err != nil || r.GetState() != Waiting:
			return r, err
		}
		timer := time.NewTimer(min(max(r.GetExpires().AsTime().Sub(s.opts.Now()), 0), sweepInterval))
		select {
		case <-woken:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// changed learns of every record that any process stores.
func (s *Service) changed(r *statev1.ApprovalRecord) {
	s.mu.Lock()
	for woken := range s.waits[keyOf(r.GetId())] {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	subs := make([]*subscriber, 0, len(s.subs))
	for sub := range s.subs {
		subs = append(subs, sub)
	}
	s.mu.Unlock()
	kind := kindOf(r)
	if kind == "" {
		return
	}
	for _, sub := range subs {
		sub.f(Event{Kind: kind, Record: r})
	}
}

// Subscribe calls f with each event of any process, in the order of each record, until stop is called. f must return quickly. What
// happened while the store was away may be merged into the last event of a record.
func (s *Service) Subscribe(f func(Event)) (stop func()) {
	sub := &subscriber{f: f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[sub] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subs, sub)
	}
}

// Run ends what has expired, and writes what could not be written yet, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	defer s.Subscribe(func(Event) { wake(s.woken) })()
	for ctx.Err() == nil {
		timer := time.NewTimer(s.sweep(ctx))
		select {
		case <-s.woken:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// sweep ends what has expired, and returns when to look again.
func (s *Service) sweep(ctx context.Context) time.Duration {
	next := sweepInterval
	if !s.finishLater(ctx) {
		next = unavailablePause
	}
	all, _ := s.opts.Store.Known()
	for _, r := range all {
		if r.GetState() != Waiting && r.GetState() != Approved {
			continue
		}
		if left := r.GetExpires().AsTime().Sub(s.opts.Now()); left > 0 {
			next = min(next, left)
			continue
		}
		e, key, err := s.find(ctx, r.GetId())
		if err != nil {
			next = min(next, unavailablePause)
			continue
		}
		if settled := s.settle(e.Record); settled != e.Record {
			if err := s.put(ctx, key, settled, e.Version); err != nil && !errors.Is(err, ErrConflict) {
				next = min(next, unavailablePause)
			}
		}
	}
	return next
}

// Waiting returns how many calls wait.
func (s *Service) Waiting() int { return s.Stats().Waiting }

// Stats are the counts of a service. Those of records are of all processes, the others of this one.
type Stats struct {
	// Waiting is the number of calls that wait now.
	Waiting int
	// Asked counts records that began, Over calls that found no room. The others count records by what they came to.
	Asked, Approved, Denied, Expired, Cancelled, Ran, Over uint64
}

// Stats returns the counts.
func (s *Service) Stats() Stats {
	out := Stats{
		Asked: s.asked.Load(), Approved: s.approved.Load(), Denied: s.denied.Load(), Expired: s.expired.Load(),
		Cancelled: s.cancelled.Load(), Ran: s.ran.Load(), Over: s.over.Load(),
	}
	all, _ := s.opts.Store.Known()
	for _, r := range all {
		if s.settle(r).GetState() == Waiting {
			out.Waiting++
		}
	}
	return out
}

// Refusal is the error of a call whose record does not let it run now.
func Refusal(r *statev1.ApprovalRecord) *errmap.Error {
	err := refusal(r)
	err.Rule = r.GetRule()
	return err
}

func refusal(r *statev1.ApprovalRecord) *errmap.Error {
	about := errmap.Tool(r.GetTool())
	switch r.GetState() {
	case Waiting, Approved:
		return errmap.New(errmap.ApprovalRequired, about, errmap.Message(fmt.Sprintf(
			"Approval required: rule %s wants %d to approve this call, and %d did; it waits until %s as %s",
			r.GetRule(), r.GetNeeded(), len(approvers(r)), r.GetExpires().AsTime().UTC().Format(time.RFC3339), r.GetId())))
	case Running:
		return errmap.Wrap(errmap.PermissionDenied, ErrRuns, about, errmap.Message("Permission denied: approval "+r.GetId()+" is for one call, which runs now"))
	case Done:
		return errmap.Wrap(errmap.PermissionDenied, ErrChanged, about, errmap.Message("Permission denied: approval "+r.GetId()+
			" was for one call, which has run; call again without the handle to ask for another"))
	case Denied:
		return errmap.New(errmap.PermissionDenied, about, errmap.Message("Permission denied: "+r.GetEnded()))
	}
	return errmap.New(errmap.PermissionDenied, about, errmap.Message("Permission denied: approval "+r.GetId()+" is "+r.GetState()+": "+r.GetEnded()))
}

// Unknown is the error of a call that a departed process may have run.
func Unknown(tool string) *errmap.Error {
	return errmap.New(errmap.TransportError, errmap.Tool(tool), errmap.Retryable(false),
		errmap.Message("Transport error: outcome unknown: the replica that ran the approved call stopped before it could finish"))
}

// Canonical is the canonical form of an error of a store.
func Canonical(ctx context.Context, err error) *errmap.Error {
	switch {
	case errors.Is(err, ErrNotFound):
		return errmap.Wrap(errmap.ResourceNotFound, err, errmap.Message("There is no such approval"))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
	case errors.Is(err, ErrFull):
		return errmap.Wrap(errmap.ResourceExhausted, err, errmap.Message("Approval not asked for: there is no room for another one"))
	case errors.Is(err, ErrUnavailable):
		return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: approvals cannot be reached now (--state); try again"))
	}
	return errmap.Wrap(errmap.InternalError, err)
}
