// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// lister is a native backend that only lists: page after page of resources, each
// as long as the next number says, and two prompts.
type lister struct {
	pages []int
	asked atomic.Int64
	// hangs: it does not answer. fails: it answers with an error.
	hangs, fails bool
}

func (l *lister) CallTool(context.Context, *outriggerv1.ToolCall, http.Header, func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *bridge.Answer, *errmap.Error) {
	return nil, nil, errmap.New(errmap.InternalError)
}

func (l *lister) Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *bridge.Answer, *errmap.Error) {
	if len(header) > 0 {
		return nil, nil, errmap.New(errmap.InternalError, errmap.Message("a count has no credentials"))
	}
	if l.hangs {
		<-ctx.Done()
		return nil, nil, errmap.Wrap(errmap.Timeout, ctx.Err())
	}
	if l.fails {
		return nil, nil, errmap.New(errmap.Unavailable)
	}
	switch in := in.(type) {
	case *outriggerv1.ListPromptsRequest:
		return &outriggerv1.ListPromptsResponse{Prompts: make([]*outriggerv1.Prompt, 2)}, nil, nil
	case *outriggerv1.ListResourcesRequest:
		l.asked.Add(1)
		at, _ := strconv.Atoi(in.GetCursor())
		out := &outriggerv1.ListResourcesResponse{Resources: make([]*outriggerv1.Resource, l.pages[at%len(l.pages)])}
		if at+1 < len(l.pages) || l.pages[0] == 0 {
			next := fmt.Sprint(at + 1)
			out.NextCursor = &next
		}
		time.Sleep(time.Millisecond)
		return out, nil, nil
	}
	return nil, nil, errmap.New(errmap.InternalError)
}

// listing is a bridge in front of a lister, which says that it has 77 resources
// and 88 prompts.
func listing(t *testing.T, l *lister) (*dialect.Handler, *catalog.Live) {
	t.Helper()
	tools := []*outriggerv1.Tool{mcptest.JSONTool("knock", "Knock.", mcptest.NoArguments, "")}
	live := catalog.NewLive([]source.Source{source.NewNative("lister", func(context.Context) (*source.Native, error) {
		return &source.Native{Tools: tools, Description: &outriggerv1.ServerDescription{
			Name: "lister", Version: "1", ContractVersion: "1.0.0", ResourcesCount: 77, PromptsCount: 88,
			Capabilities: &outriggerv1.ServerCapabilities{
				Tools: &outriggerv1.ToolsCapability{}, Resources: &outriggerv1.ResourcesCapability{}, Prompts: &outriggerv1.PromptsCapability{},
			},
		}}, nil
	})}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dialect.New(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{Native: l}), dialect.Options{}), live
}

func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		lister  *lister
		want    [2]int
		atMost  time.Duration
		atLeast time.Duration
	}{
		{name: "some pages", lister: &lister{pages: []int{3, 1, 4}}, want: [2]int{8, 2}, atMost: time.Second},
		{name: "none", lister: &lister{pages: []int{1, 0}}, want: [2]int{1, 2}, atMost: time.Second},
		{name: "very many", lister: &lister{pages: []int{6000, 6000, 6000}}, want: [2]int{10000, 2}, atMost: time.Second},
		{name: "empty pages without end", lister: &lister{pages: []int{0}}, want: [2]int{77, 88}, atMost: 2100 * time.Millisecond, atLeast: 2 * time.Second},
		{name: "a backend that hangs", lister: &lister{hangs: true}, want: [2]int{77, 88}, atMost: 2 * time.Second, atLeast: 2 * time.Second},
		{name: "a backend that fails", lister: &lister{fails: true}, want: [2]int{77, 88}, atMost: time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, live := listing(t, tc.lister)
				begun := time.Now()
				got := b.Offer(live.Current())
				took := time.Since(begun)
				if [2]int{got.Resources, got.Prompts} != tc.want || got.Tools != 1 {
					t.Errorf("%d tools, %d resources, %d prompts; want 1 and %v", got.Tools, got.Resources, got.Prompts, tc.want)
				}
				if took > tc.atMost || took < tc.atLeast {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestCountsAreKeptForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lister{pages: []int{3}}
		b, live := listing(t, l)
		expect := func(asked int64) {
			t.Helper()
			for range 5 {
				if got := b.Offer(live.Current()); got.Resources != 3 {
					t.Errorf("%d resources", got.Resources)
				}
			}
			if got := l.asked.Load(); got != asked {
				t.Errorf("the backend was asked %d times, want %d", got, asked)
			}
		}
		expect(1)
		time.Sleep(10*time.Second - time.Millisecond)
		expect(1)
		time.Sleep(time.Millisecond)
		expect(2)
		if _, err := b.Description(t.Context()); err != nil {
			t.Error(err)
		}
		expect(2)
	})
}

func TestNothingIsCountedBeforeThereIsACatalog(t *testing.T) {
	t.Parallel()
	got := fake(t, mcptest.Echo, bridge.Options{}).Offer(nil)
	if got.Tools != 0 || got.Resources != 0 || got.Prompts != 0 || got.Capabilities.GetTools() == nil || got.Capabilities.GetResources() != nil {
		t.Errorf("got %+v", got)
	}
}
