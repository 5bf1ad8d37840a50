// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/content/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

func largeReply(t *testing.T, result, explanation string) (r Reply, isQuoted bool) {
	t.Helper()
	msg := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":"one","method":"tools/call","params":{}}`), jsonrpc.ProfileCanonical, jsonrpc.Limits{})
	call := &exchange{in: &Inbound{Message: &msg}, resp: &bridge.Response{Explanation: explanation}}
	call.resp.Result.Bytes = []byte(result)
	if !call.quotes(&bytepool.Pool{}, []byte(`,"_meta":{}`), closingBrace) {
		return r, false
	}
	return call.reply, true
}

// A large result is written in pieces, and the message is that of one that was
// copied into the reply.
func TestALargeResultIsWrittenInPieces(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{
		"plain": "x", "escapes": `a\"b`, "two bytes": "é", "three bytes": "€x", "four bytes": "x🛶", "odd": "\x7fé\"🛶",
	} {
		for _, size := range []int{leastQuoted, leastQuoted + 1, 2 * pieceBytes, 3*pieceBytes + 7} {
			for _, explanation := range []string{"", `cut "here"`} {
				result := `{"t":"` + strings.Repeat(unit, size/len(unit)+1) + `"}`
				r, ok := largeReply(t, result, explanation)
				if !ok {
					t.Fatalf("%s: not in pieces", name)
				}
				want := appendContent([]byte(`{"jsonrpc":"2.0","id":"one","result":`), []byte(result), explanation)
				want = append(append(want, `,"structuredContent":`+result+`,"isError":false,"_meta":{}`...), `}}`...)
				var written bytes.Buffer
				n, err := r.WriteTo(&written)
				if err != nil || n != int64(len(want)) || r.Len() != len(want) || r.IsEmpty() {
					t.Errorf("%s, %d bytes: wrote %d of %d, %v; length %d", name, size, n, len(want), err, r.Len())
				}
				head, shared, tail := r.Parts()
				for how, got := range map[string][]byte{
					"written": written.Bytes(), "bytes": r.Bytes(), "appended": r.AppendTo(nil), "parts": bytes.Join([][]byte{head, shared, tail}, nil),
				} {
					if !bytes.Equal(got, want) {
						t.Errorf("%s, %d bytes, %s: another message of %d bytes", name, size, how, len(got))
					}
				}
				if len(r.body) > 1000 {
					t.Errorf("%s: copied into %d bytes", name, len(r.body))
				}
			}
		}
	}
}

// What is small, or may be escaped in another way, is copied.
func TestAResultThatIsNotWrittenInPieces(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]string{
		"small": strings.Repeat("x", leastQuoted-1), "control": strings.Repeat("x", leastQuoted) + "\n", "not UTF-8": strings.Repeat("x", leastQuoted) + "\xff",
	} {
		if _, ok := largeReply(t, result, ""); ok {
			t.Errorf("%s: in pieces", name)
		}
	}
}

// A reader that goes away ends the writing where it is.
func TestALargeReplyThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	r, _ := largeReply(t, `"`+strings.Repeat(`\"`, leastQuoted)+`"`, "")
	want := string(r.Bytes())
	for _, room := range []int{0, 1, 60, 100, pieceBytes, r.Len() / 2, r.Len() - 1} {
		w := &narrow{room: room}
		if n, err := r.WriteTo(w); err != io.ErrShortWrite || n != int64(room) || w.String() != want[:room] { //nolint:errorlint // its own
			t.Errorf("room for %d: %d, %v", room, n, err)
		}
	}
	r.Release()
	if !r.IsEmpty() || r.Len() != 0 {
		t.Error("a reply that was released has a message")
	}
}
