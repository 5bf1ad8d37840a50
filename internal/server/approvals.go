// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/webhook"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// shownToApprover returns what an operator with classes of fields may see of a call that waits: never the secret fields, as in the
// audit trail. A preview is in words, and says all or nothing.
func (a *App) shownToApprover(_ context.Context, r *statev1.ApprovalRecord, classes []string) (arguments, preview string) {
	cat := a.live.Current()
	if cat == nil {
		return "", ""
	}
	tool, ok := cat.Lookup(r.GetTool())
	if !ok {
		return "", "" // what is secret in them is not known
	}
	raw, preview := r.GetArgumentsJson(), r.GetPreview()
	if preview != "" && a.mayHide(classes, tool) {
		preview = "The preview is not shown: it may say what you may not see."
	}
	if view := a.rules.Visible(classes, tool); view != nil {
		if raw = visible(view, tool, raw); raw == nil {
			return "", ""
		}
	}
	var secret *redact.Message
	if md := tool.Method.Descriptor; md != nil {
		secret = new(redact.Messages).Of(md.Input())
	}
	names := redact.Redactor{Base: redact.NewNames(trail.RedactNames(a.cfg.GetRecord()))}
	return string(names.AppendMessage(nil, raw, len(raw), maxShownArguments, secret)), preview
}

// mayHide reports whether a preview of a tool may say what is secret, or what an operator with classes of fields does not see.
func (a *App) mayHide(classes []string, tool *catalog.Tool) bool {
	for _, one := range []*catalog.Tool{tool, tool.PreviewedBy()} {
		if a.rules.Visible(classes, one) != nil {
			return true
		}
		if md := one.Method.Descriptor; md != nil && new(redact.Messages).Of(md.Output()) != nil {
			return true
		}
	}
	return false
}

// visible is what a view shows of arguments; nil where that cannot be said.
func visible(view *policy.View, tool *catalog.Tool, raw []byte) []byte {
	if tool.Native {
		out, failed := view.ApplyJSON(raw)
		if failed != nil {
			return nil
		}
		return out
	}
	in := tool.In.Descriptor()
	whole, seen := dynamicpb.NewMessage(in), dynamicpb.NewMessage(in)
	if (protojson.UnmarshalOptions{AllowPartial: true, Resolver: tool.In.Types()}).Unmarshal(raw, whole) != nil {
		return nil
	}
	wire, err := proto.MarshalOptions{AllowPartial: true}.Marshal(whole)
	if err != nil {
		return nil
	}
	wire, failed := view.Apply(in, wire)
	if failed != nil || (proto.UnmarshalOptions{AllowPartial: true, Resolver: tool.In.Types()}).Unmarshal(wire, seen) != nil {
		return nil
	}
	out, err := protojson.MarshalOptions{AllowPartial: true, Resolver: tool.In.Types()}.Marshal(seen)
	if err != nil {
		return nil
	}
	return jsontext.Compact(nil, out)
}

// maxShownArguments bounds the arguments that an approver sees.
const maxShownArguments = 1 << 20

// The notifications about approvals on the event bus. Webhooks have what is after the slash, with a dot.
const (
	methodWaiting, methodDecided = "notifications/approvals/waiting", "notifications/approvals/decided"
	typeWaiting, typeDecided     = "approval.waiting", "approval.decided"
)

// approvalNews is what webhooks and subscribers of the event bus hear of a call: no arguments and no preview.
type approvalNews struct {
	Type      string             `json:"type"`
	ID        string             `json:"id"`
	Tool      string             `json:"tool"`
	Requester string             `json:"requester"`
	Rule      string             `json:"rule"`
	State     string             `json:"state"`
	Ended     string             `json:"ended,omitempty"`
	Created   time.Time          `json:"created"`
	Expires   time.Time          `json:"expires"`
	Needed    int32              `json:"needed"`
	Decisions []approvalDecision `json:"decisions"`
}

type approvalDecision struct {
	Approver string    `json:"approver"`
	Approved bool      `json:"approved"`
	Reason   string    `json:"reason"`
	Time     time.Time `json:"time"`
}

func newsOf(kind string, r *statev1.ApprovalRecord) approvalNews {
	out := approvalNews{
		Type: kind, ID: r.GetId(), Tool: r.GetTool(), Requester: r.GetRequester(), Rule: r.GetRule(), State: r.GetState(), Ended: r.GetEnded(),
		Created: r.GetCreated().AsTime(), Expires: r.GetExpires().AsTime(), Needed: r.GetNeeded(), Decisions: []approvalDecision{},
	}
	for _, d := range r.GetDecisions() {
		out.Decisions = append(out.Decisions, approvalDecision{d.GetApprover(), d.GetApproved(), d.GetReason(), d.GetTime().AsTime()})
	}
	return out
}

// tellApproval tells webhooks and the event bus of a call that began to wait, or that no longer does.
func (a *App) tellApproval(ctx context.Context, e approval.Event) {
	kind, method := typeDecided, methodDecided
	switch state := e.Record.GetState(); {
	case e.Kind == approval.EventAsked:
		kind, method = typeWaiting, methodWaiting
	case e.Kind == approval.EventDecided && state == approval.Waiting, e.Kind == approval.EventEnded && state == approval.Done:
		return // more must decide; it was decided before
	}
	body, err := json.Marshal(newsOf(kind, e.Record))
	if err != nil {
		return // it has nothing that JSON has not
	}
	a.webhooks.Send(e.Record.GetId()+"."+e.Record.GetState(), body)
	if _, err := a.shared.Bus.Publish(ctx, notify.Event{Method: method, Params: body}); err != nil {
		a.noted.Info("notification not delivered to the event bus", zap.String(logkey.Method, method), logkey.Error(err))
	}
}

// maxApprovalEvents bounds the changes of approvals that others have not heard of yet: the bus may be away for some seconds.
const maxApprovalEvents = 1024

// approvalHappened notes what this replica did about an approval: in the audit trail, and for others to hear of.
func (a *App) approvalHappened(e approval.Event) {
	a.auditApproval(e)
	select {
	case a.approvalEvents <- e:
	default:
		a.noted.Warn("webhooks and subscribers did not hear of an approval: too many at a time")
	}
}

// tellApprovals tells others of approvals until ctx ends.
func (a *App) tellApprovals(ctx context.Context) {
	for {
		select {
		case e := <-a.approvalEvents:
			a.tellApproval(ctx, e)
		case <-ctx.Done():
			return
		}
	}
}

// openWebhooks makes what tells others of approvals, which begins with Run.
func (a *App) openWebhooks() error {
	var err error
	a.webhooks, err = webhook.New(webhook.Options{Config: a.cfg, Log: a.noted.Named("approvals")})
	if err != nil {
		return err
	}
	a.webhooks.Watch(a.watcher)
	return nil
}

// approvalRule is a rule in use that has others approve calls.
func (a *App) approvalRule(name string) (approval.Rule, bool) {
	asks, ok := a.rules.Asks(name)
	return approval.Rule{
		Name: asks.Rule, Callers: asks.Callers, Groups: asks.Groups, Count: asks.Count, Within: asks.Within, Bound: asks.Bound, Digest: asks.Digest,
	}, ok
}

// Approvals returns the calls that wait for approval.
func (a *App) Approvals() *approval.Service { return a.approvals }

// approver is an operator as it is now. Where there is no admin listener, it is the one who runs the process.
func (a *App) approver(name string) (approval.Approver, bool) {
	if a.front == nil {
		return approval.Approver{Name: name}, name == "local" && !config.HasOperators(a.cfg)
	}
	return a.front.ApproverNamed(name)
}

// callerNamed is a caller as it is now, by the name of its entry; nil if there is none.
func (a *App) callerNamed(name string) *identity.Identity {
	if a.front == nil {
		return nil
	}
	return a.front.CallerNamed(name)
}

// callerAgain is a caller of OAuth as it is now, by what its token said; nil if that is not known.
func (a *App) callerAgain(f identity.Facts, standing []byte) *identity.Identity {
	if a.front == nil {
		return nil
	}
	return a.front.CallerAgain(f, standing)
}

// auditApproval writes the line of what this process did about an approval, with the names of both sides.
func (a *App) auditApproval(e approval.Event) {
	r := e.Record
	change := trail.Change{
		Kind: "approval", Who: trail.Caller{Name: r.GetRequester()}, Tool: r.GetTool(), Before: approval.Waiting, After: r.GetState(),
		Detail: "approval " + r.GetId() + " by rule " + r.GetRule() + ", requester " + r.GetRequester(),
	}
	switch decisions := r.GetDecisions(); {
	case e.Kind == approval.EventAsked:
		change.Before = ""
	case e.Kind == approval.EventDecided && len(decisions) > 0:
		last := decisions[len(decisions)-1]
		verb := "denied"
		if last.GetApproved() {
			verb = "approved"
		}
		change.Who, change.Detail = trail.OfOperator(last.GetApprover()), change.Detail+"; "+verb+" by "+last.GetApprover()+": "+last.GetReason()
	default:
		change.Who = trail.OfProcess()
		for _, d := range decisions {
			change.Detail += "; decided by " + d.GetApprover()
		}
		if r.GetEnded() != "" {
			change.Detail += "; " + r.GetEnded()
		}
	}
	a.trail.Change(change)
}
