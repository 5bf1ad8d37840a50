// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/client"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// showAnswer is the value of --answer that prints a question in place of answering it.
const showAnswer = "show"

// answerHint says how a question gets an answer where the command could not be asked.
const answerHint = "If the sidecar or the tool asks its user (not over /rpc), answer on a terminal, or with --answer: show prints the question and runs nothing."

// questions answers what tools ask their user: from --answer, else by the person at the terminal.
type questions struct {
	answers []string
	env     environment
	// clear removes what is on the last line of the terminal; nil for nothing.
	clear func()
	// lines are what the person types; nil before the first question.
	lines chan string
}

func (q *questions) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&q.answers, "answer", nil, "answer to a question of the tool: accept, decline, cancel, a JSON object, or show to print it")
}

// asker is what answers questions; nil where nothing does, which the running sidecar is to know.
func (q *questions) asker(env environment) (client.Asker, error) {
	for _, a := range q.answers {
		if slices.Contains([]string{client.ActionAccept, client.ActionDecline, client.ActionCancel, showAnswer}, a) {
			continue
		}
		if fault := jsonrpc.Check([]byte(a), jsonrpc.Limits{}.WithDefaults()); fault != nil || !jsontext.IsObject(bytes.TrimSpace([]byte(a))) {
			return nil, usageError(fmt.Sprintf("--answer: must be accept, decline, cancel, show or a JSON object, is %q", a))
		}
	}
	q.env = env
	switch {
	case len(q.answers) > 0:
		return q.given, nil
	case isTerminal(env.stdin) && isTerminal(env.stderr):
		return q.typed, nil
	}
	return nil, nil //nolint:nilnil // nil is valid: the user cannot be asked
}

// hint adds to an error how to answer, if the user could have been asked and was not.
func (q *questions) hint(env environment, err error) error {
	var failed *client.Error
	isAsked := len(q.answers) > 0 || isTerminal(env.stdin) && isTerminal(env.stderr)
	if !isAsked && errors.As(err, &failed) && (failed.Code == errmap.MissingClientCapability || failed.Code == errmap.DestructiveBlocked) {
		err = env.told(err)
		fmt.Fprintln(env.stderr, answerHint)
	}
	return err
}

// questionForm is what a question asks for.
type questionForm struct {
	fields []formField
	whole  *schema.Validator
}

type formField struct {
	name, kind, about string
	required          bool
	// fallback is the default; nil for none.
	fallback json.RawMessage
	// choices are what a value must be one of; nil for anything. isList: any number of them.
	choices []formChoice
	isList  bool
	rules   *schema.Validator
}

type formChoice struct {
	title string
	value json.RawMessage
}

// readForm reads the schema of a question. A question without one is for a yes or a no.
func readForm(raw json.RawMessage) (*questionForm, error) {
	f := &questionForm{}
	if len(raw) == 0 {
		return f, nil
	}
	var err error
	if f.whole, err = schema.Prepare(raw); err != nil {
		return nil, client.Canonical(errmap.New(errmap.TransportError, errmap.Messagef("the question of the tool has a form that cannot be used: %v", err)))
	}
	properties, _ := jsontext.Lookup(raw, "properties")
	required, _ := jsontext.Lookup(raw, "required")
	for name, property := range jsontext.Members(properties) {
		field := formField{name: name}
		for one := range jsontext.Elements(required) {
			text, _ := jsontext.Text(one)
			field.required = field.required || text == name
		}
		if field.rules, err = schema.Prepare(property); err != nil {
			return nil, client.Canonical(errmap.New(errmap.TransportError, errmap.Messagef("the field %s of the question of the tool cannot be used: %v", name, err)))
		}
		field.read(property)
		f.fields = append(f.fields, field)
	}
	return f, nil
}

// read reads the schema of a field: that of a text, a number, a yes or no, or a choice.
func (f *formField) read(property json.RawMessage) {
	f.kind = textOf(property, "type")
	f.about = textOf(property, "description")
	if f.about == "" {
		f.about = textOf(property, "title")
	}
	f.fallback, _ = jsontext.Lookup(property, "default")
	choices := property
	if f.kind == "array" {
		f.isList = true
		choices, _ = jsontext.Lookup(property, "items")
	}
	names, _ := jsontext.Lookup(choices, "enumNames") // of 2025-06-18
	titles := slices.Collect(jsontext.Elements(names))
	values, _ := jsontext.Lookup(choices, "enum")
	for value := range jsontext.Elements(values) {
		one := formChoice{value: value}
		if n := len(f.choices); n < len(titles) {
			one.title, _ = jsontext.Text(titles[n])
		}
		f.choices = append(f.choices, one)
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		among, _ := jsontext.Lookup(choices, keyword)
		for one := range jsontext.Elements(among) {
			if value, ok := jsontext.Lookup(one, "const"); ok {
				f.choices = append(f.choices, formChoice{title: textOf(one, "title"), value: value})
			}
		}
	}
	f.kind = f.words(property)
}

// words say what a value may be.
func (f *formField) words(property json.RawMessage) string {
	var parts []string
	switch {
	case len(f.choices) > 0:
		shown := make([]string, len(f.choices))
		for i, c := range f.choices {
			shown[i] = plainOf(c.value)
			if c.title != "" && c.title != shown[i] {
				shown[i] += " (" + c.title + ")"
			}
		}
		text := "one of " + strings.Join(shown, ", ")
		if f.isList {
			text = "any of " + strings.Join(shown, ", ") + ", separated by commas"
		}
		parts = append(parts, text)
	case f.kind == "boolean":
		parts = append(parts, "yes or no")
	case f.kind == "string":
		parts = append(parts, "text", textOf(property, "format"), bounds(property, "minLength", "maxLength", " characters"))
	case f.kind == "integer", f.kind == "number":
		parts = append(parts, f.kind, bounds(property, "minimum", "maximum", ""))
	default:
		parts = append(parts, "JSON")
	}
	if f.required {
		parts = append(parts, "required")
	}
	if f.fallback != nil {
		parts = append(parts, "default "+plainOf(f.fallback))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// bounds says which of two bounds there are.
func bounds(property json.RawMessage, least, most, unit string) string {
	low, hasLow := jsontext.Lookup(property, least)
	high, hasHigh := jsontext.Lookup(property, most)
	switch {
	case hasLow && hasHigh:
		return string(low) + " to " + string(high) + unit
	case hasLow:
		return "at least " + string(low) + unit
	case hasHigh:
		return "at most " + string(high) + unit
	}
	return ""
}

// textOf is a member that is a string; empty for any other.
func textOf(object json.RawMessage, name string) string {
	raw, _ := jsontext.Lookup(object, name)
	text, _ := jsontext.Text(raw)
	return text
}

// plainOf is a value as a person types it.
func plainOf(value json.RawMessage) string {
	if text, ok := jsontext.Text(value); ok {
		return text
	}
	switch string(value) {
	case "true":
		return "yes"
	case "false":
		return "no"
	}
	if len(value) > 0 && value[0] == '[' {
		var all []string
		for one := range jsontext.Elements(value) {
			all = append(all, plainOf(one))
		}
		return strings.Join(all, ",")
	}
	return string(jsontext.Compact(nil, value))
}

// value reads what a person typed; nil for nothing. fault says what was wanted.
func (f *formField) value(ctx context.Context, typed string) (value json.RawMessage, fault string) {
	switch {
	case typed == "" && f.fallback != nil:
		value = f.fallback
	case typed == "" && f.required:
		return nil, f.name + " is required"
	case typed == "":
		return nil, ""
	case f.isList && len(f.choices) > 0:
		value = json.RawMessage{'['}
		for one := range strings.SplitSeq(typed, ",") {
			if len(value) > 1 {
				value = append(value, ',')
			}
			value = append(value, f.choice(strings.TrimSpace(one))...)
		}
		value = append(value, ']')
	case len(f.choices) > 0:
		value = f.choice(typed)
	case strings.HasPrefix(f.kind, "yes or no"):
		value = map[string]json.RawMessage{"y": json.RawMessage("true"), "n": json.RawMessage("false")}[strings.ToLower(typed[:1])]
		if value == nil {
			return nil, "want yes or no"
		}
	case strings.HasPrefix(f.kind, "text"):
		value = jsontext.AppendString(nil, typed)
	default:
		value = json.RawMessage(typed)
		if jsonrpc.Check(value, jsonrpc.Limits{}.WithDefaults()) != nil {
			return nil, "want " + f.kind
		}
	}
	return value, violated(ctx, f.rules, value)
}

// choice is the value of a choice by its value or title; what is none is for the schema to refuse.
func (f *formField) choice(typed string) json.RawMessage {
	for _, c := range f.choices {
		if plain := plainOf(c.value); strings.EqualFold(typed, plain) || strings.EqualFold(typed, c.title) {
			return c.value
		}
	}
	return jsontext.AppendString(nil, typed)
}

// violated says what a schema refuses about a value; empty for nothing.
func violated(ctx context.Context, rules *schema.Validator, value []byte) string {
	if rules == nil {
		return ""
	}
	found, err := rules.ValidateContext(ctx, value)
	if err != nil {
		return err.Error()
	}
	texts := make([]string, len(found))
	for i, v := range found {
		texts[i] = strings.TrimSpace(v.Path + " " + v.Message)
	}
	return strings.Join(texts, "; ")
}

// given answers from --answer, in order.
func (q *questions) given(ctx context.Context, asked *client.Question) (*client.Answer, error) {
	f, err := readForm(asked.Form)
	if err != nil {
		return nil, err
	}
	if len(q.answers) == 0 {
		return nil, q.shown(asked, f, "the tool asks its user one more question: ")
	}
	a := q.answers[0]
	q.answers = q.answers[1:]
	content := json.RawMessage(`{}`)
	switch a {
	case client.ActionDecline, client.ActionCancel:
		return &client.Answer{Action: a}, nil
	case showAnswer:
		return nil, q.shown(asked, f, "the tool asks its user: ")
	case client.ActionAccept:
	default:
		content = json.RawMessage(a)
	}
	if fault := violated(ctx, f.whole, content); fault != "" {
		return nil, q.shown(asked, f, "--answer does not fit ("+fault+"), and nothing was sent. The tool asks its user: ")
	}
	if asked.URL != "" {
		content = nil
	}
	return &client.Answer{Action: client.ActionAccept, Content: content}, nil
}

// shown is the error that shows a question, with what to pass.
func (*questions) shown(asked *client.Question, f *questionForm, intro string) error {
	var text strings.Builder
	text.WriteString(intro + asked.Message)
	for _, field := range f.fields {
		text.WriteString("\n- " + field.name + ": " + field.kind)
		if field.about != "" {
			text.WriteString(". " + field.about)
		}
	}
	answer := client.ActionAccept
	switch {
	case asked.URL != "":
		text.WriteString("\nIt asks to open " + asked.URL)
	case len(f.fields) > 0:
		answer = quoted(string(jsontext.Visible((&client.Tool{Input: asked.Form}).Sample(), 0)))
	}
	return client.Canonical(errmap.New(errmap.MissingClientCapability, errmap.Message(text.String()),
		errmap.Advice("Pass --answer "+answer+", or --answer decline, once for each question in its order.")))
}

// typed has the person at the terminal answer. The end of input dismisses the question; Ctrl-C ends the call.
func (q *questions) typed(ctx context.Context, asked *client.Question) (*client.Answer, error) {
	f, err := readForm(asked.Form)
	if err != nil {
		return nil, err
	}
	if q.clear != nil {
		q.clear()
	}
	fmt.Fprintln(q.env.stderr, harmless(asked.Message))
	if asked.URL != "" {
		fmt.Fprintln(q.env.stderr, "Open "+plainText(asked.URL))
	}
	for {
		content, isWhole, err := q.fill(ctx, f)
		if err != nil {
			return nil, err
		}
		if !isWhole {
			return &client.Answer{Action: client.ActionCancel}, nil
		}
		if fault := violated(ctx, f.whole, content); fault != "" {
			fmt.Fprintln(q.env.stderr, plainText(fault)+". Once more:")
			continue
		}
		prompt := "yes or no? [y/N] "
		switch {
		case asked.URL != "":
			prompt = "Did you open it? [y/N] "
			content = nil
		case len(f.fields) > 0:
			prompt = "Send this? [y/N] "
		}
		line, isThere, err := q.line(ctx, prompt)
		switch yes := strings.ToLower(line); {
		case err != nil:
			return nil, err
		case !isThere:
			return &client.Answer{Action: client.ActionCancel}, nil
		case yes == "y" || yes == "yes":
			return &client.Answer{Action: client.ActionAccept, Content: content}, nil
		}
		return &client.Answer{Action: client.ActionDecline}, nil
	}
}

// fill asks for each field until its value fits. It is false where the input ended.
func (q *questions) fill(ctx context.Context, f *questionForm) (content json.RawMessage, isWhole bool, err error) {
	content = json.RawMessage{'{'}
	for _, field := range f.fields {
		if field.about != "" {
			fmt.Fprintln(q.env.stderr, plainText(field.about))
		}
		for {
			line, isThere, err := q.line(ctx, plainText(field.name+" ("+field.kind+")")+": ")
			if err != nil || !isThere {
				return nil, false, err
			}
			value, fault := field.value(ctx, line)
			if fault != "" {
				fmt.Fprintln(q.env.stderr, plainText(fault))
				continue
			}
			if value != nil {
				if len(content) > 1 {
					content = append(content, ',')
				}
				content = append(append(jsontext.AppendString(content, field.name), ':'), value...)
			}
			break
		}
	}
	return append(content, '}'), true, nil
}

// line prints a prompt and returns what the person types. It is false where the input ended.
func (q *questions) line(ctx context.Context, prompt string) (line string, isThere bool, err error) {
	if q.lines == nil {
		q.lines = make(chan string)
		go func() { // it ends with the input or, as the command does not read on, with the process
			defer close(q.lines)
			for scan := bufio.NewScanner(q.env.stdin); scan.Scan(); {
				q.lines <- scan.Text()
			}
		}()
	}
	fmt.Fprint(q.env.stderr, prompt)
	select {
	case line, isThere = <-q.lines:
		if !isThere {
			fmt.Fprintln(q.env.stderr)
		}
		return strings.TrimSpace(line), isThere, nil
	case <-ctx.Done():
		fmt.Fprintln(q.env.stderr)
		code := errmap.Cancelled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			code = errmap.Timeout
		}
		return "", false, client.Canonical(errmap.New(code, errmap.Message("the question of the tool got no answer; nothing was sent")))
	}
}
