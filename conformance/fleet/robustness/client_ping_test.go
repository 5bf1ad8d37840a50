// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
)

// ping is a call that needs no state.
type ping struct {
	from, to int64
	failure  string
}

// pings makes calls that need no state until the context ends.
func pings(ctx context.Context, c *client) (all []ping) {
	for ctx.Err() == nil {
		name := c.unique(0)
		one := ping{from: c.h.now()}
		got, err := c.modern(context.WithoutCancel(ctx), "tools/call", "shop_ping", `"name":"shop_ping","arguments":{"name":"`+name+`"}`)
		one.to = c.h.now()
		switch {
		case err != nil:
			one.failure = err.Error()
		case got.Result.StructuredContent.Name != models.ResultOf("Ping", name):
			one.failure = got.raw
		}
		all = append(all, one)
		pause(ctx, c.between(5*time.Millisecond, 40*time.Millisecond))
	}
	return all
}

// window is a time during which something was broken.
type window struct {
	from, to  int64
	ofReplica bool
}

// settling is for how long after a fault its effects are counted as its own.
const settling = int64(2 * time.Second)

// sorted divides calls by what was broken meanwhile.
func sorted(all []ping, windows []window) (calm, withoutNATS, withoutReplica []ping) {
	for _, p := range all {
		isBroken, ofReplica := false, false
		for _, w := range windows {
			if p.from < w.to+settling && p.to > w.from {
				isBroken, ofReplica = true, ofReplica || w.ofReplica
			}
		}
		switch {
		case ofReplica:
			withoutReplica = append(withoutReplica, p)
		case isBroken:
			withoutNATS = append(withoutNATS, p)
		default:
			calm = append(calm, p)
		}
	}
	return calm, withoutNATS, withoutReplica
}

// quantile is how long a part of the calls took at most.
func quantile(all []ping, part float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	took := make([]int64, 0, len(all))
	for _, p := range all {
		took = append(took, p.to-p.from)
	}
	slices.Sort(took)
	return time.Duration(took[min(int(part*float64(len(took))), len(took)-1)])
}
