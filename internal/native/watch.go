// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// methodAcknowledged is the method of a change feed's first notification.
const methodAcknowledged = "notifications/subscriptions/acknowledged"

// Watch subscribes to changes until ctx or the stream ends. It makes one attempt. The
// first notification passed to on is the acknowledgement: its filter says which of the
// requested changes will be reported from then on. Notifications come in order and on
// the caller's goroutine, and on owns them.
//
// Watch returns nil if the backend ended the stream successfully. It returns an
// *InvalidAnswerError if a notification breaks its rules, or the acknowledgement does
// not come first or comes twice. It returns a *backend.Error for everything else,
// including the end of ctx.
func (c *Client) Watch(ctx context.Context, filter *outriggerv1.ChangeFilter, on func(*outriggerv1.Notification)) error {
	const procedure = outriggerv1connect.ToolServiceSubscribeProcedure
	body, err := encode(&outriggerv1.SubscribeRequest{Filter: &outriggerv1.SubscribeRequest_Changes{Changes: filter}})
	if err != nil {
		return err
	}
	var refused error
	acknowledged := false
	_, err = c.backend.Stream(ctx, procedure, body, nil, func(message []byte) error {
		n := new(outriggerv1.Notification)
		if refused = c.check(procedure, message, n); refused != nil {
			return refused
		}
		isFirst := n.GetMethod() == methodAcknowledged && n.GetAcknowledged() != nil
		switch {
		case !isFirst && !acknowledged:
			refused = invalid(procedure, KeywordAcknowledged, "wanted an acknowledgement with its filter as the first notification")
		case acknowledged && n.GetMethod() == methodAcknowledged:
			refused = invalid(procedure, KeywordAcknowledged, "wanted no acknowledgement after the first notification")
		default:
			acknowledged = true
			on(n)
		}
		return refused
	})
	switch {
	case refused != nil:
		return refused
	case err == nil && !acknowledged:
		return invalid(procedure, KeywordAcknowledged, "wanted an acknowledgement before the end of the stream")
	default:
		return err
	}
}
