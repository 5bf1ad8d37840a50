// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// ReadInputResponses reads the member "inputResponses" of a request: the answers to
// questions, by key. It is an error if the member is not an object, has more than 64
// keys, or has a key that no question can have. An answer itself never causes an error;
// see ReadInputResponse.
func ReadInputResponses(raw []byte) (map[string]*outriggerv1.InputResponse, error) {
	var r reader
	rules := compiled().answers
	out := make(map[string]*outriggerv1.InputResponse)
	for key, answer := range jsontext.Members(r.whole(raw)) {
		switch {
		case len(out) == rules.MaxItems:
			r.fail("Give at most %d answers.", rules.MaxItems)
		case key == "" || len(key) > rules.Keys.MaxBytes:
			r.fail("Make each key at least 1 and at most %d bytes long, as those of the questions are.", rules.Keys.MaxBytes)
		default:
			out[key] = ReadInputResponse(answer)
			continue
		}
		break
	}
	if r.err != nil {
		return nil, r.err
	}
	return out, nil
}

// ReadInputResponse reads one answer of a client by its shape, since nothing names the
// question. An object with "action" is the result of an elicitation, one with "role"
// that of sampling, one with "roots" that of roots/list. An answer that does not match
// exactly one of these shapes, down to the types and bounds of its known members, is
// other_json with its exact bytes. A null content of an elicitation counts as absent,
// because clients send it with decline and cancel.
func ReadInputResponse(raw []byte) *outriggerv1.InputResponse {
	raw = jsontext.Trim(raw)
	var r reader
	out := new(outriggerv1.InputResponse)
	switch shapeOf(raw) {
	case "action":
		answer := new(outriggerv1.ElicitationResult)
		r.message(raw, answer)
		out.Response = &outriggerv1.InputResponse_Elicitation{Elicitation: answer}
	case "role":
		answer := new(outriggerv1.SamplingResult)
		r.message(raw, answer)
		out.Response = &outriggerv1.InputResponse_Sampling{Sampling: answer}
	case "roots":
		answer := new(outriggerv1.ListRootsResult)
		r.message(raw, answer)
		out.Response = &outriggerv1.InputResponse_Roots{Roots: answer}
	default:
		r.fail("It has none of the shapes.")
	}
	if r.err != nil {
		out.Response = &outriggerv1.InputResponse_OtherJson{OtherJson: raw}
	}
	return out
}

// shapeOf returns the one member that tells the shape of an answer; empty where
// there is none, or more than one.
func shapeOf(raw []byte) string {
	shape := ""
	for _, name := range []string{"action", "role", "roots"} {
		if _, ok := jsontext.Lookup(raw, name); !ok {
			continue
		}
		if shape != "" {
			return ""
		}
		shape = name
	}
	return shape
}

// form checks a filled-in form: a string, number, boolean or list of strings for
// each property (MCP, ElicitResult).
func (r *reader) form(content []byte) {
	for _, value := range jsontext.Members(content) {
		if !isFormValue(value) {
			r.fail("Make each value a string, number, boolean or list of strings.")
		}
	}
}

func isFormValue(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	switch raw[0] {
	case '{', 'n':
		return false
	case '[':
		for element := range jsontext.Elements(raw) {
			if element[0] != '"' {
				return false
			}
		}
	}
	return true
}
