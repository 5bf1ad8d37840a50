// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"

	"go.uber.org/zap"
	times "golang.org/x/time/rate"
)

// maxHTTPLines bounds the lines a second that net/http may write about broken
// connections: whoever fails to shake hands needs no credentials for it, and must
// not fill a disk.
const maxHTTPLines = 10

// newHTTPLog is the log of net/http's servers.
func newHTTPLog(to *zap.Logger) *log.Logger {
	return log.New(&boundedLines{to: zap.NewStdLog(to).Writer(), limit: times.NewLimiter(maxHTTPLines, maxHTTPLines)}, "", 0)
}

// boundedLines writes so many lines a second and drops the rest. A log.Logger
// writes one line at a time.
type boundedLines struct {
	to    io.Writer
	limit *times.Limiter
}

// Write implements io.Writer.
func (b *boundedLines) Write(line []byte) (int, error) {
	if !b.limit.Allow() {
		return len(line), nil
	}
	return b.to.Write(line)
}
