// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// A message is never given more room than a few times what has come of it, nor more
// than was announced, and is the one that was sent.
func TestTheRoomForAnAnswerFollowsWhatHasCome(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, preallocated - 1, preallocated, preallocated + 1, 3 << 20, 4<<20 + 1, 17 << 20} {
		message := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		sent := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
		sent = append(sent, message...)
		m := messageReader{limit: size}
		rooms := map[int]bool{}
		for at := 0; at < len(sent); {
			n := min(len(sent)-at, 16<<10)
			if room := m.room(n); len(room) > 0 && at%3 == 0 {
				m.filled(copy(room, sent[at:at+n]))
				at += min(n, len(room))
				continue
			}
			if err := m.addPiece(sent[at : at+n]); err != nil {
				t.Fatal(err)
			}
			at += n
			rooms[cap(m.kept)] = true
			if cap(m.kept) > max(preallocated, growth*len(m.kept)) || cap(m.kept) > size {
				t.Fatalf("%d bytes: room for %d where %d have come", size, cap(m.kept), len(m.kept))
			}
		}
		if m.count != 1 || !bytes.Equal(m.kept, message) || len(rooms) > 5 {
			t.Errorf("%d bytes: %d messages, the first of %d bytes, in %d rooms", size, m.count, len(m.kept), len(rooms))
		}
	}
}
