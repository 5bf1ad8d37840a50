// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// A large page is not copied into a reply, and the message is the same as that of
// one that was.
func TestAReplyWithASharedPartIsTheSameMessage(t *testing.T) {
	t.Parallel()
	msg := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":"one","method":"tools/list","params":{}}`), jsonrpc.ProfileCanonical, jsonrpc.Limits{})
	for _, size := range []int{0, 1, leastShared - 3, leastShared - 2, leastShared, 1 << 20} {
		entries := []byte(`"` + strings.Repeat("x", size) + `"`)
		call := &exchange{in: &Inbound{Message: &msg}}
		call.putPage(entries, []byte(`],"ttlMs":1}`))
		r := &call.reply
		want := `{"jsonrpc":"2.0","id":"one","result":{"tools":[` + string(entries) + `],"ttlMs":1}}`
		isShared := len(r.body) < len(want)
		if wantShared := len(entries) >= leastShared; isShared != wantShared {
			t.Errorf("%d bytes: shared %v, want %v", size, isShared, wantShared)
		}
		var written bytes.Buffer
		n, err := r.WriteTo(&written)
		if err != nil || n != int64(len(want)) || r.Len() != len(want) || r.IsEmpty() {
			t.Errorf("%d bytes: wrote %d, %v; length %d", size, n, err, r.Len())
		}
		if written.String() != want || string(r.Bytes()) != want || string(r.AppendTo([]byte("["))) != "["+want {
			t.Errorf("%d bytes: %.80s", size, written.String())
		}
		if isShared && &r.shared.part[0] != &entries[0] {
			t.Errorf("%d bytes: copied", size)
		}
	}
}

// What cannot be written to takes no more of a reply.
func TestAReplyThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	r := Reply{body: []byte("()"), shared: shared{part: []byte("shared"), at: 1}}
	for room := range r.Len() {
		w := &narrow{room: room}
		if n, err := r.WriteTo(w); !errors.Is(err, io.ErrShortWrite) || n != int64(room) || w.String() != "(shared)"[:room] {
			t.Errorf("room for %d: %d, %v, %q", room, n, err, w.String())
		}
	}
	if empty := (&Reply{}); !empty.IsEmpty() || empty.Len() != 0 || empty.Bytes() != nil {
		t.Error("a reply that is not sent has a message")
	}
}

// narrow takes so many bytes and no more.
type narrow struct {
	bytes.Buffer
	room int
}

func (n *narrow) Write(p []byte) (int, error) {
	if len(p) > n.room-n.Len() {
		p = p[:n.room-n.Len()]
		_, _ = n.Buffer.Write(p)
		return len(p), io.ErrShortWrite
	}
	return n.Buffer.Write(p)
}
