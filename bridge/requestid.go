// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// requestIDs makes ids of requests (AIP-155). The zero value makes random ones.
type requestIDs struct {
	// isFixed: the ids of each run are the same.
	isFixed bool
	made    atomic.Uint64
}

// of is the id of a call: the key of its caller where that is a UUID of version 4, else one that follows from caller, tool and key,
// else a new one. A call that sets the field of a preview itself has another id than the call that it previews.
func (r *requestIDs) of(c *toolCall) string {
	key := backend.IdempotencyKey(c.req.Header)
	id := strings.ToLower(key)
	switch {
	case key == "":
		id = r.fresh()
	case !isUUID4(id):
		id = uuidOf(keys.Digest(keys.Label("request-id"), []byte(c.req.Caller), []byte(c.tool.Name), []byte(key)))
	}
	if c.looksLikePreview() {
		return previewID(id)
	}
	return id
}

func (r *requestIDs) fresh() string {
	var sum [32]byte
	if r.isFixed {
		sum = keys.Digest(keys.Label("request-id"), binary.BigEndian.AppendUint64(nil, r.made.Add(1)))
	} else {
		_, _ = rand.Read(sum[:16]) // it never fails (crypto/rand)
	}
	return uuidOf(sum)
}

// previewID is the id of the preview of a request with an id. A backend that remembers ids would else answer the call itself as it
// answered its preview.
func previewID(id string) string {
	return uuidOf(keys.Digest(keys.Label("preview-id"), []byte(id)))
}

// uuidOf has the form of a UUID of version 4, because services check that (google.api.field_info).
func uuidOf(sum [32]byte) string {
	b := sum[:16]
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	text := hex.EncodeToString(b)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// isUUID4 reports whether a text is a UUID of version 4 in lower case.
func isUUID4(s string) bool {
	if len(s) != 36 || s[14] != '4' || s[19] != '8' && s[19] != '9' && s[19] != 'a' && s[19] != 'b' {
		return false
	}
	for i := range len(s) {
		switch isDash := i == 8 || i == 13 || i == 18 || i == 23; {
		case isDash != (s[i] == '-'):
			return false
		case !isDash && !strings.ContainsRune("0123456789abcdef", rune(s[i])):
			return false
		}
	}
	return true
}

// fillRequestID gives the arguments of a call the id of its request, unless the caller has set it.
func (e *encoder) fillRequestID(c *toolCall) {
	if c.requestID != "" || c.tool.TakesStream() {
		return
	}
	if c.req.Arguments.Encoding != EncodingJSON {
		if c.tool.RequestIDOf(c.req.Arguments.Bytes) == "" {
			c.requestID = e.ids.of(c)
		}
		return
	}
	arguments := c.arguments()
	if !jsontext.IsObject(arguments) {
		return
	}
	for _, name := range c.requestIDNames() {
		if value, ok := jsontext.Lookup(arguments, name); ok && !jsontext.IsNull(value) && string(value) != `""` {
			return
		}
	}
	c.requestID = e.ids.of(c)
	names := c.requestIDNames()
	c.repair.arguments = content.WithText(arguments, names[0], c.requestID, names[:]...)
}

// keepRequestID gives a call the id that it had in an earlier round.
func (c *toolCall) keepRequestID(id string) {
	if id == "" || c.requestID == "" || id == c.requestID {
		return
	}
	c.requestID = id
	c.wire = c.tool.WithRequestID(nil, c.wire, id)
	c.pooled = false
}
