// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// headerChallenge tells a client how to authenticate. HTTP forbids it in trailers (RFC 9110, section 6.5.1), where gRPC has
// the metadata of errors, and HTTP servers drop it there. So it is metadata of the response's header, which is where clients
// look as well.
const headerChallenge = "Www-Authenticate"

// lateChallenge is how the RPC library asks for it as a trailer.
const lateChallenge = http.TrailerPrefix + headerChallenge

// isPlainGRPC holds for requests whose errors are in trailers.
func isPlainGRPC(kind string) bool {
	return strings.HasPrefix(kind, "application/grpc") && !strings.HasPrefix(kind, "application/grpc-web")
}

// challenger moves the challenge of an error from the trailer to the header, if that has not been sent. A response that has
// begun cannot have one.
type challenger struct {
	http.ResponseWriter

	begun bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *challenger) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *challenger) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher]. What cannot flush writes at once.
func (w *challenger) Flush() {
	w.begin()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for [http.ResponseController].
func (w *challenger) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *challenger) begin() {
	h := w.Header()
	if late, ok := h[lateChallenge]; ok {
		delete(h, lateChallenge)
		if !w.begun {
			h[headerChallenge] = late
		}
	}
	w.begun = true
}

// writeRefusal answers a request that no handler of the RPC library sees, in the client's protocol.
func writeRefusal(w http.ResponseWriter, r *http.Request, writer *connect.ErrorWriter, refused *errmap.Error) {
	shown := errmap.ToConnect(refused, errmap.About{})
	if isPlainGRPC(r.Header.Get("Content-Type")) {
		refused.JSONRPC(errmap.About{}).SetHeaders(w.Header())
		shown.Meta().Del(headerChallenge)
	}
	_ = writer.Write(w, r, shown) // the client has gone if this fails
}
