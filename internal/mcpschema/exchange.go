// SPDX-License-Identifier: Apache-2.0

package mcpschema

import (
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// CheckExchange checks a request and its reply. Who sends the request follows
// from its method.
func (s *Schema) CheckExchange(request, reply []byte) error {
	if err := s.CheckMessage(s.sender(request), request); err != nil {
		return err
	}
	return s.CheckReply(request, reply)
}

// CheckReply checks a reply to a request, which need not be a valid one where
// the reply is an error. A result is checked by the definition that belongs to
// the request's method; in the modern era also by its resultType and by what the
// request's capabilities admit.
func (s *Schema) CheckReply(request, reply []byte) error {
	req := jsonrpc.Parse(request, jsonrpc.ProfileMCP, jsonrpc.Limits{})
	from := FromClient + FromServer - s.sender(request)
	if err := s.CheckMessage(from, reply); err != nil {
		return err
	}
	m := jsonrpc.Parse(reply, jsonrpc.ProfileMCP, jsonrpc.Limits{})
	if err := s.checkReplyID(&req, &m); err != nil {
		return err
	}
	switch m.Kind {
	case jsonrpc.KindError:
		return nil
	case jsonrpc.KindSuccess:
	default:
		return s.errorf("a %s is no reply", m.Kind)
	}
	if req.Fault != nil || req.Kind != jsonrpc.KindRequest {
		return s.errorf("a result for what is no valid request")
	}
	def := s.results[req.Method]
	if def == "" {
		return s.errorf("unknown method %q: this revision has no result for it", req.Method)
	}
	if s.modern {
		return s.checkModernResult(def, &req, m.Result)
	}
	if def == emptyResult && string(jsontext.Compact(nil, m.Result)) != "{}" {
		return s.errorf("the result of %s is to be {}, not %s", req.Method, m.Result)
	}
	return s.Check(def, m.Result)
}

// checkReplyID wants the request's id back, type and all. Where a response was
// sent instead of a request, its id is not one of the answerer's.
func (s *Schema) checkReplyID(req, reply *jsonrpc.Message) error {
	want := req.ID
	if req.Kind == jsonrpc.KindSuccess || req.Kind == jsonrpc.KindError {
		want = jsonrpc.ID{}
	}
	if !reply.ID.Equal(want) {
		return s.errorf("the reply's id is %s, the request's %s", shownID(reply.ID), shownID(want))
	}
	return nil
}

func shownID(id jsonrpc.ID) string {
	if id.IsZero() {
		return "absent"
	}
	return string(id.Raw())
}

// sender is the server only for what the client cannot send.
func (s *Schema) sender(request []byte) Direction {
	envelope := jsonrpc.Read(request, jsonrpc.Limits{})
	method := envelope.Method()
	if s.requests[FromClient][method] == "" && s.requests[FromServer][method] != "" {
		return FromServer
	}
	return FromClient
}

// The kinds of results of the modern era.
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
	resultTask          = "task"
)

func (s *Schema) resultType(result []byte) (string, error) {
	raw, ok := jsontext.Lookup(result, "resultType")
	if !ok {
		return "", s.errorf("the result lacks resultType")
	}
	switch kind, _ := jsontext.Text(raw); kind {
	case resultComplete, resultInputRequired, resultTask:
		return kind, nil
	}
	return "", s.errorf("there is no resultType %s", raw)
}

func (s *Schema) checkModernResult(def string, req *jsonrpc.Message, result []byte) error {
	kind, err := s.resultType(result)
	if err != nil {
		return err
	}
	switch kind {
	case resultInputRequired:
		return s.checkInputRequired(req, result)
	case resultTask:
		return s.checkCreateTask(req, result)
	}
	if err := s.Check(def, result); err != nil {
		return err
	}
	if id := subscriptionID(result); req.Method == methodListen && !sameID(id, req.ID) {
		return s.errorf("the result's subscription is %s, the request's id %s", id, shownID(req.ID))
	}
	return nil
}

const methodListen = "subscriptions/listen"

func sameID(raw []byte, want jsonrpc.ID) bool {
	id, err := jsonrpc.ParseID(raw)
	return err == nil && id.Equal(want)
}

func (s *Schema) checkCreateTask(req *jsonrpc.Message, result []byte) error {
	if req.Method != "tools/call" {
		return s.errorf("only tools/call may become a task, not %s", req.Method)
	}
	if !declares(req.Params, "extensions", tasksExtension) {
		return s.errorf("the result is a task, but the request does not declare %s", tasksExtension)
	}
	return s.Check("CreateTaskResult", result)
}

// checkInputRequired adds what the schema leaves to words: who may ask, for
// what, and what does not go together.
func (s *Schema) checkInputRequired(req *jsonrpc.Message, result []byte) error {
	switch req.Method {
	case "tools/call", "prompts/get", "resources/read":
	default:
		return s.errorf("%s may not be answered with %s", req.Method, resultInputRequired)
	}
	if err := s.Check("InputRequiredResult", result); err != nil {
		return err
	}
	for _, name := range []string{"content", "contents", "messages", "structuredContent", "isError", "ttlMs", "cacheScope"} {
		if _, ok := jsontext.Lookup(result, name); ok {
			return s.errorf("a result that requires input has no %s", name)
		}
	}
	requests, hasRequests := jsontext.Lookup(result, "inputRequests")
	if _, hasState := jsontext.Lookup(result, "requestState"); !hasState && !hasRequests {
		return s.errorf("a result that requires input has inputRequests, requestState or both")
	}
	return s.checkAsked(req.Params, requests)
}

// checkAsked wants a client asked only for what this request declares.
func (s *Schema) checkAsked(params, requests []byte) error {
	for key, request := range jsontext.Members(requests) {
		method, _ := jsontext.Lookup(request, "method")
		asked, _ := jsontext.Lookup(request, "params")
		name, _ := jsontext.Text(method)
		if !mayAsk(params, name, asked) {
			return s.errorf("inputRequests[%q] asks for %s, which the request's capabilities do not declare", key, name)
		}
	}
	return nil
}

func mayAsk(params []byte, method string, asked []byte) bool {
	has := func(name string) bool { _, ok := jsontext.Lookup(asked, name); return ok }
	switch method {
	case "elicitation/create":
		mode, _ := jsontext.Lookup(asked, "mode")
		if string(mode) == `"url"` {
			return declares(params, "elicitation", "url")
		}
		// Without a mode, elicitation means forms.
		return declares(params, "elicitation", "form") || declares(params, "elicitation") && !declares(params, "elicitation", "url")
	case "sampling/createMessage":
		return declares(params, "sampling") && (!has("tools") && !has("toolChoice") || declares(params, "sampling", "tools"))
	case "roots/list":
		return declares(params, "roots")
	}
	return false
}

// declares reports whether the capabilities that params bring have something.
func declares(params []byte, path ...string) bool {
	at, ok := jsontext.Lookup(params, "_meta")
	for _, name := range append([]string{clientCapabilitiesKey}, path...) {
		if ok {
			at, ok = jsontext.Lookup(at, name)
		}
	}
	return ok
}
