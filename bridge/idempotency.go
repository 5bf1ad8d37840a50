// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net/http"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// IdempotencyHeader marks calls with the same value as the same call, so that
// the sidecar may retry it (draft-ietf-httpapi-idempotency-key-header). The
// sidecar forwards it to the backend regardless of the allow-list: only the
// backend can tell a retry from a new call.
const IdempotencyHeader = "Idempotency-Key"

// IdempotencyMember is the same in the _meta of a message.
const IdempotencyMember = "dev.outrigger/idempotency-key"

// maxIdempotencyKey bounds a key; a UUID has 36 bytes.
const maxIdempotencyKey = 255

// idempotencyKey is the key of a call, empty where it has none.
func idempotencyKey(h http.Header) string {
	if values := h[IdempotencyHeader]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// checkIdempotencyKey refuses a key that could not be sent on: a caller that
// relies on it must not find out later.
func checkIdempotencyKey(h http.Header) *errmap.Error {
	values, ok := h[IdempotencyHeader]
	if !ok || len(values) == 1 && isIdempotencyKey(values[0]) {
		return nil
	}
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Keyword: "idempotency-key", Message: IdempotencyHeader + " (in _meta: " + IdempotencyMember +
			") must appear once, with 1 to 255 visible ASCII characters",
	}))
}

func isIdempotencyKey(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxIdempotencyKey
}
