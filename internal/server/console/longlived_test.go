// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
)

// TestPagesOfLongLived: the newest first, each once, while others come and go between pages.
func TestPagesOfLongLived(t *testing.T) {
	t.Parallel()
	const kind = adminv1.LongLivedKind_LONG_LIVED_KIND_TASK
	entry := func(i int) *adminv1.LongLived {
		// Three began at the same time.
		return &adminv1.LongLived{Id: fmt.Sprintf("t_%04d", i), Caller: "a", Began: timestamppb.New(time.Unix(int64(i/3), 0))}
	}
	var all []*adminv1.LongLived
	for i := range 500 {
		all = append(all, entry(i))
	}
	s := &Service{opts: Options{LongLived: func(asked adminv1.LongLivedKind) []*adminv1.LongLived {
		if asked != kind {
			return nil
		}
		return slices.Clone(all)
	}}}
	ask := func(q *adminv1.ListLongLivedRequest) (*adminv1.ListLongLivedResponse, error) {
		resp, err := s.ListLongLived(t.Context(), connect.NewRequest(q))
		if err != nil {
			return nil, err
		}
		return resp.Msg, nil
	}
	var ids []string
	for token, size := "", int32(1); ; size = 1000 {
		page, err := ask(&adminv1.ListLongLivedRequest{Kind: kind, PageSize: size, PageToken: token})
		if err != nil || len(page.GetEntries()) > maxEntries {
			t.Fatalf("%d entries, %v", len(page.GetEntries()), err)
		}
		for _, one := range page.GetEntries() {
			ids = append(ids, one.GetId())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
		all = append(all, entry(500+len(ids))) // newer than the page
		all = slices.DeleteFunc(all, func(one *adminv1.LongLived) bool { return one.GetId() == ids[len(ids)-1] })
	}
	if len(ids) != 500 || !slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) || len(slices.Compact(ids)) != 500 {
		t.Errorf("%d entries: %v", len(ids), ids)
	}
	if page, err := ask(&adminv1.ListLongLivedRequest{Kind: kind}); err != nil || len(page.GetEntries()) != usualPage || int(page.GetTotal()) != len(all) {
		t.Errorf("%d entries of %d, %v", len(page.GetEntries()), page.GetTotal(), err)
	}
	all = []*adminv1.LongLived{{Id: "1", Caller: "\xff" + strings.Repeat("x", 2*maxSummary)}}
	if page, err := ask(&adminv1.ListLongLivedRequest{Kind: kind}); err != nil || len(page.GetEntries()[0].GetCaller()) > maxSummary+8 || !utf8.ValidString(page.GetEntries()[0].GetCaller()) {
		t.Errorf("%v, %v", page, err)
	}
	if page, err := ask(&adminv1.ListLongLivedRequest{Kind: adminv1.LongLivedKind_LONG_LIVED_KIND_SESSION}); err != nil || len(page.GetEntries()) != 0 || page.GetTotal() != 0 {
		t.Errorf("no sessions: %v, %v", page, err)
	}
	for _, bad := range []*adminv1.ListLongLivedRequest{
		{}, {Kind: 99}, {Kind: kind, PageToken: "!"}, {Kind: kind, PageToken: "MQ"}, {Kind: kind, PageToken: strings.Repeat("MSBh", 1000)},
	} {
		if _, err := ask(bad); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
