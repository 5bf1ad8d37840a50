// SPDX-License-Identifier: Apache-2.0

package loglimit_test

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
)

// TestFailedHandshakesDoNotFillTheLog: lines are written as they are, but a bounded
// number of them, and loggers derived from one share its bound.
func TestFailedHandshakesDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.DebugLevel)
	bounded := loglimit.New(zap.New(core))
	out := [...]interface{ Printf(string, ...any) }{
		zap.NewStdLog(bounded.With(zap.String("a", "b"))), zap.NewStdLog(bounded.Named("other")),
	}
	const attempts = 1000
	for i := range attempts {
		out[i%len(out)].Printf("http: TLS handshake error from 10.0.0.1:%d", i)
	}
	// The bucket holds ten lines and refills while the test runs.
	if n := logged.Len(); n < loglimit.PerSecond || n > attempts/2 {
		t.Errorf("%d lines", n)
	}
	if got := logged.All()[0].Message; got != "http: TLS handshake error from 10.0.0.1:0" {
		t.Errorf("line %q", got)
	}
}
