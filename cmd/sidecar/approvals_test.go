// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1/adminv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// approvalsAPI is an admin listener with approvals, for operators with a token.
type approvalsAPI struct {
	adminv1connect.UnimplementedAdminServiceHandler

	mu  sync.Mutex
	all []*adminv1.Approval
	// away is how many requests for the list fail, as those to a sidecar that restarts.
	away int
	// token is the one that it takes in place of approverToken; empty for that.
	token string
}

const approverToken = "token-of-an-operator-1"

// serve returns the address, and the flags that name it and the token.
func (a *approvalsAPI) serve(t *testing.T) []string {
	t.Helper()
	path, handler := adminv1connect.NewAdminServiceHandler(a)
	mux := http.NewServeMux()
	mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		token := cmp.Or(a.token, approverToken)
		a.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(approverToken), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--admin", strings.TrimPrefix(server.URL, "http://"), "--token-file", token}
}

func (a *approvalsAPI) ListApprovals(_ context.Context, req *connect.Request[adminv1.ListApprovalsRequest]) (*connect.Response[adminv1.ListApprovalsResponse], error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away > 0 {
		a.away--
		return nil, connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF)
	}
	out := &adminv1.ListApprovalsResponse{}
	for _, one := range a.all {
		if req.Msg.GetDecided() || one.GetState() == waiting {
			shown := proto.CloneOf(one)
			shown.ArgumentsJson, shown.Preview = "", ""
			out.Approvals = append(out.Approvals, shown)
		}
	}
	return connect.NewResponse(out), nil
}

func (a *approvalsAPI) find(id string) (*adminv1.Approval, error) {
	at := slices.IndexFunc(a.all, func(one *adminv1.Approval) bool { return one.GetId() == id })
	if at < 0 {
		return nil, errmap.ToConnect(errmap.New(errmap.ResourceNotFound, errmap.Message("Resource not found: no approval has this id")), errmap.About{})
	}
	return a.all[at], nil
}

func (a *approvalsAPI) GetApproval(_ context.Context, req *connect.Request[adminv1.GetApprovalRequest]) (*connect.Response[adminv1.GetApprovalResponse], error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, err := a.find(req.Msg.GetId())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&adminv1.GetApprovalResponse{Approval: proto.CloneOf(one)}), nil
}

func (a *approvalsAPI) DecideApproval(_ context.Context, req *connect.Request[adminv1.DecideApprovalRequest]) (*connect.Response[adminv1.DecideApprovalResponse], error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, err := a.find(req.Msg.GetId())
	if err != nil {
		return nil, err
	}
	if one.GetRequester() == "olive" {
		return nil, errmap.ToConnect(errmap.New(errmap.PermissionDenied, errmap.Message("Permission denied: olive made this call\x1b[2J")), errmap.About{})
	}
	one.Decisions = append(one.Decisions, &adminv1.Approval_Decision{Approver: "olive", Approved: req.Msg.GetApprove(), Reason: req.Msg.GetReason(), Time: timestamppb.Now()})
	switch {
	case !req.Msg.GetApprove():
		one.State = "denied"
	case len(one.GetDecisions()) == int(one.GetNeeded()):
		one.State = "approved"
	}
	return connect.NewResponse(&adminv1.DecideApprovalResponse{Approval: proto.CloneOf(one)}), nil
}

// newApprovalsAPI has two calls that wait, one of them hostile, and one that was decided.
func newApprovalsAPI() *approvalsAPI {
	now := time.Now()
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(d)) }
	return &approvalsAPI{all: []*adminv1.Approval{
		{
			Id: "7f3a01", Tool: "shop.refund", Title: "Refund", Requester: "alice", Rule: "large-refunds", State: waiting, Needed: 2, Created: at(-3 * time.Hour),
			Expires: at(5*time.Hour + time.Minute), MayDecide: true, ArgumentsJson: `{"order":"o-1","sum":300}`, Preview: "would refund 300\nof order o-1",
			Decisions: []*adminv1.Approval_Decision{{Approver: "otto", Approved: true, Reason: "fine by me", Time: at(-time.Hour)}},
		},
		{
			Id: "7f3b02", Tool: "shop.\x1b[31mdrop", Requester: "olive", Rule: "all\u202e", State: waiting, Needed: 1, Created: at(-3 * time.Hour),
			Expires: at(-time.Second), WhyNot: "you made this call\x07", ArgumentsJson: "{\"a\":\"\\u001b[2J\u202e\"}", Preview: "\x1b]0;owned\x07",
		},
		{Id: "99", Tool: "shop.drop", Requester: "bob", Rule: "all", State: "denied", Ended: "otto denied it", Needed: 1, Created: at(-3 * time.Hour)},
	}}
}

func runApprovals(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"approvals"}, args...), strings.NewReader(""), &out, &errs, nil)
	return code, out.String(), errs.String()
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args         []string
		code         int
		want, stderr string // parts; want has lines
	}{
		{[]string{"list"}, exitOK, "ID TOOL REQUESTER RULE AGE EXPIRES APPROVED STATE\n7f3a01 shop.refund alice large-refunds 3.0 h in 5.0 h 1 of 2 waiting\n7f3b02 shop.\\u001b[31mdrop olive all\\u202e 3.0 h now 0 of 1 waiting\n", ""},
		{[]string{"list", "--all"}, exitOK, "\n99 shop.drop bob all 3.0 h - 0 of 1 denied\n", ""},
		{[]string{"list", "--json"}, exitOK, `{"id":"7f3a01","tool":"shop.refund",`, ""},
		{[]string{"show", "7f3a"}, exitOK, "Requester alice\nRule large-refunds\nState waiting\n", ""},
		{[]string{"show", "7f3a"}, exitOK, "fine by me\nYou may decide yes\n\nPreview:\nwould refund 300\nof order o-1\n\nArguments:\n{\n\"order\": \"o-1\",\n\"sum\": 300\n}\n", ""},
		{[]string{"show", "7f3a", "--json"}, exitOK, `"arguments_json":"{\"order\":\"o-1\",\"sum\":300}"`, ""},
		{[]string{"show", "7f3b"}, exitOK, "You may decide no: you made this call\\u0007\n\nPreview:\n?]0;owned?\n", ""},
		{[]string{"show", "99"}, exitOK, "State denied: otto denied it\n", ""},
		{[]string{"show", "99"}, exitOK, "\nThe arguments are not shown.\n", ""},
		{[]string{"show", "7f"}, exitUsage, "", `"7f" is the beginning of 2 approvals, such as 7f3a01 and 7f3b02`},
		{[]string{"show", "zz"}, exitOf(errmap.ResourceNotFound), "", "no approval has this id"},
		{[]string{"show"}, exitUsage, "", "missing argument: want ID"},
		{[]string{"approve", "7f3a01", "--reason", "seen"}, exitOK, "Approved: shop.refund of alice (7f3a01); 2 of 2, so the call may run.\n", ""},
		{[]string{"deny", "7f3a", "--reason", "no"}, exitOK, "Denied: shop.refund of alice (7f3a01); it will not run.\n", ""},
		{[]string{"deny", "7f3a", "--reason", "no", "--json"}, exitOK, `"state":"denied"`, ""},
		{[]string{"approve", "7f3b", "--reason", "seen"}, exitOf(errmap.PermissionDenied), "", "olive made this call"},
		{[]string{"approve", "7f3a"}, exitUsage, "", "--reason: must be set, to 1 to 1024 bytes, has 0"},
		{[]string{"approve", "7f3a", "--reason", strings.Repeat("a", 1025)}, exitUsage, "", "has 1025"},
		{[]string{"approve", "", "--reason", "seen"}, exitUsage, "", "ID: is empty"},
		{[]string{"list", "7f3a"}, exitUsage, "", "unexpected argument"},
		{[]string{"forget"}, exitUsage, "", `no command "forget": want list, show, approve or deny`},
		{nil, exitUsage, "", "which command?"},
	} {
		name := strings.Join(tt.args, " ")
		flags := newApprovalsAPI().serve(t)
		if len(tt.args) == 0 || tt.args[0] == "forget" {
			flags = nil
		}
		code, out, stderr := runApprovals(t, append(slices.Clone(tt.args), flags...)...)
		var lines []string // with the padding of tables and of JSON taken out
		for line := range strings.Lines(out) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		if got := strings.Join(lines, "\n") + "\n"; code != tt.code || !strings.Contains(got, tt.want) || !strings.Contains(stderr, tt.stderr) || (stderr == "") != (tt.stderr == "") {
			t.Errorf("%s: exit code %d, want %d\n%s\n%s", name, code, tt.code, got, stderr)
		}
		if strings.ContainsAny(out+stderr, "\x1b\x07\u202e") {
			t.Errorf("%s: what acts on a terminal: %q", name, out+stderr)
		}
	}
	flags := newApprovalsAPI().serve(t)
	if code, _, stderr := runApprovals(t, "list", "--admin", flags[1]); code != exitRefused || !strings.Contains(stderr, "--token-file") {
		t.Errorf("without a token: %d, %s", code, stderr)
	}
	if code, _, stderr := runApprovals(t, "list", "--admin", testkit.Dead(t)); code != exitRefused || !strings.Contains(stderr, "nothing listens there") {
		t.Errorf("without a sidecar: %d, %s", code, stderr)
	}
	if code, out, stderr := runApprovals(t, append([]string{"list"}, (&approvalsAPI{}).serve(t)...)...); code != exitOK || out != "No call waits for approval.\n" {
		t.Errorf("nothing waits: %d, %s%s", code, out, stderr)
	}
}

// TestApprovalsAreWatched: a call that begins to wait, and one that is decided, get a line each, also where the sidecar was away and
// the token has changed.
func TestApprovalsAreWatched(t *testing.T) {
	t.Parallel()
	a := newApprovalsAPI()
	flags := a.serve(t)
	ctx, ctrlC := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan int, 1)
	var notes bytes.Buffer // complete once the command has ended
	go func() {
		code := run(ctx, append([]string{"approvals", "list", "--watch", "--json"}, flags...), strings.NewReader(""), write, &notes, nil)
		_ = write.Close()
		ended <- code
	}()
	lines := bufio.NewScanner(read)
	next := func() string {
		t.Helper()
		var one adminv1.Approval
		if !lines.Scan() || protojson.Unmarshal(lines.Bytes(), &one) != nil {
			t.Fatalf("no line: %q, %v", lines.Text(), lines.Err())
		}
		return fmt.Sprintf("%s %s %d", one.GetId(), one.GetState(), len(one.GetDecisions()))
	}
	for _, want := range []string{"7f3a01 waiting 1", "7f3b02 waiting 0"} {
		if got := next(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	a.mu.Lock()
	a.away, a.token = 1, "token-of-an-operator-2"
	if err := os.WriteFile(flags[slices.Index(flags, "--token-file")+1], []byte(a.token), 0o600); err != nil {
		t.Error(err)
	}
	a.all = append(a.all, &adminv1.Approval{Id: "new", State: waiting, Needed: 2})
	a.mu.Unlock()
	if got := next(); got != "new waiting 0" {
		t.Error(got)
	}
	a.mu.Lock()
	a.all[3].Decisions = []*adminv1.Approval_Decision{{Approver: "otto", Approved: true}}
	a.mu.Unlock()
	if got := next(); got != "new waiting 1" {
		t.Error(got)
	}
	ctrlC()
	if code := testkit.Receive(t, "the end", ended); code != exitOK || strings.Count(notes.String(), "asking again\n") != 1 {
		t.Errorf("exit code %d, %s", code, notes.String())
	}
}
