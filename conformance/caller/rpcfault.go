// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"cmp"
	"errors"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// Domain is the domain of the ErrorInfo that names the canonical code.
const Domain = "outrigger.dev"

// canonicalCode finds the canonical code among error details.
func canonicalCode(details []*anypb.Any) string {
	for _, d := range details {
		info := &errdetails.ErrorInfo{}
		if d.MessageIs(info) && d.UnmarshalTo(info) == nil && info.GetDomain() == Domain {
			return info.GetReason()
		}
	}
	return ""
}

// backendCode is the canonical code of a status without one: in the typed pass-through it is the backend's own, as it came. A
// status without details can also be the client's.
func backendCode(details []*anypb.Any) string {
	if len(details) == 0 {
		return ""
	}
	return "TOOL_EXECUTION_FAILED"
}

// connectAnswer reads a failed call of connect-go.
func connectAnswer(err error) Answer {
	var failure *connect.Error
	if !errors.As(err, &failure) {
		return failed(err)
	}
	var details []*anypb.Any
	for _, d := range failure.Details() {
		details = append(details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	code := cmp.Or(canonicalCode(details), backendCode(details))
	if code == "" {
		return failed(err)
	}
	return Answer{Trailer: failure.Meta(), Header: failure.Meta(), Fault: &Fault{
		Code: code, RPC: failure.Code().String(), Message: failure.Message(), Details: details,
	}}
}

// grpcAnswer reads a failed call of grpc-go.
func grpcAnswer(err error) Answer {
	st, ok := status.FromError(err)
	if !ok {
		return failed(err)
	}
	code := cmp.Or(canonicalCode(st.Proto().GetDetails()), backendCode(st.Proto().GetDetails()))
	if code == "" {
		return failed(err)
	}
	return Answer{Fault: &Fault{Code: code, RPC: snake(st.Code()), Message: st.Message(), Details: st.Proto().GetDetails()}}
}

// snake spells a code of grpc-go as Connect does.
func snake(c codes.Code) string {
	if c == codes.Canceled {
		return "canceled"
	}
	var out strings.Builder
	for i, r := range c.String() {
		if i > 0 && r >= 'A' && r <= 'Z' {
			out.WriteByte('_')
		}
		out.WriteRune(r)
	}
	return strings.ToLower(out.String())
}

// RPCCode is the code of a failed RPC, whether it names a canonical code or not;
// "" where the call did not fail.
func RPCCode(a Answer) string {
	if a.Fault != nil {
		return a.Fault.RPC
	}
	var failure *connect.Error
	if errors.As(a.Err, &failure) {
		return failure.Code().String()
	}
	if st, ok := status.FromError(a.Err); ok && a.Err != nil {
		return snake(st.Code())
	}
	return ""
}
