// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"google.golang.org/protobuf/types/known/anypb"
)

// Detail returns the error as the outrigger.v1.ErrorDetail of a ToolResult; its details are the data object.
func (e *Error) Detail(about About) *outriggerv1.ErrorDetail {
	e = e.known()
	return &outriggerv1.ErrorDetail{
		ErrorType:    e.Type(),
		ErrorMessage: e.message(),
		ErrorDetailsForm: &outriggerv1.ErrorDetail_ErrorDetailsJson{
			ErrorDetailsJson: e.Data(about),
		},
	}
}

// lean is e without the backend's details, for a Connect error that holds them beside it: they travel once.
func (e *Error) lean() *Error {
	lean := *e
	lean.ErrorType = e.Type() // which the details may decide
	lean.Details = nil
	return &lean
}

// declaredType is the error type that a native backend, or another sidecar, declared; "" for none.
func declaredType(details []*anypb.Any) string {
	for _, d := range details {
		detail := new(outriggerv1.ErrorDetail)
		if d.MessageIs(detail) && d.UnmarshalTo(detail) == nil && validErrorType(detail.GetErrorType()) {
			return detail.GetErrorType()
		}
	}
	return ""
}

func isErrorDetail(d *anypb.Any) bool {
	return d.MessageIs((*outriggerv1.ErrorDetail)(nil))
}
