// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"maps"
	"reflect"
	"slices"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// The methods of questions to a client.
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
	methodRoots  = "roots/list"
)

// AppendInputRequests appends the object "inputRequests" of MCP 2026-07-28: each
// question as {"method", "params"} under its key, sorted by key.
func AppendInputRequests(dst []byte, requests map[string]*outriggerv1.InputRequest) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.questions(requests)
	return w.done()
}

func (w *writer) questions(requests map[string]*outriggerv1.InputRequest) {
	w.enter("input_requests")
	w.raw("{")
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		request := requests[key]
		w.key(key)
		w.enter(key)
		w.raw(`{"method":"` + questionMethod(request) + `","params":`)
		w.question(request)
		w.raw("}")
		w.leave()
	}
	w.raw("}")
	w.leave()
}

// AppendInputRequest appends the params of a question to dst and returns them with the
// method of the question as a request from the server, the form that the legacy
// revisions use. A question that the revision cannot express is an *UnsupportedError.
// An elicitation by URL needs an elicitation_id in 2025-11-25: generate one if the
// backend omitted it.
func AppendInputRequest(dst []byte, request *outriggerv1.InputRequest, rev Revision) (method string, params []byte, err error) {
	w := newWriter(dst, rev)
	w.question(request)
	params, err = w.done()
	return questionMethod(request), params, err
}

func questionMethod(request *outriggerv1.InputRequest) string {
	switch request.GetRequest().(type) {
	case *outriggerv1.InputRequest_Elicitation:
		return methodElicit
	case *outriggerv1.InputRequest_Sampling:
		return methodSample
	case *outriggerv1.InputRequest_ListRoots:
		return methodRoots
	default:
		return ""
	}
}

// question appends the params of a question.
func (w *writer) question(request *outriggerv1.InputRequest) {
	w.raw("{")
	switch q := request.GetRequest().(type) {
	case *outriggerv1.InputRequest_Elicitation:
		w.enter("elicitation")
		w.elicitation(q.Elicitation)
		w.leave()
	case *outriggerv1.InputRequest_Sampling:
		w.enter("sampling")
		w.sampling(q.Sampling)
		w.leave()
	case *outriggerv1.InputRequest_ListRoots:
		w.enter("list_roots")
		w.members(q.ListRoots)
		w.leave()
	default:
		w.fail("Set what is asked.")
	}
	w.raw("}")
}

func (w *writer) elicitation(e *outriggerv1.Elicitation) {
	if !w.rev.hasElicitation() {
		w.unsupported("elicitation")
	}
	p := planOf(e)
	v := p.at(reflect.ValueOf(e))
	switch mode := e.GetMode().(type) {
	case *outriggerv1.Elicitation_Form:
		if w.rev.hasModes() {
			w.raw(`"mode":"form"`)
		}
		w.write(p.field("message"), v)
		w.enter("form")
		w.requestedSchema(mode.Form)
		w.leave()
	case *outriggerv1.Elicitation_Url:
		if !w.rev.hasModes() {
			w.unsupported("elicitation by URL")
		}
		w.raw(`"mode":"url"`)
		w.write(p.field("message"), v)
		w.enter("url")
		w.members(mode.Url)
		if w.rev.namesElicitations() {
			w.require("elicitation_id", mode.Url.GetElicitationId())
			w.member("elicitationId")
			w.quote(mode.Url.GetElicitationId())
		}
		w.leave()
	default:
		w.fail("Set how to ask, form or url.")
	}
	w.write(p.field("meta"), v)
}

// requestedSchema appends the schema of a form, unchanged. MCP requires its type
// and its properties (ElicitRequestFormParams).
func (w *writer) requestedSchema(f *outriggerv1.ElicitationForm) {
	text := f.GetRequestedSchemaJson()
	w.enter(formName("requested_schema_json", text))
	defer w.leave()
	schema := w.freeForm(text, f.GetRequestedSchema())
	properties, _ := jsontext.Lookup(schema, "properties")
	if !isObjectSchema(schema) || !jsontext.IsObject(properties) {
		w.fail(`Give a JSON Schema with "type": "object" and "properties".`)
		return
	}
	w.member("requestedSchema")
	w.dst = append(w.dst, schema...)
}
