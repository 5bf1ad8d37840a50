// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"maps"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
)

// confirmKey is the key of the sidecar's own question among input requests. A
// backend's questions come in other rounds, so that it cannot collide.
const confirmKey = "outrigger_confirm"

// confirmSchema is the form of that question.
const confirmSchema = `{"type":"object","properties":{"confirm":{"type":"boolean","title":"Run it",` +
	`"description":"Yes runs the tool with these arguments."}},"required":["confirm"]}`

// maxShownArguments bounds how much of the arguments the question repeats.
const maxShownArguments = 2048

// confirm asks the user before a destructive tool runs for a caller that is not
// trusted. The answer comes with a repetition of the call, which carries the
// sealed state of the first: a question that was not asked cannot be answered,
// and an answer is for these arguments. Each replica accepts it once, so the
// question does not promise a single run: replicas that share a key do not share
// what they have accepted.
func (b *Bridge) confirm(_ context.Context, c *toolCall) *errmap.Error {
	if c.blocked == nil || c.state.confirmed {
		return nil
	}
	if !c.state.asked {
		return b.askUser(c)
	}
	answer := c.req.InputResponses[confirmKey].GetElicitation()
	if answer == nil {
		return b.askUser(c)
	}
	// What cannot be read is no consent.
	content, _ := mcpjson.FreeForm(answer.GetContentJson(), answer.GetContent())
	yes, _ := jsontext.Lookup(content, "confirm")
	if answer.GetAction() != outriggerv1.ElicitationAction_ELICITATION_ACTION_ACCEPT || string(yes) != "true" {
		return errmap.New(errmap.DestructiveBlocked, errmap.Tool(c.tool.Name),
			errmap.Message("Destructive tool blocked: "+c.tool.Name+" was not run, because the user did not consent"),
			errmap.Advice("The user was asked and said no. Do not call it again unless the user wants it."))
	}
	c.state.confirmed = true
	others := maps.Clone(c.req.InputResponses)
	delete(others, confirmKey)
	c.req = c.req.again(others, c.req.RequestState)
	return nil
}

// askUser ends this round with the question.
func (b *Bridge) askUser(c *toolCall) *errmap.Error {
	sealed, err := b.sealState(c.req.Caller, c.digest(), state{asked: true})
	if err != nil {
		return err
	}
	c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{
		InputRequired: &outriggerv1.InputRequired{
			RequestState: sealed,
			InputRequests: map[string]*outriggerv1.InputRequest{confirmKey: {
				Request: &outriggerv1.InputRequest_Elicitation{Elicitation: &outriggerv1.Elicitation{
					Message: confirmMessage(c),
					Mode: &outriggerv1.Elicitation_Form{Form: &outriggerv1.ElicitationForm{
						RequestedSchemaForm: &outriggerv1.ElicitationForm_RequestedSchemaJson{RequestedSchemaJson: []byte(confirmSchema)},
					}},
				}},
			}},
		},
	}}
	return nil
}

// confirmMessage tells the user what would run. The arguments are shown as they
// are, because they are what the consent is for.
func confirmMessage(c *toolCall) string {
	arguments := c.arguments()
	text := string(jsontext.Compact(nil, arguments))
	if len(text) > maxShownArguments {
		text = strings.ToValidUTF8(text[:maxShownArguments], "") + " ..."
	}
	return "The tool " + c.tool.Name + " (" + c.tool.Title + ") is marked destructive: its changes may be irreversible. " +
		"Run it with " + text + "?"
}

// mayAsk reports whether a call that the gate holds back can be put to the user:
// the policy says so, and the caller's client has a form for it.
func (b *Bridge) mayAsk(c *toolCall) bool {
	if !b.opts.Confirm || c.req.Arguments.Encoding != EncodingJSON {
		return false
	}
	var err *errmap.Error
	if c.req, err = c.req.complete(); err != nil {
		return false
	}
	return c.req.Context.GetCapabilities().GetElicitation().GetForm()
}
