// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"strconv"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
)

// errorDomain is the domain of every ErrorInfo. The name is reserved for examples (RFC 2606).
const errorDomain = "lagoon-express.example"

// refuse builds an RPC error with details of google.rpc.
func refuse(code connect.Code, message string, details ...proto.Message) error {
	refusal := connect.NewError(code, wording(message))
	for _, detail := range details {
		// Marshalling a well-formed message cannot fail; were it to, the error is still worth more without the detail.
		if d, err := connect.NewErrorDetail(detail); err == nil {
			refusal.AddDetail(d)
		}
	}
	return refusal
}

// wording is an error that is nothing but its text.
type wording string

func (w wording) Error() string { return string(w) }

func noVehicle(id int64) error {
	return refuse(connect.CodeNotFound, fmt.Sprintf("there is no vehicle %d", id),
		&errdetails.ResourceInfo{
			ResourceType: "vehicle", ResourceName: strconv.FormatInt(id, 10),
			Description: "fleet.list_vehicles shows the ids that exist",
		})
}

func noOrder(id uint64) error {
	return refuse(connect.CodeNotFound, fmt.Sprintf("there is no order %d", id),
		&errdetails.ResourceInfo{
			ResourceType: "order", ResourceName: strconv.FormatUint(id, 10),
			Description: "fleet.find_orders shows the ids that exist; they do not survive rounding",
		})
}

func noStop(id int64) error {
	return refuse(connect.CodeNotFound, fmt.Sprintf("there is no stop %d", id),
		&errdetails.ResourceInfo{
			ResourceType: "stop", ResourceName: strconv.FormatInt(id, 10),
			Description: "fleet.get_map shows the ids that exist",
		})
}

// badField refuses one argument for a reason that no rule of the .proto file can express.
func badField(field, reason string) error {
	return refuse(connect.CodeInvalidArgument, field+": "+reason,
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: field, Description: reason},
		}})
}

// notNow refuses a call that the present state does not allow.
func notNow(reason, subject, message string, facts map[string]string) error {
	return refuse(connect.CodeFailedPrecondition, message,
		&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain, Metadata: facts},
		&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{
			{Type: reason, Subject: subject, Description: message},
		}})
}

func bookFull(limit int) error {
	message := fmt.Sprintf("the order book is full: it holds %d orders", limit)
	return refuse(connect.CodeResourceExhausted, message,
		&errdetails.ErrorInfo{Reason: "BOOK_FULL", Domain: errorDomain, Metadata: map[string]string{"limit": strconv.Itoa(limit)}},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
			{Subject: "order book", Description: message},
		}})
}
