// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

// Approvals are the calls that wait for approval; see [approval.Service].
type Approvals interface {
	List(ctx context.Context, decided bool) ([]*statev1.ApprovalRecord, *errmap.Error)
	Get(ctx context.Context, id string) (*statev1.ApprovalRecord, *errmap.Error)
	Decide(ctx context.Context, id string, who approval.Approver, approve bool, reason string) (*statev1.ApprovalRecord, *errmap.Error)
	WhyNot(r *statev1.ApprovalRecord, who approval.Approver) string
	Waiting() int
}

const (
	// maxListed bounds the approvals of one list, which are some hundred bytes each.
	maxListed = 10_000
	// maxApprovalID bounds an id, maxShown the preview that an approver sees.
	maxApprovalID, maxShown = 128, 64 << 10
)

// ListApprovals implements AdminService.
func (s *Service) ListApprovals(ctx context.Context, req *connect.Request[adminv1.ListApprovalsRequest]) (*connect.Response[adminv1.ListApprovalsResponse], error) {
	return answered(s.listApprovals(ctx, req.Msg))
}

// GetApproval implements AdminService.
func (s *Service) GetApproval(ctx context.Context, req *connect.Request[adminv1.GetApprovalRequest]) (*connect.Response[adminv1.GetApprovalResponse], error) {
	return answered(s.getApproval(ctx, req.Msg))
}

// DecideApproval implements AdminService.
func (s *Service) DecideApproval(ctx context.Context, req *connect.Request[adminv1.DecideApprovalRequest]) (*connect.Response[adminv1.DecideApprovalResponse], error) {
	return answered(s.decideApproval(ctx, req.Msg))
}

// answered is an answer, or an error as Connect shows it.
func answered[T any](message *T, failed *errmap.Error) (*connect.Response[T], error) {
	if failed != nil {
		return nil, errmap.ToConnect(failed, errmap.About{})
	}
	return connect.NewResponse(message), nil
}

func (s *Service) listApprovals(ctx context.Context, req *adminv1.ListApprovalsRequest) (*adminv1.ListApprovalsResponse, *errmap.Error) {
	found, failed := s.opts.Approvals.List(ctx, req.GetDecided())
	if failed != nil {
		return nil, failed
	}
	who, out := s.opts.Approver(ctx), &adminv1.ListApprovalsResponse{}
	for _, r := range found[:min(len(found), maxListed)] {
		out.Approvals = append(out.Approvals, s.approval(ctx, r, who))
	}
	return out, nil
}

func (s *Service) getApproval(ctx context.Context, req *adminv1.GetApprovalRequest) (*adminv1.GetApprovalResponse, *errmap.Error) {
	r, failed := s.opts.Approvals.Get(ctx, clip(req.GetId(), maxApprovalID))
	if failed != nil {
		return nil, failed
	}
	return &adminv1.GetApprovalResponse{Approval: s.opened(ctx, r)}, nil
}

func (s *Service) decideApproval(ctx context.Context, req *adminv1.DecideApprovalRequest) (*adminv1.DecideApprovalResponse, *errmap.Error) {
	if !s.opts.Operators.May(ctx, admin.RoleOperate) {
		return nil, errmap.New(errmap.PermissionDenied, errmap.Message("Permission denied: "+needsOperate))
	}
	r, failed := s.opts.Approvals.Decide(ctx, clip(req.GetId(), maxApprovalID), s.opts.Approver(ctx), req.GetApprove(), req.GetReason())
	if failed != nil {
		return nil, failed
	}
	return &adminv1.DecideApprovalResponse{Approval: s.opened(ctx, r)}, nil
}

// opened is an approval with what the operator may see of its arguments and its preview.
func (s *Service) opened(ctx context.Context, r *statev1.ApprovalRecord) *adminv1.Approval {
	who := s.opts.Approver(ctx)
	out := s.approval(ctx, r, who)
	out.ArgumentsJson, out.Preview = s.opts.Shown(ctx, r, who.Classes)
	out.Preview = clip(out.Preview, maxShown)
	return out
}

// approval is an approval without arguments and preview.
func (s *Service) approval(ctx context.Context, r *statev1.ApprovalRecord, who approval.Approver) *adminv1.Approval {
	out := &adminv1.Approval{
		Id: r.GetId(), Tool: r.GetTool(), Title: r.GetTitle(), Requester: r.GetRequester(), Rule: r.GetRule(), State: r.GetState(), Ended: r.GetEnded(),
		Created: r.GetCreated(), Expires: r.GetExpires(), Needed: r.GetNeeded(), Decisions: decisions(r),
	}
	out.WhyNot = s.opts.Approvals.WhyNot(r, who)
	if out.WhyNot == "" && !s.opts.Operators.May(ctx, admin.RoleOperate) {
		out.WhyNot = needsOperate
	}
	out.MayDecide = out.GetWhyNot() == ""
	return out
}

func decisions(r *statev1.ApprovalRecord) (out []*adminv1.Approval_Decision) {
	for _, d := range r.GetDecisions() {
		out = append(out, &adminv1.Approval_Decision{Approver: d.GetApprover(), Approved: d.GetApproved(), Reason: d.GetReason(), Time: d.GetTime()})
	}
	return out
}

const (
	// approvalsPath is where the admin listener has the approvals as plain HTTP.
	approvalsPath = "/approvals"
	// maxDecision bounds the body of a decision: a reason of 1,024 bytes, each of which JSON may write with six, and white space.
	maxDecision = 8 << 10
	// decisionTime bounds how long so short a body may take.
	decisionTime = 5 * time.Second
)

// ServeApprovals answers /approvals and what is below it: the same as the three RPCs, for clients without Protobuf. The admin listener
// has authenticated the operator.
func (s *Service) ServeApprovals(w http.ResponseWriter, r *http.Request) {
	id, action, _ := strings.Cut(strings.Trim(strings.TrimPrefix(r.URL.Path, approvalsPath), "/"), "/")
	wanted := http.MethodGet
	if action != "" {
		wanted = http.MethodPost
	}
	var out proto.Message
	var failed *errmap.Error
	switch {
	case action != "" && action != "approve" && action != "deny":
		admin.Refuse(w, http.StatusNotFound, "no such page; there are /approvals, /approvals/ID, /approvals/ID/approve and /approvals/ID/deny")
		return
	case r.Method != wanted && (r.Method != http.MethodHead || wanted != http.MethodGet):
		w.Header().Set("Allow", wanted)
		admin.Refuse(w, http.StatusMethodNotAllowed, "use "+wanted)
		return
	case id == "":
		out, failed = s.listApprovals(r.Context(), &adminv1.ListApprovalsRequest{Decided: r.URL.Query().Get("decided") == "true"})
	case action == "":
		out, failed = s.getApproval(r.Context(), &adminv1.GetApprovalRequest{Id: id})
	default:
		reason, status, refusal := readReason(w, r)
		if refusal != "" {
			admin.Refuse(w, status, refusal)
			return
		}
		out, failed = s.decideApproval(r.Context(), &adminv1.DecideApprovalRequest{Id: id, Approve: action == "approve", Reason: reason})
	}
	if failed != nil {
		shown := failed.JSONRPC(errmap.About{})
		shown.SetHeaders(w.Header())
		admin.Refuse(w, shown.HTTPStatus, shown.Message)
		return
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(out)
	if err != nil {
		admin.Refuse(w, http.StatusInternalServerError, "the response cannot be written as JSON")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(jsontext.Compact(nil, text), '\n')) // the client has gone if this fails
}

// readReason reads {"reason": "..."} and nothing else. It returns a status and a refusal for another body.
func readReason(w http.ResponseWriter, r *http.Request) (reason string, status int, refusal string) {
	// A transport without deadlines has no slow peers either.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(decisionTime))
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return "", http.StatusUnsupportedMediaType, "send application/json"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDecision))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return "", http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxDecision)
	case err != nil:
		return "", http.StatusBadRequest, "the body could not be read completely"
	}
	// Unknown and repeated members are errors.
	var sent adminv1.DecideApprovalRequest
	if protojson.Unmarshal(body, &sent) != nil || sent.GetId() != "" || sent.GetApprove() {
		return "", http.StatusBadRequest, `want {"reason": "..."}`
	}
	return sent.GetReason(), 0, ""
}
