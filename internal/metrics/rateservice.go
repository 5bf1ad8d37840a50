// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// RateService is a snapshot of the questions to the rate limit service.
type RateService struct {
	// OK and OverLimit count answers, Errors and Timeouts questions without one. Cancelled
	// counts questions whose request ended first.
	OK, OverLimit, Errors, Timeouts, Cancelled uint64
	// SkippedBreaker and SkippedFull count requests that were not asked about.
	SkippedBreaker, SkippedFull uint64
	// InFlight is the number of open questions, MaxInFlight its limit.
	InFlight, MaxInFlight int
	// Failing is set while the service is not asked because it kept failing.
	Failing bool
	// Took are the durations of questions, without cancelled ones.
	Took stats.Histogram
}

// rateService collects what was asked of the rate limit service.
type rateService struct {
	snapshot               func() RateService
	numbers                prometheus.Collector
	requests, skips, times *prometheus.Desc
}

func newRateService(snapshot func() RateService) prometheus.Collector {
	return rateService{
		snapshot: snapshot,
		numbers: newGroup(snapshot,
			gauge("rate_service_in_flight", "Requests to the rate limit service in flight.", func(r RateService) float64 { return float64(r.InFlight) }),
			gauge("rate_service_max_in_flight", "Maximum requests to the rate limit service in flight.", func(r RateService) float64 { return float64(r.MaxInFlight) }),
			state("rate_service_failing", "1 while the rate limit service is not asked because it kept failing.", func(r RateService) bool { return r.Failing })),
		requests: prometheus.NewDesc(namespace+"_rate_service_requests_total",
			"Requests to the rate limit service by outcome: ok, over_limit, error, timeout, or cancelled (the caller was gone first).", []string{"outcome"}, nil),
		skips: prometheus.NewDesc(namespace+"_rate_service_skipped_total",
			"Calls and listings that the rate limit service was not asked about, by reason: breaker (it kept failing) or max_in_flight.", []string{"reason"}, nil),
		times: prometheus.NewDesc(namespace+"_rate_service_duration_seconds",
			"Duration of requests to the rate limit service.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (r rateService) Describe(out chan<- *prometheus.Desc) {
	r.numbers.Describe(out)
	for _, desc := range []*prometheus.Desc{r.requests, r.skips, r.times} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (r rateService) Collect(out chan<- prometheus.Metric) {
	r.numbers.Collect(out)
	s := r.snapshot()
	for _, one := range []struct {
		desc  *prometheus.Desc
		n     uint64
		label string
	}{
		{r.requests, s.OK, "ok"},
		{r.requests, s.OverLimit, "over_limit"},
		{r.requests, s.Errors, "error"},
		{r.requests, s.Timeouts, "timeout"},
		{r.requests, s.Cancelled, "cancelled"},
		{r.skips, s.SkippedBreaker, "breaker"},
		{r.skips, s.SkippedFull, "max_in_flight"},
	} {
		out <- labelled(one.desc, prometheus.CounterValue, float64(one.n), one.label)
	}
	out <- buckets(r.times, s.Took)
}
