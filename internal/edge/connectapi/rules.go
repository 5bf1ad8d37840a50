// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// checkRules refuses a message that could not be read or breaks a rule of the contract. The validator of the library is shared
// by the process and compiles the rules of a message when it first sees one, in some milliseconds.
func (s *Service) checkRules(ctx context.Context, req connect.AnyRequest, msg proto.Message) error {
	if failed := refusalOf(msg); failed != nil {
		return s.refusedCall(ctx, rpcOf(req), msg, failed, aboutOf(msg))
	}
	if call, ok := msg.(*outriggerv1.ToolCall); ok && isOrdinaryCall(call) || checksItself(msg) {
		return nil
	}
	if err := protovalidate.Validate(msg); err != nil {
		return s.refusedCall(ctx, rpcOf(req), msg, ruleError(err), errmap.About{})
	}
	return nil
}

// isOrdinaryCall holds for calls of a name and arguments that keep the rules of ToolCall, as most do. The validator takes longer
// than reading them.
func isOrdinaryCall(call *outriggerv1.ToolCall) bool {
	const (
		nameChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
		mostName  = 256
		mostBytes = 64 << 20
	)
	if call.GetVersion() != "" || call.GetContext() != nil || call.GetMetaForm() != nil || len(call.GetInputResponses()) > 0 || len(call.GetRequestState()) > 0 {
		return false
	}
	name, arguments := call.GetToolName(), call.GetArgumentsJson()
	return name != "" && len(name) <= mostName && strings.Trim(name, nameChars) == "" && len(arguments) > 0 && len(arguments) <= mostBytes
}

// checksItself reports whether the methods of a request apply its rules. What is
// wrong with a registration is REGISTRATION_INVALID, which the catalog says. The
// main listener refuses both methods, whatever the request.
func checksItself(m proto.Message) bool {
	switch m.(type) {
	case *outriggerv1.RegisterToolRequest, *outriggerv1.UnregisterToolRequest:
		return true
	}
	return false
}

// aboutOf says what a message asks for that was refused.
func aboutOf(m proto.Message) errmap.About {
	_, isCall := m.(*outriggerv1.ToolCall)
	return errmap.About{ToolCall: isCall}
}

// ruleError names every breach with the path of its field.
func ruleError(err error) *errmap.Error {
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) {
		return errmap.Wrap(errmap.InternalError, err)
	}
	out := errmap.New(errmap.InvalidParams)
	out.Broken = broken.ToProto()
	for _, v := range broken.Violations {
		out.Violations = append(out.Violations, errmap.Violation{
			Path: pointer(v.Proto.GetField()), Keyword: v.Proto.GetRuleId(), Message: v.Proto.GetMessage(),
		})
	}
	return out
}

// pointer is the JSON Pointer (RFC 6901) of a field: its members' JSON names are
// their Protobuf names in this contract, and a list index or a map key is one
// token more. A rule about the whole message has the empty pointer.
func pointer(path *validate.FieldPath) string {
	var out string
	for _, element := range path.GetElements() {
		out = schema.AppendPointer(out, element.GetFieldName())
		switch key := element.GetSubscript().(type) {
		case *validate.FieldPathElement_Index:
			out += "/" + strconv.FormatUint(key.Index, 10)
		case *validate.FieldPathElement_StringKey:
			out = schema.AppendPointer(out, key.StringKey)
		case *validate.FieldPathElement_IntKey:
			out += "/" + strconv.FormatInt(key.IntKey, 10)
		case *validate.FieldPathElement_UintKey:
			out += "/" + strconv.FormatUint(key.UintKey, 10)
		case *validate.FieldPathElement_BoolKey:
			out += "/" + strconv.FormatBool(key.BoolKey)
		}
	}
	return out
}

// metaHolder are messages that have _meta.
type metaHolder interface {
	GetMeta() *structpb.Struct
	GetMetaJson() []byte
}

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
		c.message(schema.AppendPointer("/input_responses", key), response.ProtoReflect())
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
					c.message(schema.AppendPointer(at, key.String()), v.Message())
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

// malformed is what is wrong with a free-form payload.
type malformed struct{ cause *jsonrpc.Fault }

func (m *malformed) fault(path string) *jsonrpc.Fault {
	f := *m.cause
	f.Path = path + f.Path
	return &f
}

func (m *malformed) at(path string) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.Over(dialect.LimitOf(m.cause)), errmap.WithViolations(errmap.Violation{
		Path: path + m.cause.Path, Keyword: "json", Message: m.cause.Reason,
	}))
}

// freeForm returns the JSON text of a payload that is either bytes or a Struct or
// Value; nil where neither is set.
func freeForm(text []byte, people proto.Message, l jsonrpc.Limits) (json.RawMessage, *malformed) {
	if text != nil {
		if f := jsonrpc.Check(text, l); f != nil {
			return nil, &malformed{cause: f}
		}
		return jsontext.Trim(text), nil
	}
	if people == nil || !people.ProtoReflect().IsValid() {
		return nil, nil
	}
	out, err := protojson.Marshal(people)
	if err != nil {
		return nil, &malformed{cause: &jsonrpc.Fault{Code: jsonrpc.FaultParse, Reason: "It contains a value that JSON cannot represent, such as an infinite number."}}
	}
	// These keep the rules of JSON by themselves, except for depth.
	l.MaxBytes = max(len(out), 1)
	if f := jsonrpc.Check(out, l); f != nil {
		return nil, &malformed{cause: f}
	}
	return out, nil
}
