// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

// desk has one call that waits, of alice.
type desk struct {
	record *statev1.ApprovalRecord
	asked  string // what Decide was asked
}

func newDesk() *desk {
	return &desk{record: &statev1.ApprovalRecord{
		Id: "a1", Requester: "alice", Tool: "shop.refund", Title: "Refund", Rule: "large", State: approval.Waiting, Needed: 2, Preview: "would refund 300",
		Created: timestamppb.New(time.Unix(1000, 0)), Expires: timestamppb.New(time.Unix(2000, 0)), ArgumentsJson: []byte(`{"sum":300}`),
		Decisions: []*statev1.ApprovalRecord_Decision{{Approver: "otto", Approved: true, Reason: "fine", Time: timestamppb.New(time.Unix(1500, 0))}},
	}}
}

func (d *desk) List(context.Context, bool) ([]*statev1.ApprovalRecord, *errmap.Error) {
	return []*statev1.ApprovalRecord{d.record}, nil
}

func (d *desk) Get(_ context.Context, id string) (*statev1.ApprovalRecord, *errmap.Error) {
	if id != d.record.GetId() {
		return nil, errmap.New(errmap.ResourceNotFound, errmap.Message("Resource not found: no such approval"))
	}
	return d.record, nil
}

func (d *desk) Decide(ctx context.Context, id string, who approval.Approver, approve bool, reason string) (*statev1.ApprovalRecord, *errmap.Error) {
	r, failed := d.Get(ctx, id)
	switch {
	case failed != nil:
		return nil, failed
	case d.WhyNot(r, who) != "":
		return nil, errmap.New(errmap.PermissionDenied, errmap.Message("Permission denied: "+d.WhyNot(r, who)))
	}
	d.asked = who.Name + " " + map[bool]string{true: "approves", false: "denies"}[approve] + ": " + reason
	return r, nil
}

func (*desk) WhyNot(r *statev1.ApprovalRecord, who approval.Approver) string {
	if who.Name == r.GetRequester() {
		return "it is your own call"
	}
	return ""
}

func (*desk) Waiting() int { return 1 }

// operator is an operator with a name and a role.
type operator struct {
	name string
	role admin.Role
}

func (o operator) May(_ context.Context, role admin.Role) bool {
	return o.role == admin.RoleOperate || role == o.role
}
func (o operator) Operator(context.Context, string) string { return o.name }
func (operator) IsSignedIn(context.Context) bool           { return false }
func (operator) HasOperators() bool                        { return true }

// service returns the API over a desk, for one operator.
func service(d *desk, who operator) *Service {
	return &Service{opts: Options{
		Approvals: d, Operators: who, Approver: func(context.Context) approval.Approver {
			return approval.Approver{Name: who.name, Classes: []string{"pii"}}
		},
		Shown: func(_ context.Context, r *statev1.ApprovalRecord, classes []string) (arguments, preview string) {
			return string(r.GetArgumentsJson()) + " for " + strings.Join(classes, ","), r.GetPreview()
		},
	}}
}

func TestApprovalsByRPC(t *testing.T) {
	t.Parallel()
	base := &adminv1.Approval{
		Id: "a1", Tool: "shop.refund", Title: "Refund", Requester: "alice", Rule: "large", State: "waiting", Needed: 2,
		Created: timestamppb.New(time.Unix(1000, 0)), Expires: timestamppb.New(time.Unix(2000, 0)),
		Decisions: []*adminv1.Approval_Decision{{Approver: "otto", Approved: true, Reason: "fine", Time: timestamppb.New(time.Unix(1500, 0))}},
	}
	for _, tt := range []struct {
		who          operator
		whyNot, code string // code is that of a decision
	}{
		{operator{"olive", admin.RoleOperate}, "", ""},
		{operator{"alice", admin.RoleOperate}, "it is your own call", "permission_denied"},
		{operator{"rita", admin.RoleRead}, needsOperate, "permission_denied"},
	} {
		d := newDesk()
		s := service(d, tt.who)
		base.MayDecide, base.WhyNot, base.ArgumentsJson, base.Preview = tt.whyNot == "", tt.whyNot, "", ""
		list, err := s.ListApprovals(t.Context(), connect.NewRequest(&adminv1.ListApprovalsRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]*adminv1.Approval{base}, list.Msg.GetApprovals(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", tt.who.name, diff)
		}
		base.ArgumentsJson, base.Preview = `{"sum":300} for pii`, "would refund 300"
		one, err := s.GetApproval(t.Context(), connect.NewRequest(&adminv1.GetApprovalRequest{Id: "a1"}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(base, one.Msg.GetApproval(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", tt.who.name, diff)
		}
		if _, err := s.GetApproval(t.Context(), connect.NewRequest(&adminv1.GetApprovalRequest{Id: strings.Repeat("x", 1000)})); connect.CodeOf(err) != connect.CodeNotFound {
			t.Error(err)
		}
		_, err = s.DecideApproval(t.Context(), connect.NewRequest(&adminv1.DecideApprovalRequest{Id: "a1", Approve: true, Reason: "seen"}))
		code := ""
		if err != nil {
			code = connect.CodeOf(err).String()
		}
		if code != tt.code || (d.asked != "") != (tt.code == "") {
			t.Errorf("%s: %v, asked %q", tt.who.name, err, d.asked)
		}
	}
}

func TestApprovalsOverHTTP(t *testing.T) {
	t.Parallel()
	const decided = `"arguments_json":"{\"sum\":300} for pii"`
	for _, tt := range []struct {
		name, method, path, body string
		role                     admin.Role
		status                   int
		want, asked              string
	}{
		{"a list", "GET", "/approvals", "", admin.RoleRead, 200, `"arguments_json":""`, ""},
		{"a list with a slash", "GET", "/approvals/", "", admin.RoleRead, 200, `{"approvals":[{"id":"a1"`, ""},
		{"the head of a list", "HEAD", "/approvals", "", admin.RoleRead, 200, "", ""},
		{"one", "GET", "/approvals/a1", "", admin.RoleRead, 200, decided, ""},
		{"none", "GET", "/approvals/zz", "", admin.RoleRead, 404, "no such approval", ""},
		{"approving", "POST", "/approvals/a1/approve", `{"reason":"seen"}`, admin.RoleOperate, 200, decided, "olive approves: seen"},
		{"denying", "POST", "/approvals/a1/deny", `{"reason":"no"}`, admin.RoleOperate, 200, decided, "olive denies: no"},
		{"approving what is not there", "POST", "/approvals/zz/approve", `{"reason":"seen"}`, admin.RoleOperate, 404, "no such approval", ""},
		{"approving by a reader", "POST", "/approvals/a1/approve", `{"reason":"seen"}`, admin.RoleRead, 403, "needs the role operate", ""},
		{"approving by a link", "GET", "/approvals/a1/approve", "", admin.RoleOperate, 405, "use POST", ""},
		{"another action", "POST", "/approvals/a1/forget", "{}", admin.RoleOperate, 404, "no such page", ""},
		{"more below an action", "POST", "/approvals/a1/approve/b", "{}", admin.RoleOperate, 404, "no such page", ""},
		{"a list by POST", "POST", "/approvals", "{}", admin.RoleOperate, 405, "use GET", ""},
		{"not JSON", "POST", "/approvals/a1/deny", `reason`, admin.RoleOperate, 400, "want", ""},
		{"no body", "POST", "/approvals/a1/deny", "", admin.RoleOperate, 400, "want", ""},
		{"a reason twice", "POST", "/approvals/a1/deny", `{"reason":"a","reason":"b"}`, admin.RoleOperate, 400, "want", ""},
		{"another id", "POST", "/approvals/a1/deny", `{"reason":"a","id":"a2"}`, admin.RoleOperate, 400, "want", ""},
		{"the opposite", "POST", "/approvals/a1/deny", `{"reason":"a","approve":true}`, admin.RoleOperate, 400, "want", ""},
		{"an unknown member", "POST", "/approvals/a1/deny", `{"reason":"a","by":"b"}`, admin.RoleOperate, 400, "want", ""},
		{"a long body", "POST", "/approvals/a1/deny", `{"reason":"` + strings.Repeat("a", maxDecision) + `"}`, admin.RoleOperate, 413, "larger than", ""},
	} {
		d := newDesk()
		r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		service(d, operator{"olive", tt.role}).ServeApprovals(w, r)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || d.asked != tt.asked {
			t.Errorf("%s: %d %s, asked %q", tt.name, w.Code, w.Body, d.asked)
		}
		if w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", tt.name, w.Header())
		}
	}
	d := newDesk()
	w := httptest.NewRecorder()
	service(d, operator{"olive", admin.RoleOperate}).ServeApprovals(w, httptest.NewRequest("POST", "/approvals/a1/approve", strings.NewReader("reason=seen")))
	if w.Code != http.StatusUnsupportedMediaType || d.asked != "" {
		t.Errorf("a form: %d", w.Code)
	}
}

func FuzzReason(f *testing.F) {
	f.Add([]byte(`{"reason":"a"}`))
	f.Add([]byte(`{"reason":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d := newDesk()
		r := httptest.NewRequest("POST", "/approvals/a1/deny", strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		service(d, operator{"olive", admin.RoleOperate}).ServeApprovals(w, r)
		if (w.Code == http.StatusOK) != strings.HasPrefix(d.asked, "olive denies: ") || w.Code >= http.StatusInternalServerError {
			t.Errorf("%d %s, asked %q", w.Code, w.Body, d.asked)
		}
	})
}
