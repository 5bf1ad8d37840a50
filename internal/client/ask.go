// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Question is what a tool, or the sidecar before a destructive one, asks the user of a call.
type Question struct {
	// Message says what it is about.
	Message string
	// Form is the schema of the wanted object, with flat properties. It is empty where URL is the page to open in its place.
	Form json.RawMessage
	URL  string
}

// Actions of an [Answer].
const (
	ActionAccept  = "accept"
	ActionDecline = "decline"
	ActionCancel  = "cancel"
)

// Answer is what a user says to a [Question].
type Answer struct {
	Action string
	// Content is the form, with ActionAccept; nil where nothing was asked for.
	Content json.RawMessage
}

// Asker answers questions, one at a time. Its error, an [*Error], ends the call.
type Asker func(context.Context, *Question) (*Answer, error)

// maxRounds is how often one call or task may ask: a tool that asks again and again is not satisfied by any answer.
const maxRounds = 32

// The capability of a client with an [Asker], as MCP declares it. Revisions before 2025-11-25 know forms alone.
const (
	elicits      = `"elicitation":{"form":{},"url":{}}`
	elicitsForms = `"elicitation":{}`
)

const methodElicit = "elicitation/create"

// needsUser is the answer to a question where the user cannot be asked.
func needsUser() *Error {
	return Canonical(errmap.New(errmap.MissingClientCapability, errmap.Message("the tool asks its user a question"),
		errmap.Advice("Call it on a terminal, or pass --answer show to see the question.")))
}

// put has the question of one method answered, and returns the answer as MCP has it.
func (ask Asker) put(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if ask == nil || method != methodElicit {
		return nil, needsUser()
	}
	q := &Question{Form: present(params, "requestedSchema")}
	q.Message, _ = text(params, "message")
	if kind, _ := text(params, "mode"); kind == "url" {
		q.URL, _ = text(params, "url")
		q.Form = nil
	}
	a, err := ask(ctx, q)
	if err != nil {
		var told *Error
		if !errors.As(err, &told) {
			err = Canonical(errmap.Wrap(errmap.Cancelled, err))
		}
		return nil, err
	}
	out := jsontext.AppendString([]byte(`{"action":`), a.Action)
	if a.Action == ActionAccept && len(a.Content) > 0 {
		out = append(append(out, `,"content":`...), a.Content...)
	}
	return append(out, '}'), nil
}

// answers has all questions of a round answered, and returns the object of the answers.
func (ask Asker) answers(ctx context.Context, requests json.RawMessage) ([]byte, error) {
	out := []byte{'{'}
	for key, request := range jsontext.Members(requests) {
		method, _ := text(request, "method")
		params, _ := jsontext.Lookup(request, "params")
		answer, err := ask.put(ctx, method, params)
		if err != nil {
			return nil, err
		}
		out = append(append(member(out, key), ':'), answer...)
	}
	return append(out, '}'), nil
}

// about has the questions of a task answered, once.
func (ask Asker) about(ctx context.Context, t *Task) ([]byte, error) {
	if t.answers != nil {
		return t.answers, nil
	}
	requests, _ := jsontext.Lookup(t.JSON, "inputRequests")
	answers, err := ask.answers(ctx, requests)
	t.answers = answers
	return answers, err
}

// tooManyRounds is the end of a call that asks again and again.
func tooManyRounds() *Error {
	return Canonical(errmap.New(errmap.ResourceExhausted, errmap.Message(fmt.Sprintf("the tool asked its user %d times, and asks again", maxRounds))))
}
