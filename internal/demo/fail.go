// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// defaultRetryDelay is what RetryInfo says when the caller does not: long enough to see that it is obeyed, and not a round
// number of seconds, so that rounding shows.
const defaultRetryDelay = 1500 * time.Millisecond

func (lab) Fail(_ context.Context, req *connect.Request[demov1.FailRequest]) (*connect.Response[demov1.FailResponse], error) {
	// FailCode has the numbers of google.rpc.Code, and so has connect.Code.
	code := connect.Code(req.Msg.GetCode())
	message := req.Msg.GetMessage()
	if message == "" {
		message = fmt.Sprintf("failed with %s, as asked for", code)
	}
	delay := req.Msg.GetRetryDelay()
	if delay == nil {
		delay = durationpb.New(defaultRetryDelay)
	}
	details := make([]proto.Message, 0, len(req.Msg.GetDetails()))
	for _, kind := range req.Msg.GetDetails() {
		if detail := failDetail(kind, delay); detail != nil {
			details = append(details, detail)
		}
	}
	return nil, refuse(code, message, details...)
}

// failDetail returns an example of a detail, or nil for a kind that does not exist.
func failDetail(kind demov1.FailDetail, delay *durationpb.Duration) proto.Message {
	switch kind {
	case demov1.FailDetail_FAIL_DETAIL_BAD_REQUEST:
		return &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "parcels[0].weight_kg", Description: "a parcel of 900 kg sinks a canoe"},
			{Field: "window.not_after", Description: "yesterday is over"},
		}}
	case demov1.FailDetail_FAIL_DETAIL_ERROR_INFO:
		return &errdetails.ErrorInfo{
			Reason: "TIDE_TOO_LOW", Domain: errorDomain,
			Metadata: map[string]string{"passage": "Needle Pass", "next_high_water": "14:20"},
		}
	case demov1.FailDetail_FAIL_DETAIL_RETRY_INFO:
		return &errdetails.RetryInfo{RetryDelay: delay}
	case demov1.FailDetail_FAIL_DETAIL_RESOURCE_INFO:
		return &errdetails.ResourceInfo{
			ResourceType: "vehicle", ResourceName: "999", Owner: "dispatch", Description: "sunk in 1987",
		}
	case demov1.FailDetail_FAIL_DETAIL_QUOTA_FAILURE:
		return &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
			{Subject: "customer:coconut-cafe", Description: "5 of 5 free deliveries used this month"},
		}}
	case demov1.FailDetail_FAIL_DETAIL_PRECONDITION_FAILURE:
		return &errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{
			{Type: "TIDE", Subject: "Needle Pass", Description: "the pass needs 60 cm of water"},
		}}
	case demov1.FailDetail_FAIL_DETAIL_HELP:
		return &errdetails.Help{Links: []*errdetails.Help_Link{
			{Description: "tide table", Url: "https://lagoon-express.example/tides"},
		}}
	case demov1.FailDetail_FAIL_DETAIL_LOCALIZED_MESSAGE:
		return &errdetails.LocalizedMessage{Locale: "fr-FR", Message: "La marée est trop basse."}
	case demov1.FailDetail_FAIL_DETAIL_REQUEST_INFO:
		return &errdetails.RequestInfo{RequestId: "lagoon-7f3a", ServingData: "desk 2"}
	case demov1.FailDetail_FAIL_DETAIL_DEBUG_INFO:
		return &errdetails.DebugInfo{
			StackEntries: []string{"dispatch.(*desk).book at desk.go:217", "dispatch.(*desk).serve at desk.go:64"},
			Detail:       "internal: tide cache miss on shard 3",
		}
	case demov1.FailDetail_FAIL_DETAIL_UNSPECIFIED:
		return nil
	default:
		return nil
	}
}
