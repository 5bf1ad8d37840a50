// SPDX-License-Identifier: Apache-2.0

//go:build !race

// The streams are opened as those whose memory is measured, which is not done under
// the race detector.

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestEveryStreamCounts opens a stream of each kind at /mcp, and finds it in the
// metrics.
func TestEveryStreamCounts(t *testing.T) {
	t.Parallel()
	s := startLimited(t, "max_streams", limitRow{value: "10"})
	used := func(n int) {
		t.Helper()
		want := fmt.Sprintf("outrigger_limit_used{limit=\"max_streams\"} %d\n", n)
		testkit.Until(t, want, func() bool { return strings.Contains(s.metrics(t), want) })
	}
	used(0)
	openListen(t, s.address)
	used(1)
	openSessionStream(t, s.address)
	used(2)
}
