// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// The check of arguments is part of a call: it has the time of the call, ends with its caller, and has a bound on its work. The pattern is followed in many ways at once, from every character.
func TestTheCheckOfArgumentsEndsWithItsCall(t *testing.T) {
	t.Parallel()
	const costly = `{"type":"object","properties":{"text":{"type":"string",` +
		`"pattern":"([A-Za-z0-9]+[._%+-]?)+@([A-Za-z0-9]+[.-])+(com|org|net|edu|gov|mil|info|biz|name|museum|aero|coop)"}}}`
	live := catalog.NewLive([]source.Source{source.NewNative("costly", func(context.Context) (*source.Native, error) {
		return &source.Native{
			Tools:       []*outriggerv1.Tool{mcptest.JSONTool("find", "Find.", costly, "")},
			Description: &outriggerv1.ServerDescription{Name: "costly", Version: "1", ContractVersion: "1.0.0"},
		}, nil
	})}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	long := `{"text":"` + strings.Repeat("a", 3900000) + `"}`
	tests := map[string]struct {
		timeout time.Duration
		isGone  bool // its caller
		want    errmap.Code
	}{
		"its work":   {time.Hour, false, errmap.InvalidToolInput},
		"its time":   {time.Nanosecond, false, errmap.Timeout},
		"its caller": {time.Hour, true, errmap.Cancelled},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := dialect.New(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{Native: &lister{}, Timeout: tt.timeout}), dialect.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.isGone {
				cancel()
			}
			resp := b.Handle(ctx, toolCall(b, "find", long))
			if resp.Err == nil || resp.Err.Code != tt.want {
				t.Errorf("got %v, want %v", resp.Err, tt.want)
			}
			if tt.want == errmap.InvalidToolInput && (len(resp.Err.Violations) != 1 || resp.Err.Violations[0].Keyword != "maxWork") {
				t.Errorf("got %+v", resp.Err.Violations)
			}
		})
	}
}
