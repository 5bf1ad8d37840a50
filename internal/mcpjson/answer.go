// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"slices"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// ReadInputResponses reads the member "inputResponses" of a request: the answers to
// questions, by their keys. It is an error where it is no object, has more than 64
// keys, or a key that no question can have. An answer is never one; see
// ReadInputResponse.
func ReadInputResponses(raw []byte) (map[string]*outriggerv1.InputResponse, error) {
	var r reader
	out := make(map[string]*outriggerv1.InputResponse)
	for key, answer := range jsontext.Members(r.whole(raw)) {
		switch {
		case len(out) == maxAnswers:
			r.fail("Give at most %d answers.", maxAnswers)
		case key == "" || len(key) > maxWordBytes:
			r.fail("Make each key at least 1 and at most %d bytes long, as those of the questions are.", maxWordBytes)
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

// ReadInputResponse reads one answer of a client by its shape, since nothing says
// what it answers: an object with "action" is the result of an elicitation, one with
// "role" that of sampling, one with "roots" that of roots/list. What has not exactly
// one of these shapes, down to the kinds and bounds of its known members, is
// other_json with its exact bytes. A null content of an elicitation counts as absent,
// because clients send it with decline and cancel.
func ReadInputResponse(raw []byte) *outriggerv1.InputResponse {
	raw = jsontext.Trim(raw)
	var r reader
	out := new(outriggerv1.InputResponse)
	switch shapeOf(raw) {
	case "action":
		out.Response = &outriggerv1.InputResponse_Elicitation{Elicitation: r.elicitationResult(raw)}
	case "role":
		out.Response = &outriggerv1.InputResponse_Sampling{Sampling: r.samplingResult(raw)}
	case "roots":
		out.Response = &outriggerv1.InputResponse_Roots{Roots: r.rootsResult(raw)}
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

func (r *reader) elicitationResult(raw []byte) *outriggerv1.ElicitationResult {
	out := &outriggerv1.ElicitationResult{Action: r.action(raw)}
	if content, ok := jsontext.Lookup(raw, "content"); ok && !jsontext.IsNull(content) {
		if r.isForm(content) {
			out.ContentForm = &outriggerv1.ElicitationResult_ContentJson{ContentJson: content}
		}
	}
	if meta := r.meta(raw); meta != nil {
		out.MetaForm = &outriggerv1.ElicitationResult_MetaJson{MetaJson: meta}
	}
	return out
}

func (r *reader) action(raw []byte) outriggerv1.ElicitationAction {
	switch r.need(raw, "action", 1, maxWordBytes) {
	case "accept":
		return outriggerv1.ElicitationAction_ELICITATION_ACTION_ACCEPT
	case "decline":
		return outriggerv1.ElicitationAction_ELICITATION_ACTION_DECLINE
	case "cancel":
		return outriggerv1.ElicitationAction_ELICITATION_ACTION_CANCEL
	default:
		r.failIn("action", "Use accept, decline or cancel.")
		return outriggerv1.ElicitationAction_ELICITATION_ACTION_UNSPECIFIED
	}
}

// isForm checks a filled-in form: a string, number, boolean or list of strings for
// each property (MCP, ElicitResult).
func (r *reader) isForm(content []byte) bool {
	if !jsontext.IsObject(content) || len(content) > maxValueBytes {
		r.failIn("content", "Make it an object of at most %d bytes.", maxValueBytes)
		return false
	}
	for _, value := range jsontext.Members(content) {
		if !isFormValue(value) {
			r.failIn("content", "Make each value a string, number, boolean or list of strings.")
			return false
		}
	}
	return true
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

func (r *reader) rootsResult(raw []byte) *outriggerv1.ListRootsResult {
	out := new(outriggerv1.ListRootsResult)
	roots, _ := r.elements(raw, "roots", maxItems)
	for _, root := range roots {
		root = r.whole(root)
		one := &outriggerv1.Root{Uri: r.uri(root, "uri", maxURIBytes), Name: r.text(root, "name", maxNameBytes)}
		if meta := r.meta(root); meta != nil {
			one.MetaForm = &outriggerv1.Root_MetaJson{MetaJson: meta}
		}
		out.Roots = append(out.Roots, one)
	}
	if meta := r.meta(raw); meta != nil {
		out.MetaForm = &outriggerv1.ListRootsResult_MetaJson{MetaJson: meta}
	}
	return out
}

func (r *reader) samplingResult(raw []byte) *outriggerv1.SamplingResult {
	out := &outriggerv1.SamplingResult{
		Role:       r.role(r.need(raw, "role", 1, maxWordBytes)),
		Model:      r.need(raw, "model", 0, maxNameBytes),
		StopReason: r.text(raw, "stopReason", maxWordBytes),
	}
	content, _ := jsontext.Lookup(raw, "content")
	if jsontext.IsObject(content) {
		out.Content = []*outriggerv1.SamplingContent{r.samplingBlock(content)}
	} else {
		blocks, ok := r.elements(raw, "content", maxItems)
		if !ok {
			r.failIn("content", "MCP requires one block or an array of them.")
		}
		for _, block := range blocks {
			out.Content = append(out.Content, r.samplingBlock(block))
		}
	}
	if meta := r.meta(raw); meta != nil {
		out.MetaForm = &outriggerv1.SamplingResult_MetaJson{MetaJson: meta}
	}
	return out
}

// meta returns the _meta of an object, nil where there is none.
func (r *reader) meta(object []byte) []byte {
	meta, ok := r.object(object, "_meta")
	if ok && len(meta) > maxValueBytes {
		r.failIn("_meta", "Make it at most %d bytes long.", maxValueBytes)
	}
	return meta
}

func (r *reader) role(name string) outriggerv1.Role {
	switch name {
	case "user":
		return outriggerv1.Role_ROLE_USER
	case "assistant":
		return outriggerv1.Role_ROLE_ASSISTANT
	default:
		r.fail("Use one of the two roles, user or assistant.")
		return outriggerv1.Role_ROLE_UNSPECIFIED
	}
}

// roles reads an audience: each role at most once.
func (r *reader) roles(object []byte, name string) []outriggerv1.Role {
	elements, _ := r.elements(object, name, 2)
	var out []outriggerv1.Role
	for _, raw := range elements {
		role := r.role(r.textIn(raw, 1, maxWordBytes))
		if slices.Contains(out, role) {
			r.failIn(name, "Name each role once.")
		}
		out = append(out, role)
	}
	return out
}
