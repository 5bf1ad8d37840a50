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

// Rounds in which the two sidecars take turns, and calls of each turn.
const (
	recordRounds = 9
	recordCalls  = 3000
)

// mostRecording is what recording may add to the cost of a call.
const mostRecording = 0.05

// records compares what a call costs the sidecar with and without run records.
// The figure is CPU time of the process, because on a shared machine it says
// more than a rate; the two take turns, and the median of the rounds counts.
func records(ctx context.Context, binary, dir string) (rows []Row, err error) {
	without, err := sidecar.Start(ctx, binary, dir, "--demo")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, without.Stop()) }()
	with, err := sidecar.Start(ctx, binary, dir, "--demo", "--record-dir", filepath.Join(dir, "records"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, with.Stop()) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	defer client.CloseIdleConnections()

	turn := func(s *sidecar.Sidecar) (time.Duration, error) {
		before, err := s.CPU()
		if err != nil {
			return 0, err
		}
		for n := range recordCalls {
			if err := postOne(ctx, client, "http://"+s.Addr+"/rpc", n); err != nil {
				return 0, err
			}
		}
		after, err := s.CPU()
		return after - before, err
	}
	var more []float64
	for range recordRounds {
		a, err := turn(without)
		if err != nil {
			return nil, err
		}
		b, err := turn(with)
		if err != nil {
			return nil, err
		}
		more = append(more, float64(b-a)/float64(a))
	}
	slices.Sort(more)
	added := more[len(more)/2]
	return []Row{{
		What: "run records: more CPU of a call", Target: "< 5 %",
		Figure: fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*added, 100*more[0], 100*more[len(more)-1]),
		Times:  mostRecording / max(added, 0.001), Goal: 1,
	}}, nil
}
