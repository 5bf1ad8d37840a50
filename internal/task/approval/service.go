// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
)

// Service asks for approvals, takes decisions and lets approved calls run. Make one with [New].
type Service struct{}

// List returns the records that wait, the oldest first, and with decided also those that ended, as long as they are kept.
func (s *Service) List(ctx context.Context, decided bool) ([]*statev1.ApprovalRecord, *errmap.Error) {
	return nil, nil
}

// Get returns one record. The error is RESOURCE_NOT_FOUND (Connect: not_found), or UNAVAILABLE.
func (s *Service) Get(ctx context.Context, id string) (*statev1.ApprovalRecord, *errmap.Error) {
	return nil, nil
}

// Decide is the decision of one approver. The errors are PERMISSION_DENIED for one that may not decide, INVALID_PARAMS without a
// reason or for one that has decided, RESOURCE_NOT_FOUND, and MISSING_CLIENT_CAPABILITY's column (failed_precondition) where the
// record does not wait any more: see [ErrOver].
func (s *Service) Decide(ctx context.Context, id string, who Approver, approve bool, reason string) (*statev1.ApprovalRecord, *errmap.Error) {
	return nil, nil
}

// WhyNot says why an approver may not decide about a record; empty if it may.
func (s *Service) WhyNot(r *statev1.ApprovalRecord, who Approver) string { return "" }

// Subscribe calls f with each event of any process, in the order of each record, until stop is called. f must return quickly.
func (s *Service) Subscribe(f func(Event)) (stop func()) { return func() {} }

// Waiting returns how many calls wait.
func (s *Service) Waiting() int { return 0 }
