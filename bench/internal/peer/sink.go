// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"io"
	"net/http"
)

// serveSink accepts every export over OTLP and keeps nothing. An empty message is the answer that says so.
func serveSink(ctx context.Context, stdout io.Writer) error {
	return serveHTTP(ctx, stdout, "sink", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.WriteHeader(http.StatusOK)
	})
}
