// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// newRuleInterceptor enforces the rules of the contract on every unary request
// of the tool API and answers a breach with canonical INVALID_PARAMS. Streams
// check their messages one by one, because a bad one must not end the stream.
// The validator of the library is shared by the process and compiles the rules
// of a message when it first sees one, in some milliseconds.
func (s *Service) newRuleInterceptor() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if msg, ok := req.Any().(proto.Message); ok {
				if err := s.checkRules(ctx, rpcOf(req), msg); err != nil {
					return nil, err
				}
			}
			return next(ctx, req)
		}
	}
}

// checkRules refuses a message that could not be read or breaks a rule of the contract.
func (s *Service) checkRules(ctx context.Context, r *rpc, msg proto.Message) error {
	if failed := refusalOf(msg); failed != nil {
		return s.refusedCall(ctx, r, msg, failed, aboutOf(msg))
	}
	if checksItself(msg) {
		return nil
	}
	if err := protovalidate.Validate(msg); err != nil {
		return s.refusedCall(ctx, r, msg, ruleError(err), errmap.About{})
	}
	return nil
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
	var out []byte
	for _, element := range path.GetElements() {
		out = append(append(out, '/'), escapeToken.Replace(element.GetFieldName())...)
		switch key := element.GetSubscript().(type) {
		case *validate.FieldPathElement_Index:
			out = strconv.AppendUint(append(out, '/'), key.Index, 10)
		case *validate.FieldPathElement_StringKey:
			out = append(append(out, '/'), escapeToken.Replace(key.StringKey)...)
		case *validate.FieldPathElement_IntKey:
			out = strconv.AppendInt(append(out, '/'), key.IntKey, 10)
		case *validate.FieldPathElement_UintKey:
			out = strconv.AppendUint(append(out, '/'), key.UintKey, 10)
		case *validate.FieldPathElement_BoolKey:
			out = strconv.AppendBool(append(out, '/'), key.BoolKey)
		}
	}
	return string(out)
}

// escapeToken writes the two characters that a pointer has its own use for.
var escapeToken = strings.NewReplacer("~", "~0", "/", "~1")
