// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

func resourcesOf(uris ...string) []*outriggerv1.Resource {
	var out []*outriggerv1.Resource
	for _, uri := range uris {
		out = append(out, &outriggerv1.Resource{Uri: uri})
	}
	return out
}

func urisOf(p page[*outriggerv1.Resource]) string {
	var out []string
	for _, r := range p.entries {
		out = append(out, r.GetUri())
	}
	return strings.Join(out, "")
}

// A list that changes between two pages goes on behind what was shown last.
func TestAPartGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		before, after string
		want          string // the second page
		more          bool
	}{
		{"nothing changes", "abcdef", "abcdef", "cd", true},
		{"the end", "abcd", "abcd", "cd", false},
		{"one more before", "abcdef", "xabcdef", "cd", true},
		{"one less before", "abcdef", "bcdef", "cd", true},
		{"another order", "abcdef", "fedcba", "a", false},
		{"the last one is gone", "abcdef", "acdef", "cd", true},
		{"all are gone", "abcdef", "", "", false},
		{"the rest is gone", "abcdef", "ab", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now := tc.before
			part := whole((*outriggerv1.Resource).GetUri, func(context.Context) (page[*outriggerv1.Resource], *errmap.Error) {
				return page[*outriggerv1.Resource]{entries: resourcesOf(strings.Split(now, "")...)}, nil
			})
			first, err := part(t.Context(), nil, 2)
			if err != nil || urisOf(first) != "ab" || first.next == nil {
				t.Fatalf("the first page is %q, %v", urisOf(first), err)
			}
			now = tc.after
			second, err := part(t.Context(), first.next, 2)
			if err != nil || urisOf(second) != tc.want || (second.next != nil) != tc.more {
				t.Errorf("the second page is %q (more %v, %v), want %q", urisOf(second), second.next != nil, err, tc.want)
			}
		})
	}
}

func TestAPartIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	all := strings.Split("abcdefghij", "")
	part := whole((*outriggerv1.Resource).GetUri, func(context.Context) (page[*outriggerv1.Resource], *errmap.Error) {
		return page[*outriggerv1.Resource]{entries: resourcesOf(all...)}, nil
	})
	for size := 1; size <= len(all)+1; size++ {
		var got []string
		var inner *string
		for range all {
			p, err := part(t.Context(), inner, size)
			if err != nil || len(p.entries) > size {
				t.Fatalf("%d a page: %q, %v", size, urisOf(p), err)
			}
			got = append(got, urisOf(p))
			if inner = p.next; inner == nil {
				break
			}
		}
		if inner != nil || !slices.Equal(all, strings.Split(strings.Join(got, ""), "")) {
			t.Errorf("%d a page: %q, more %v", size, got, inner != nil)
		}
	}
	failed := whole((*outriggerv1.Resource).GetUri, func(context.Context) (page[*outriggerv1.Resource], *errmap.Error) {
		return page[*outriggerv1.Resource]{}, errmap.New(errmap.Unavailable)
	})
	if _, err := failed(t.Context(), nil, 1); err == nil || err.Code != errmap.Unavailable {
		t.Errorf("got %v", err)
	}
	if got := behind(new("what is this"), resourcesOf("a"), (*outriggerv1.Resource).GetUri); got != 0 {
		t.Errorf("a place that cannot be read: %d", got)
	}
}
