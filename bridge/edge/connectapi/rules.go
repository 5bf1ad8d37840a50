// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"strings"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// newRuleInterceptor enforces the rules of the contract on every unary request
// of the tool API and answers a breach with canonical INVALID_PARAMS. Streams
// check their messages one by one, because a bad one must not end the stream.
func newRuleInterceptor() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if msg, ok := req.Any().(proto.Message); ok {
				if err := protovalidate.Validate(msg); err != nil {
					return nil, errmap.ToConnect(ruleError(err), errmap.About{})
				}
			}
			return next(ctx, req)
		}
	}
}

// ruleError names every breach with the path of its field.
func ruleError(err error) *errmap.Error {
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) {
		return errmap.Wrap(errmap.InternalError, err)
	}
	out := errmap.New(errmap.InvalidParams)
	for _, v := range broken.Violations {
		path := protovalidate.FieldPathString(v.Proto.GetField())
		out.Violations = append(out.Violations, errmap.Violation{
			Path: "/" + strings.ReplaceAll(path, ".", "/"), Keyword: v.Proto.GetRuleId(), Message: v.Proto.GetMessage(),
		})
	}
	return out
}
