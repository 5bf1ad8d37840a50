// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
)

// maxEntries bounds a page of sessions, tasks or streams.
const maxEntries = 200

// ListLongLived implements AdminService. A page begins after an entry, and not at a number: entries come and go between pages.
func (s *Service) ListLongLived(_ context.Context, req *connect.Request[adminv1.ListLongLivedRequest]) (*connect.Response[adminv1.ListLongLivedResponse], error) {
	kind := req.Msg.GetKind()
	if _, known := adminv1.LongLivedKind_name[int32(kind)]; !known || kind == adminv1.LongLivedKind_LONG_LIVED_KIND_UNSPECIFIED {
		return nil, refused(errmap.InvalidParams, "Invalid parameters: kind must be SESSION, TASK or STREAM")
	}
	size := int(req.Msg.GetPageSize())
	if size <= 0 {
		size = usualPage
	}
	after, err := readPlace(req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	all := s.opts.LongLived(kind)
	out := &adminv1.ListLongLivedResponse{Total: int32(min(len(all), 1<<30))}
	slices.SortFunc(all, func(a, b *adminv1.LongLived) int { return placeOf(a).compare(placeOf(b)) })
	if after != nil {
		all = slices.DeleteFunc(all, func(one *adminv1.LongLived) bool { return placeOf(one).compare(*after) <= 0 })
	}
	page := all[:min(size, maxEntries, len(all))]
	for _, one := range page {
		shown := proto.CloneOf(one)
		shown.Caller, shown.Tool, shown.Detail = shownText(one.GetCaller()), shownText(one.GetTool()), shownText(one.GetDetail())
		out.Entries = append(out.Entries, shown)
	}
	if len(page) < len(all) {
		out.NextPageToken = placeOf(page[len(page)-1]).token()
	}
	return connect.NewResponse(out), nil
}

// shownText is a text that a caller may have chosen: bounded, and valid in a message.
func shownText(text string) string { return strings.ToValidUTF8(clip(text, maxSummary), "\uFFFD") }

// place is where an entry is in its list.
type place struct {
	began int64 // nanoseconds
	id    string
}

func placeOf(one *adminv1.LongLived) place {
	return place{one.GetBegan().AsTime().UnixNano(), one.GetId()}
}

// compare orders places: the newest first.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(other.began, p.began), strings.Compare(other.id, p.id))
}

// token is the token of the page after a place.
func (p place) token() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", p.began, p.id))
}

// readPlace reads a token; nil for none.
func readPlace(token string) (*place, error) {
	if token == "" {
		return nil, nil //nolint:nilnil // the first page
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	var p place
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%d %s", &p.began, &p.id)
	}
	if err != nil || len(token) > maxQuery {
		return nil, refused(errmap.InvalidParams, "Invalid parameters: page_token is not one that ListLongLived returned")
	}
	return &p, nil
}
