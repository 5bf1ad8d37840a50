// SPDX-License-Identifier: Apache-2.0

package saturation

import (
	"context"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/report"
)

// recoveryShare is the part of the capacity that is offered right after too much, recoveryTime for how long.
const (
	recoveryShare = 0.5
	recoveryTime  = 2 * time.Second
)

// curves measures goodput by the number of callers and by the rate that is offered. Rounds are interleaved: in each,
// every subject meets every number, and each round begins with another subject.
func (m *measurement) curves(ctx context.Context, out *report.Saturation) error {
	all, err := m.subjects(ctx)
	if err != nil {
		return err
	}
	for round := range m.Rounds {
		m.say("round %d of %d", round+1, m.Rounds)
		for i := range all {
			s := all[(i+round)%len(all)]
			peak := 0.0
			for _, n := range m.Callers {
				sample, err := m.closed(ctx, s, n)
				if err != nil {
					return err
				}
				peak = max(peak, sample.Goodput())
				out.Closed.Add(s.name, point(float64(n), sample))
			}
			for _, x := range m.Multiples {
				sample, err := m.open(ctx, s, m.Connections, x*peak)
				if err != nil {
					return err
				}
				p := point(x, sample)
				p.Capacity = peak
				if p.Recovery, err = m.recovery(ctx, s, x, peak); err != nil {
					return err
				}
				out.Open.Add(s.name, p)
			}
		}
	}
	return nil
}

// recovery is how long it takes until a rate that fits is answered again after too much.
func (m *measurement) recovery(ctx context.Context, s *subject, multiple, peak float64) (time.Duration, error) {
	if multiple <= 1 {
		return 0, nil
	}
	clients := s.clients(min(m.Connections, 256))
	defer closeAll(clients)
	sample, err := open(ctx, clients, recoveryShare*peak, window{length: min(recoveryTime, m.Window)})
	if err != nil {
		return 0, err
	}
	return sample.late, nil
}
