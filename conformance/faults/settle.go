// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Bounds on how the sidecar comes to rest.
const (
	// slack is how many goroutines more than at first there may be: a timer that
	// fires, the refresh of the catalog, one more connection to the backend. A leak
	// of one for each call would be hundreds, one for each fault is more than this
	// when a rig has had all of them.
	slack = 6
	// perConnection is how many goroutines serve an HTTP/1.1 connection to the
	// backend. Those that are idle are kept for 90 s, one for each call that there
	// was at the busiest moment.
	perConnection = 2
	// stableFor is how long a count must not change before it counts.
	stableFor = 300 * time.Millisecond
)

var errNoMetric = errors.New("/metrics does not have it")

// watched is a sidecar process whose admin listener is asked.
type watched struct {
	name, admin string
	// base is the number of goroutines before anything happened.
	base int
}

// get returns what the admin listener says at a path.
func (w *watched) get(path string) (string, error) {
	client := &http.Client{Timeout: testkit.Limit(), Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + w.admin + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: HTTP %d: %.200s", path, resp.StatusCode, body)
	}
	return string(body), err
}

// metric is the sum of all series of a metric whose labels contain a text, and
// whether there is one.
func (w *watched) metric(name, label string) (sum float64, found bool, err error) {
	text, err := w.get("/metrics")
	if err != nil {
		return 0, false, err
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		series, value, ok := strings.Cut(lines.Text(), " ")
		family, labels, _ := strings.Cut(series, "{")
		if !ok || family != name || !strings.Contains(labels, label) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, false, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		sum, found = sum+n, true
	}
	return sum, found, lines.Err()
}

// inUse is the number of requests and calls in flight, and of the places that
// they take. The first metric must be there; the others appear with their first
// use.
func (w *watched) inUse() (float64, error) {
	sum, found, err := w.metric("outrigger_requests_in_flight", "")
	if err != nil || !found {
		return 0, fmt.Errorf("outrigger_requests_in_flight: found %t: %w", found, cmp.Or(err, errNoMetric))
	}
	for _, series := range [][2]string{
		{"outrigger_calls_in_flight", ""},
		{"outrigger_limit_used", `"max_in_flight"`},
		{"outrigger_limit_used", `"max_concurrent_calls"`},
		{"outrigger_limit_used", `"max_queued_calls"`},
	} {
		n, _, err := w.metric(series[0], series[1])
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// goroutines counts them, without those that serve this very question.
func (w *watched) goroutines() (int, error) {
	text, err := w.get("/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "total ")
	count, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(count)
	if err != nil {
		return 0, fmt.Errorf("goroutine profile: %w: %.100s", err, text)
	}
	return n, nil
}

// settled waits until nothing is in flight and the number of goroutines does not
// change, and returns it. most is how many there may be, 0 for any number.
func (w *watched) settled(tb testing.TB, most int) int {
	tb.Helper()
	last, since, open := -1, time.Now(), -1.0
	testkit.Try(tb, w.name+" comes to rest", func() error {
		n, err := w.goroutines()
		if err != nil {
			tb.Fatalf("%s: %v", w.name, err)
		}
		flying, err := w.inUse()
		if err != nil {
			tb.Fatalf("%s: %v", w.name, err)
		}
		if n != last || flying != open {
			last, open, since = n, flying, time.Now()
		}
		if flying == 0 && (most == 0 || n <= most) && time.Since(since) >= stableFor {
			return nil
		}
		return &restless{w, flying, n, most}
	})
	return last
}

// restless says what a process is still at. It looks where it is read.
type restless struct {
	*watched

	flying  float64
	n, most int
}

func (r *restless) Error() string {
	dump, _ := r.get("/debug/pprof/goroutine?debug=1")
	return fmt.Sprintf("%v requests, calls and places in use, %d goroutines, at most %d allowed:\n%.8000s", r.flying, r.n, r.most, dump)
}
