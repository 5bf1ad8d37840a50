// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Dialogue is what has to be asked before a request can be answered: the
// questions of each round, by their keys. The number of the round travels in the
// request state, and nothing stays in the process.
type Dialogue []map[string]*outriggerv1.InputRequest

// turn is the part of a request that goes on with a dialogue.
type turn interface {
	GetContext() *outriggerv1.RequestContext
	GetRequestState() []byte
	GetInputResponses() map[string]*outriggerv1.InputResponse
}

// next returns what to ask now, nil where all is answered. An answer of another
// shape than the question's is none.
func (d Dialogue) next(t turn) (*outriggerv1.InputRequired, error) {
	round := 0
	if state := string(t.GetRequestState()); state != "" {
		if _, err := fmt.Sscanf(state, "round-%d", &round); err != nil || round < 1 || round > len(d) {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("there is no such state"))
		}
		if open(d[round-1], t.GetInputResponses()) {
			round-- // the same questions again
		}
	}
	if round == len(d) {
		return nil, nil //nolint:nilnil // nothing is left to ask
	}
	return &outriggerv1.InputRequired{InputRequests: d[round], RequestState: fmt.Appendf(nil, "round-%d", round+1)}, nil
}

// open reports whether a question has no answer yet.
func open(asked map[string]*outriggerv1.InputRequest, answers map[string]*outriggerv1.InputResponse) bool {
	for key, question := range asked {
		answer := answers[key]
		var ok bool
		switch question.GetRequest().(type) {
		case *outriggerv1.InputRequest_Elicitation:
			ok = answer.GetElicitation().GetAction() == outriggerv1.ElicitationAction_ELICITATION_ACTION_ACCEPT
		case *outriggerv1.InputRequest_Sampling:
			ok = answer.GetSampling() != nil
		case *outriggerv1.InputRequest_ListRoots:
			ok = answer.GetRoots() != nil
		}
		if !ok {
			return true
		}
	}
	return false
}

// AskForm is a question that the user answers in a form.
func AskForm(message, schema string) *outriggerv1.InputRequest {
	return &outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_Elicitation{Elicitation: &outriggerv1.Elicitation{
		Message: message,
		Mode: &outriggerv1.Elicitation_Form{Form: &outriggerv1.ElicitationForm{
			RequestedSchemaForm: &outriggerv1.ElicitationForm_RequestedSchemaJson{RequestedSchemaJson: []byte(schema)},
		}},
	}}}
}

// AskURL is a question that the user answers at a web address.
func AskURL(message, url string) *outriggerv1.InputRequest {
	return &outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_Elicitation{Elicitation: &outriggerv1.Elicitation{
		Message: message, Mode: &outriggerv1.Elicitation_Url{Url: &outriggerv1.ElicitationUrl{Url: url}},
	}}}
}

// AskModel is a question to the caller's language model.
func AskModel(text string) *outriggerv1.InputRequest {
	return &outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_Sampling{Sampling: &outriggerv1.Sampling{
		MaxTokens: 100,
		Messages: []*outriggerv1.SamplingMessage{{
			Role:    outriggerv1.Role_ROLE_USER,
			Content: []*outriggerv1.SamplingContent{{Block: &outriggerv1.SamplingContent_Text{Text: &outriggerv1.TextContent{Text: text}}}},
		}},
	}}}
}

// AskRoots is the question for the folders that the user opened.
func AskRoots() *outriggerv1.InputRequest {
	return &outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_ListRoots{ListRoots: &outriggerv1.ListRoots{}}}
}
