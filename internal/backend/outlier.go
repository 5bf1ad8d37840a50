// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// successRate finds addresses that fail far more often than the others: Envoy's and gRPC's ejection by success rate (gRFC A50). An
// address that fails one call of three never fails five in a row for long, and shows here.
type successRate struct {
	interval time.Duration
	// factor is how many standard deviations below the mean is far.
	factor     float64
	leastHosts int
	leastCalls int
	enforced   int // percent
}

// tally are the calls of an address in one interval.
type tally struct {
	e              *endpoint
	answered, lost int
}

func (t *tally) rate() float64 { return float64(t.answered) / float64(t.answered+t.lost) }

func newSuccessRate(o *configv1.BackendSuccessRate) successRate {
	s := successRate{
		interval: o.GetInterval().AsDuration(), leastHosts: int(o.GetMinimumHosts()), leastCalls: int(o.GetRequestVolume()),
		factor: defaults.BackendSuccessRateStdevFactor, enforced: defaults.BackendSuccessRateEnforcementPercentage,
	}
	defaults.Fill(&s.interval, defaults.BackendSuccessRateInterval)
	defaults.Fill(&s.leastHosts, defaults.BackendSuccessRateMinimumHosts)
	defaults.Fill(&s.leastCalls, defaults.BackendSuccessRateRequestVolume)
	if o != nil && o.StdevFactor != nil {
		s.factor = float64(o.GetStdevFactor())
	}
	if o != nil && o.EnforcementPercentage != nil {
		s.enforced = int(o.GetEnforcementPercentage())
	}
	s.factor /= 1000
	return s
}

// outliers are the addresses below the threshold, the worst first. Only those with enough calls are compared, and none where too few
// have them: with less, chance looks like a fault.
//
// Ten addresses with 100 calls each, of which one fails 30: rates 1 (nine times) and 0.7, mean 0.97, deviation 0.09, threshold
// 0.97 - 1.9 · 0.09 = 0.799. The one with 0.7 is an outlier. So is one that fails 15 (threshold 0.8995, rate 0.85): what counts is the
// distance from the others, not the share that fails.
func (s *successRate) outliers(all []tally) []tally {
	compared := slices.DeleteFunc(slices.Clone(all), func(t tally) bool { return t.answered+t.lost < s.leastCalls })
	if len(compared) < s.leastHosts || len(compared) == 0 {
		return nil
	}
	n := float64(len(compared))
	var mean, variance float64
	for i := range compared {
		mean += compared[i].rate() / n
	}
	for i := range compared {
		off := compared[i].rate() - mean
		variance += off * off / n
	}
	threshold := mean - s.factor*math.Sqrt(variance)
	out := slices.DeleteFunc(compared, func(t tally) bool {
		return t.rate() >= threshold || rand.IntN(100) >= s.enforced //nolint:gosec // a guess gains nothing
	})
	slices.SortFunc(out, func(a, b tally) int { return cmp.Compare(a.rate(), b.rate()) })
	return out
}
