// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/audit"
)

// AuditDenied writes the line of an operation that an edge denied to a caller and that is no
// request, such as a stream; req says as much of it as is known. The name of the operation
// is that of an [Op], if there is one. Errors other than PERMISSION_DENIED leave no
// line.
func (b *Bridge) AuditDenied(ctx context.Context, req *Request, operation string, err *errmap.Error) {
	if !b.opts.Audit.IsOn() || err.Code != errmap.PermissionDenied {
		return
	}
	inv := b.newInvocation(&Flight{bridge: b, req: req, who: access.FromContext(ctx)})
	e := &inv.event
	e.Operation, e.Decision, e.Rule = operation, audit.Denied, ruleGrants
	e.Code, e.Outcome = string(err.Code), "error"
	b.addArguments(inv)
	b.opts.Audit.End(e)
}

// targetOf is what the message of a stream or of an event names; "" for other messages.
func targetOf(m proto.Message) string {
	switch m := m.(type) {
	case *outriggerv1.ChangeFilter:
		return strings.Join(m.GetResourceUris(), " ")
	case *outriggerv1.EventFilter:
		return strings.Join(m.GetMethods(), " ")
	case *outriggerv1.Notification:
		return m.GetMethod()
	}
	return ""
}

// audited is the operation of a request as the trail names it: that of which the request is
// a part.
func (r *Request) audited() string {
	if r.PartOf != OpInvalid {
		return r.PartOf.String()
	}
	return r.Op.String()
}
