// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// recordRounds are those in which the two sidecars take turns, recordCalls those of
// a turn: many short ones, because what slows a machine lasts longer.
const (
	recordRounds = 61
	recordCalls  = 1000
)

// mostRecording is what recording may take of the throughput.
const mostRecording = 0.05

// records compares the throughput with and without run records, and what a call
// costs the sidecar. The two sidecars take turns before one backend, every round in
// the other order, and the median of the rounds counts.
func records(ctx context.Context, binary, dir, backend string) (rows []Row, err error) {
	without, err := sidecar.Start(ctx, binary, dir, "--backend", backend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, without.Stop()) }()
	with, err := sidecar.Start(ctx, binary, dir, "--backend", backend, "--record-dir", filepath.Join(dir, "records"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, with.Stop()) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()

	turns := []*sidecar.Sidecar{without, with}
	var less, more []float64 // of throughput, and of CPU
	for range recordRounds {
		rates, costs := map[*sidecar.Sidecar]float64{}, map[*sidecar.Sidecar]time.Duration{}
		for _, s := range turns {
			before, err := s.CPU()
			if err != nil {
				return nil, err
			}
			if rates[s], err = rateOf(ctx, client, s, recordCalls); err != nil {
				return nil, err
			}
			after, err := s.CPU()
			if err != nil {
				return nil, err
			}
			costs[s] = after - before
		}
		less = append(less, 1-rates[with]/rates[without])
		more = append(more, float64(costs[with]-costs[without])/float64(costs[without]))
		slices.Reverse(turns)
	}
	slices.Sort(less)
	slices.Sort(more)
	lost := less[len(less)/2]
	return []Row{{
		What: "run records: less throughput", Target: "< 5 %",
		Figure: fmt.Sprintf("%.1f %% (half of the rounds %.1f to %.1f); %.1f %% more CPU of a call",
			100*lost, 100*less[len(less)/4], 100*less[len(less)*3/4], 100*more[len(more)/2]),
		Times: mostRecording / max(lost, 0.001), Goal: 1,
	}}, nil
}
