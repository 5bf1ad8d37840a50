// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// paged serves pages; page decides on what a cursor (nil at first) leads to.
func paged(t *testing.T, page func(cursor *string) (*outriggerv1.ListToolsResponse, error)) string {
	t.Helper()
	return serve(t, &service{unary: func(_ context.Context, in proto.Message, _ http.Header) (proto.Message, error) {
		return page(in.(*outriggerv1.ListToolsRequest).Cursor)
	}})
}

func TestToolsOfAllPages(t *testing.T) {
	t.Parallel()
	const pages, each = 7, 3
	addr := paged(t, func(cursor *string) (*outriggerv1.ListToolsResponse, error) {
		n := 0
		switch {
		case cursor == nil:
		case *cursor == "": // leads to the second page: a cursor like any other
			n = 1
		default:
			var err error
			if n, err = strconv.Atoi(*cursor); err != nil {
				return nil, connect.NewError(connect.CodeInvalidArgument, err)
			}
		}
		out := &outriggerv1.ListToolsResponse{}
		if n != 3 { // a page may be empty
			for i := range each {
				out.Tools = append(out.Tools, tool(fmt.Sprintf("t%d_%d", n, i)))
			}
		}
		switch n {
		case 0:
			out.NextCursor = proto.String("")
		case pages - 1:
		default:
			out.NextCursor = proto.String(strconv.Itoa(n + 1))
		}
		return out, nil
	})
	for _, scheme := range allSchemes() {
		tools, err := dial(t, scheme+"://"+addr, nativeLimits{}).Tools(t.Context())
		if err != nil || len(tools) != (pages-1)*each || tools[0].GetName() != "t0_0" || tools[len(tools)-1].GetName() != "t6_2" {
			t.Errorf("%s: %d tools, %v", scheme, len(tools), err)
		}
	}
}

func TestNoTools(t *testing.T) {
	t.Parallel()
	addr := paged(t, func(*string) (*outriggerv1.ListToolsResponse, error) { return &outriggerv1.ListToolsResponse{}, nil })
	if tools, err := dial(t, "http://"+addr, nativeLimits{}).Tools(t.Context()); err != nil || len(tools) != 0 {
		t.Errorf("got %v, %v", tools, err)
	}
}

func TestToolsFaults(t *testing.T) {
	t.Parallel()
	many := func(n int, next string) (*outriggerv1.ListToolsResponse, error) {
		out := &outriggerv1.ListToolsResponse{NextCursor: proto.String(next)}
		for i := range n {
			out.Tools = append(out.Tools, tool("t"+strconv.Itoa(i)))
		}
		return out, nil
	}
	counting := func(n int) func(*string) (*outriggerv1.ListToolsResponse, error) {
		return func(cursor *string) (*outriggerv1.ListToolsResponse, error) {
			var i int
			if cursor != nil {
				i, _ = strconv.Atoi(*cursor)
			}
			return many(n, strconv.Itoa(i+1))
		}
	}
	for name, tc := range map[string]struct {
		page    func(*string) (*outriggerv1.ListToolsResponse, error)
		opts    nativeLimits
		keyword string
		text    string
	}{
		"one cursor again and again": {page: func(*string) (*outriggerv1.ListToolsResponse, error) { return many(1, "same") }, keyword: keywordCursor},
		"the empty cursor again":     {page: func(*string) (*outriggerv1.ListToolsResponse, error) { return many(1, "") }, keyword: keywordCursor},
		"a circle of three": {page: func(cursor *string) (*outriggerv1.ListToolsResponse, error) {
			return many(0, map[string]string{"": "a", "a": "b", "b": "c", "c": "a"}[deref(cursor)])
		}, keyword: keywordCursor},
		"too many tools":      {page: counting(10), opts: nativeLimits{tools: 25}, keyword: keywordLimit, text: "at most 25 tools"},
		"too many empty ones": {page: counting(0), opts: nativeLimits{pages: 5}, keyword: keywordLimit, text: "at most 5 pages"},
		"too many by default": {page: counting(0), keyword: keywordLimit, text: "at most 1000 pages"},
		"too many bytes":      {page: counting(10), opts: nativeLimits{listBytes: 1000}, keyword: keywordLimit, text: "at most 1000 bytes"},
		"a bad tool on a later page": {page: func(cursor *string) (*outriggerv1.ListToolsResponse, error) {
			if cursor == nil {
				return many(1, "next")
			}
			return &outriggerv1.ListToolsResponse{Tools: []*outriggerv1.Tool{tool("a b")}}, nil
		}, keyword: "string.pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, err := dial(t, "grpc://"+paged(t, tc.page), tc.opts).Tools(t.Context())
			e := refusal(t, err)
			if tools != nil || e.Violations[0].Keyword != tc.keyword || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %d tools, %v", len(tools), err)
			}
		})
	}
	t.Run("an error on a later page", func(t *testing.T) {
		t.Parallel()
		addr := paged(t, func(cursor *string) (*outriggerv1.ListToolsResponse, error) {
			if cursor == nil {
				return many(1, "next")
			}
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("later"))
		})
		tools, err := dial(t, "grpc://"+addr, nativeLimits{}).Tools(t.Context())
		if e := failure(t, err); e.Kind != KindStatus || e.Code != connect.CodeUnavailable || tools != nil {
			t.Errorf("got %v, %v", tools, err)
		}
	})
	t.Run("at the limits", func(t *testing.T) {
		t.Parallel()
		addr := paged(t, func(cursor *string) (*outriggerv1.ListToolsResponse, error) {
			out, err := many(5, "next")
			if cursor != nil {
				out.NextCursor = nil
			}
			return out, err
		})
		if tools, err := dial(t, "grpc://"+addr, nativeLimits{tools: 10, pages: 2}).Tools(t.Context()); err != nil || len(tools) != 10 {
			t.Errorf("got %d tools, %v", len(tools), err)
		}
	})
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
