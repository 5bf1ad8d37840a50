// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"io"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// leastQuoted is the size of a result from which its text is written in pieces
	// and never stands in memory. Below it one write costs less than several.
	leastQuoted = 64 << 10
	// pieceBytes is how much of a result is made text at a time. A piece stays in
	// the processor's cache until it is written.
	pieceBytes = 32 << 10
)

// quoted is the text of a result that stands in a reply a second time, as shared.
type quoted struct {
	// at is where in the reply's own bytes the text stands, and size its length with
	// its quotes; 0 for none.
	at, size int
	// pooled is set where the result is of the bridge's buffers.
	pooled bool
}

// quotes leaves the result of a large call where it is, instead of copying it twice
// into a reply, and reports whether it did.
func (call *exchange) quotes(tail ...[]byte) bool {
	if len(call.resp.Result.Bytes) < leastQuoted {
		return false
	}
	size, ok := jsontext.QuotedLen(call.resp.Result.Bytes)
	if !ok {
		return false
	}
	const around = 256
	id := call.in.Message.ID
	dst := make([]byte, 0, len(id.Raw())+envelopeBytes+around+len(call.resp.Explanation))
	dst = append(jsonrpc.AppendResultHead(dst, id), contentHead...)
	call.quoted.at, call.quoted.size = len(dst), size
	dst = append(closeContent(dst, call.resp.Explanation), `,"structuredContent":`...)
	call.shared.at = len(dst)
	dst = append(dst, `,"isError":false`...)
	for _, piece := range tail {
		dst = append(dst, piece...)
	}
	dst = append(dst, '}')
	call.whole = dst
	call.shared.part, call.quoted.pooled = call.resp.Take()
	return true
}

// writeQuoted writes a text as a JSON string, in pieces.
func writeQuoted(w io.Writer, text []byte, buffers *bytepool.Pool) (written int64, err error) {
	piece := buffers.Get(pieceBytes + pieceBytes/4)
	defer func() { buffers.Put(piece) }()
	for first := true; len(text) > 0; first = false {
		n := cutAt(text, pieceBytes)
		piece = jsontext.AppendText(piece[:0], text[:n])
		text = text[n:]
		out := piece
		if !first {
			out = out[1:]
		}
		if len(text) > 0 {
			out = out[:len(out)-1]
		}
		m, err := w.Write(out)
		if written += int64(m); err != nil {
			return written, err //nolint:wrapcheck // as io.WriterTo has it
		}
	}
	return written, nil
}

// cutAt is at most n, and not within a character.
func cutAt(text []byte, n int) int {
	if len(text) <= n {
		return len(text)
	}
	for n > 1 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}
