// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestBrokenHandshakesFillNoDisk: lines come as they are, and not without end.
func TestBrokenHandshakesFillNoDisk(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.DebugLevel)
	out := zap.NewStdLog(boundedLog(zap.New(core)).With(zap.String("a", "b")))
	const attempts = 1000
	for i := range attempts {
		out.Printf("http: TLS handshake error from 10.0.0.1:%d", i)
	}
	// The bucket holds ten and fills while the test runs.
	if n := logged.Len(); n < maxHTTPLines || n > attempts/2 {
		t.Errorf("%d lines", n)
	}
	if got := logged.All()[0].Message; got != "http: TLS handshake error from 10.0.0.1:0" {
		t.Errorf("line %q", got)
	}
}
