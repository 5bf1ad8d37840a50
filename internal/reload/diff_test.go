// SPDX-License-Identifier: Apache-2.0

package reload_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/reload"
)

func TestDiffNamesEveryFieldThatDiffers(t *testing.T) {
	t.Parallel()
	start := func() *configv1.Config {
		return &configv1.Config{
			Trust: new("untrusted"), Timeout: durationpb.New(time.Second),
			Limits:  &configv1.Limits{MaxInFlight: new(int32(5)), CallerRate: &configv1.Rate{PerSecond: 3}},
			Catalog: &configv1.Catalog{Include: []string{"a.*"}},
			Tools:   []*configv1.ToolOverlay{{Method: "a.S/M"}},
		}
	}
	for _, tt := range []struct {
		name   string
		change func(c *configv1.Config)
		want   []string
	}{
		{"nothing", func(*configv1.Config) {}, nil},
		{"a value", func(c *configv1.Config) { c.Trust = new("trusted") }, []string{"trust"}},
		{"a value that goes", func(c *configv1.Config) { c.Trust = nil }, []string{"trust"}},
		{"a duration", func(c *configv1.Config) { c.Timeout.Seconds = 2 }, []string{"timeout"}},
		{"a list", func(c *configv1.Config) { c.Catalog.Include = append(c.Catalog.Include, "b.*") }, []string{"catalog.include"}},
		{"inside of a list", func(c *configv1.Config) { c.Tools[0].Method = "a.S/N" }, []string{"tools"}},
		{"deep down", func(c *configv1.Config) { c.Limits.CallerRate.PerSecond = 4 }, []string{"limits.caller_rate.per_second"}},
		{"a group that goes", func(c *configv1.Config) { c.Limits.CallerRate = nil }, []string{"limits.caller_rate.per_second"}},
		{"a group that comes", func(c *configv1.Config) { c.Limits.ToolRate = &configv1.Rate{PerSecond: 1} }, []string{"limits.tool_rate.per_second"}},
		{"an empty group is none", func(c *configv1.Config) { c.Log = &configv1.Log{} }, nil},
		{"several, in their order", func(c *configv1.Config) { c.Limits = nil; c.Demo = true; c.Tools = nil },
			[]string{"demo", "tools", "limits.max_in_flight", "limits.caller_rate.per_second"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := start(), start()
			tt.change(b)
			got := reload.Diff(a, b)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			slices.Reverse(got)
			if merged := reload.Merge(a, b, got); len(reload.Diff(merged, b)) != 0 {
				t.Errorf("merged with all of it: %v, want %v", merged, b)
			}
			if diff := cmp.Diff(start(), a, protocmp.Transform()); diff != "" {
				t.Errorf("Merge changed what it was given:\n%s", diff)
			}
			if merged := reload.Merge(a, b, nil); !proto.Equal(merged, a) {
				t.Errorf("merged with nothing: %v", merged)
			}
		})
	}
}

// TestMergeSharesNothing changes what was merged.
func TestMergeSharesNothing(t *testing.T) {
	t.Parallel()
	a, b := &configv1.Config{}, &configv1.Config{Tools: []*configv1.ToolOverlay{{Method: "a.S/M"}}, Catalog: &configv1.Catalog{Include: []string{"a.*"}}}
	merged := reload.Merge(a, b, []string{"tools", "catalog.include"})
	b.Tools[0].Method, b.Catalog.Include[0] = "changed", "changed"
	if merged.GetTools()[0].GetMethod() != "a.S/M" || merged.GetCatalog().GetInclude()[0] != "a.*" {
		t.Errorf("%v", merged)
	}
}
