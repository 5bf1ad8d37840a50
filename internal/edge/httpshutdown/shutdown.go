// SPDX-License-Identifier: Apache-2.0

// Package httpshutdown shuts down servers that speak HTTP/2 with net/http's own implementation: those of tests and of the demo. The
// sidecar's listeners have another (internal/h2).
package httpshutdown

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// again is after what time connections are told once more.
const again = time.Second

// Shutdown is [http.Server.Shutdown], once a second until all connections have ended or ctx has. net/http tells HTTP/2 connections
// that the server ends when Shutdown begins, and never tells one that is being set up at that time, for which it then waits.
func Shutdown(ctx context.Context, server *http.Server) error {
	for {
		soon, cancel := context.WithTimeout(ctx, again)
		err := server.Shutdown(soon)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}
