// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"io"
	"net/http"
)

// serveRefusal answers every request with an empty 503, after it has read the body, as a server that answers with the request's id
// has to. It is the floor of what it costs to reject a call over net/http.
func serveRefusal(ctx context.Context, stdout io.Writer) error {
	return serveHTTP(ctx, stdout, "refusal", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
}
