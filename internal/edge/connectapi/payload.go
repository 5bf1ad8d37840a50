// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// meta returns the JSON text of a request's _meta in either form, nil where
// there is none.
func (s *Service) meta(of metaHolder) ([]byte, *errmap.Error) {
	raw, failed := freeForm(of.GetMetaJson(), of.GetMeta(), s.opts.Limits)
	switch {
	case failed != nil:
		return nil, failed.at("/meta_json")
	case raw != nil && !jsontext.IsObject(raw):
		return nil, noObject("meta_json")
	}
	return raw, nil
}

// noObject is INVALID_PARAMS for a member that has to be a JSON object.
func noObject(member string) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Path: "/" + member, Keyword: "type", Message: member + " is not a JSON object",
	}))
}

// checkPayloads holds the free-form payloads anywhere in a message to the rules
// of JSON, which the rules of the contract cannot express: what comes in as bytes
// has not been through a parser, and goes on to others who trust it.
func (s *Service) checkPayloads(m proto.Message) *errmap.Error {
	c := payloadCheck{limits: s.opts.Limits}
	c.message("", m.ProtoReflect())
	return c.result()
}

// checkCall is checkPayloads for what most calls do not have. Arguments and _meta
// are checked where they are read.
func (s *Service) checkCall(call *outriggerv1.ToolCall) *errmap.Error {
	if call.GetContext() == nil && len(call.GetInputResponses()) == 0 {
		return nil
	}
	c := payloadCheck{limits: s.opts.Limits}
	c.message("/context", call.GetContext().ProtoReflect())
	for key, response := range call.GetInputResponses() {
		c.message("/input_responses/"+escapeToken.Replace(key), response.ProtoReflect())
	}
	return c.result()
}

// payloadCheck walks through one message.
type payloadCheck struct {
	limits jsonrpc.Limits
	found  []errmap.Violation
	// over is the limit that one of them is about, if any is.
	over errmap.Limit
}

// jsonSuffix ends the name of every field that holds JSON as bytes.
const jsonSuffix = "_json"

// The messages that stand for JSON.
const (
	structName protoreflect.FullName = "google.protobuf.Struct"
	valueName  protoreflect.FullName = "google.protobuf.Value"
)

func (c *payloadCheck) message(path string, m protoreflect.Message) {
	switch m.Descriptor().FullName() {
	case structName, valueName:
		if _, failed := freeForm(nil, m.Interface(), c.limits); failed != nil {
			c.fault(path, failed)
		}
		return
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := path + "/" + string(field.Name())
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				v.Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
					c.message(at+"/"+escapeToken.Replace(key.String()), v.Message())
					return true
				})
			}
		case field.IsList():
			if field.Message() != nil {
				for i := range v.List().Len() {
					c.message(at+"/"+strconv.Itoa(i), v.List().Get(i).Message())
				}
			}
		case field.Message() != nil:
			c.message(at, v.Message())
		case field.Kind() == protoreflect.BytesKind && strings.HasSuffix(string(field.Name()), jsonSuffix):
			c.text(at, field, v.Bytes())
		}
		return true
	})
}

// text checks one payload that is JSON text. It has to be an object where its
// form for people is one.
func (c *payloadCheck) text(path string, field protoreflect.FieldDescriptor, text []byte) {
	raw, failed := freeForm(text, nil, c.limits)
	switch {
	case failed != nil:
		c.fault(path, failed)
	case isObjectField(field) && !jsontext.IsObject(raw):
		c.found = append(c.found, noObject(path[1:]).Violations...)
	}
}

func (c *payloadCheck) result() *errmap.Error {
	if len(c.found) == 0 {
		return nil
	}
	slices.SortFunc(c.found, func(a, b errmap.Violation) int { return cmp.Compare(a.Path, b.Path) })
	return errmap.New(errmap.InvalidParams, errmap.Over(c.over), errmap.WithViolations(c.found...))
}

func (c *payloadCheck) fault(path string, failed *malformed) {
	err := failed.at(path)
	c.found, c.over = append(c.found, err.Violations...), cmp.Or(c.over, err.Limit)
}

// isObjectField reports whether another form of the same payload is a Struct.
func isObjectField(field protoreflect.FieldDescriptor) bool {
	forms := field.ContainingOneof()
	if forms == nil {
		return false
	}
	for i := range forms.Fields().Len() {
		if m := forms.Fields().Get(i).Message(); m != nil && m.FullName() == structName {
			return true
		}
	}
	return false
}
