// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// Names of what the sidecar tells of itself.
const (
	goroutinesMetric = "go_goroutines"
	heapMetric       = "go_memstats_heap_inuse_bytes"
)

// ErrMetrics tells that the sidecar's metrics do not say what they should.
var ErrMetrics = errors.New("metrics")

// gauges finds the values of metrics without labels in Prometheus' text format.
func gauges(text []byte, names ...string) ([]float64, error) {
	out := make([]float64, len(names))
	found := make([]bool, len(names))
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		name, value, ok := strings.Cut(scan.Text(), " ")
		if !ok {
			continue
		}
		for i := range names {
			if name != names[i] {
				continue
			}
			v, err := strconv.ParseFloat(value, 64)
			if err != nil || math.IsNaN(v) || v < 0 {
				return nil, fmt.Errorf("%w: %s is %q", ErrMetrics, name, value)
			}
			out[i], found[i] = v, true
		}
	}
	for i := range names {
		if !found[i] {
			return nil, fmt.Errorf("%w: no %s", ErrMetrics, names[i])
		}
	}
	return out, nil
}

// scrape asks the admin listener.
func scrape(ctx context.Context, admin string) (goroutines int, heap int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", http.NoBody)
	if err != nil {
		return 0, 0, err
	}
	transport := &http.Transport{DisableKeepAlives: true} // a kept connection would be a goroutine more
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrMetrics, err)
	}
	defer func() { _ = resp.Body.Close() }()
	const most = 16 << 20 // what a page of metrics may be
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrMetrics, err)
	}
	values, err := gauges(text, goroutinesMetric, heapMetric)
	if err != nil {
		return 0, 0, err
	}
	return int(values[0]), int64(values[1]), nil
}
