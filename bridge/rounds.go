// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"maps"
	"math"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// rounds joins the rounds of one request: it seals what the next one has to bring back, and asks the user for consent.
type rounds struct {
	previews *previews

	sealer *keys.Sealer
	spent  keys.SingleUse
}

// sealState seals a state for the caller and the request it belongs to. digest
// is that of the request without its answers.
func (r *rounds) sealState(caller string, digest [32]byte, s state) ([]byte, *errmap.Error) {
	token, err := r.sealer.Seal(keys.Binding{Purpose: purposeState, Principal: caller, Digest: digest}, s.encode())
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return []byte(token), nil
}

// openState opens what the caller brought back; an empty one is the state of a
// first round. A state that settles the sidecar's own question, or goes on with an approved call, counts once: on
// this replica, or with [Options.SingleUse] wherever that is shared; see decision 0009.
func (r *rounds) openState(ctx context.Context, caller string, digest [32]byte, token []byte, member string) (state, *errmap.Error) {
	if len(token) == 0 {
		return state{}, nil
	}
	plain, until, err := r.sealer.OpenUntil(keys.Binding{Purpose: purposeState, Principal: caller, Digest: digest}, string(token))
	s, ok := decodeState(plain)
	switch {
	case errors.Is(err, keys.ErrExpired):
		return state{}, staleState(member, "the request state has expired; call again without it")
	case err != nil || !ok:
		return state{}, staleState(member, "the request state does not belong to this request; return it unchanged, with the same parameters")
	}
	if !s.asked && !s.confirmed && s.approval == "" {
		return s, nil
	}
	fresh, err := r.spent.Spend(ctx, string(token), until)
	switch {
	case err != nil:
		return state{}, unspent(ctx, err)
	case !fresh:
		return state{}, staleState(member, "the request state was used before; call again without it")
	}
	return s, nil
}

// unspent is why it is not known whether a state was used before. Nothing was run with it, so the caller may bring it again.
func unspent(ctx context.Context, err error) *errmap.Error {
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
	}
	return errmap.Wrap(errmap.Unavailable, err, errmap.Retryable(true), errmap.RetryAfter(time.Second),
		errmap.Message("Tool service unavailable: the store that knows whether an answer was used before did not reply; send the answer again later"))
}

func staleState(member, message string) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{Path: member, Keyword: "state", Message: message}),
		errmap.Message("Invalid params: "+message))
}

// sealInput replaces the backend's own state in a question by a sealed one. settled is what the rounds up to this one have.
func (r *rounds) sealInput(req *Request, digest [32]byte, settled state, in *outriggerv1.InputRequired) *errmap.Error {
	if len(in.GetRequestState()) == 0 && !settled.confirmed && settled.approval == "" {
		return nil
	}
	sealed, err := r.sealState(req.Caller, digest, state{
		confirmed: settled.confirmed, approval: settled.approval, backend: in.GetRequestState(), asker: req.Span.Context(),
	})
	if err != nil {
		return err
	}
	in.RequestState = sealed
	return nil
}

// confirmKey is the key of the sidecar's own question among input requests. A
// backend's questions come in other rounds, so that it cannot collide.
const confirmKey = "outrigger_confirm"

// confirm asks the user before a destructive tool runs for a caller that is not
// trusted. The answer comes with a repetition of the call, which carries the
// sealed state of the first: a question that was not asked cannot be answered,
// and an answer is for these arguments. Each replica accepts it once, so the
// question does not promise a single run: replicas that share a key do not share
// what they have accepted.
func (r *rounds) confirm(ctx context.Context, c *toolCall) *errmap.Error {
	switch {
	case c.blocked == nil || c.state.confirmed:
		return nil
	case c.tool.Preview.Is(c.wire): // what is sent changes nothing
		return nil
	case c.isFirm:
		return c.blocked
	case c.req.part != nil && c.req.part.isConsented:
		c.state.confirmed = true
		return nil
	case !c.state.asked:
		return r.askUser(ctx, c)
	}
	answer := c.req.InputResponses[confirmKey].GetElicitation()
	if answer == nil {
		return r.askUser(ctx, c)
	}
	if yes, fault := content.Consents(answer); !yes {
		return unconsented(c.tool.Name, answer, fault)
	}
	c.state.confirmed = true
	others := maps.Clone(c.req.InputResponses)
	delete(others, confirmKey)
	c.req = c.req.again(others, c.req.RequestState)
	return nil
}

// unconsented says why an answer is no consent: a no, no answer, or one that cannot be read.
func unconsented(tool string, answer *outriggerv1.ElicitationResult, fault string) *errmap.Error {
	why, advice := "the user did not consent", "The user was asked and said no. Do not call it again unless the user wants it."
	switch {
	case fault != "":
		why = "the answer to the question accepts, but " + fault
		advice = "Call it again to ask the user again. To consent, accept with an empty form or none."
	case answer.GetAction() == outriggerv1.ElicitationAction_ELICITATION_ACTION_CANCEL:
		advice = "The user was asked and closed the question without an answer. Do not call it again unless the user wants it."
	}
	return errmap.New(errmap.DestructiveBlocked, errmap.Tool(tool),
		errmap.Message("Destructive tool blocked: "+tool+" was not run, because "+why), errmap.Advice(advice))
}

// askUser ends this round with the question.
func (r *rounds) askUser(ctx context.Context, c *toolCall) *errmap.Error {
	if err := r.previews.ask(ctx, c); err != nil {
		return err
	}
	sealed, err := r.sealState(c.req.Caller, c.digest(), state{asked: true, asker: c.req.Span.Context(), requestID: c.requestID})
	if err != nil {
		return err
	}
	arguments, words := c.argumentsShown(ctx, r.previews.rulebook.rules)
	c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{
		InputRequired: &outriggerv1.InputRequired{
			RequestState:  sealed,
			InputRequests: map[string]*outriggerv1.InputRequest{confirmKey: content.AskConsent(c.tool.Name, c.tool.Title, arguments, words, c.preview)},
		},
	}}
	return nil
}

// purposeState is the purpose of a sealed state: what was sealed for another is none.
const purposeState = "request-state"

// The first byte of a sealed state says what it has. Bits that are not set are of parts that are not there: so states of
// versions without them open.
const (
	stateAsked byte = 1 << iota
	stateConfirmed
	// stateTraced: the asker comes next, before the backend's own state.
	stateTraced
	// stateNumbered: the id of the request comes next, behind its length.
	stateNumbered
	// stateApproved: the id of the approval comes next, behind its length.
	stateApproved
)

func (s state) encode() []byte {
	var flags byte
	if s.asked {
		flags |= stateAsked
	}
	if s.confirmed {
		flags |= stateConfirmed
	}
	out := []byte{flags}
	if s.asker.IsValid() {
		out[0] |= stateTraced
		out = telemetry.AppendContext(out, s.asker)
	}
	for _, id := range [...]struct {
		flag byte
		is   string
	}{{stateNumbered, s.requestID}, {stateApproved, s.approval}} {
		if n := len(id.is); n > 0 && n <= math.MaxUint8 {
			out[0] |= id.flag
			out = append(append(out, byte(n)), id.is...)
		}
	}
	return append(out, s.backend...)
}

// decodeState undoes encode. It reports false for what encode does not make.
func decodeState(plain []byte) (state, bool) {
	if len(plain) == 0 {
		return state{}, false
	}
	s := state{asked: plain[0]&stateAsked != 0, confirmed: plain[0]&stateConfirmed != 0, backend: plain[1:]}
	if plain[0]&stateTraced != 0 {
		if len(s.backend) < telemetry.ContextSize {
			return state{}, false
		}
		s.asker, s.backend = telemetry.ReadContext(s.backend[:telemetry.ContextSize]), s.backend[telemetry.ContextSize:]
	}
	for _, id := range [...]struct {
		flag byte
		to   *string
	}{{stateNumbered, &s.requestID}, {stateApproved, &s.approval}} {
		if plain[0]&id.flag == 0 {
			continue
		}
		if len(s.backend) == 0 || len(s.backend) <= int(s.backend[0]) {
			return state{}, false
		}
		n := int(s.backend[0])
		*id.to, s.backend = string(s.backend[1:1+n]), s.backend[1+n:]
	}
	return s, true
}
