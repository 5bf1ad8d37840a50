// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"testing"
)

// counted lends buffers that are no larger than what is asked for.
type counted struct{ sizes []int }

func (c *counted) Get(n int) []byte {
	c.sizes = append(c.sizes, n)
	return make([]byte, 0, n)
}

// TestRoom writes both ways with buffers that somebody lends: one of the exact size
// is asked for where there is no room, none where there is, and the bytes are
// those that come without.
func TestRoom(t *testing.T) {
	t.Parallel()
	m := compiled(t, "shapes.v1.Leaf")
	doc := []byte(`{"name":"` + string(bytes.Repeat([]byte("n"), 10_000)) + `"}`)
	wire := wireOf(t, "shapes.v1.Leaf", string(doc))
	for _, way := range []struct {
		name     string
		write    func(room *counted, dst []byte) ([]byte, error)
		expected []byte
	}{
		{"to wire", func(room *counted, dst []byte) ([]byte, error) { return m.ToWireWith(t.Context(), room, dst, doc) }, wire},
		{"to JSON", func(room *counted, dst []byte) ([]byte, error) { return m.ToJSONWith(room, dst, wire) }, must(m.ToJSON(nil, wire))},
	} {
		for _, head := range []string{"", `{"value":`} {
			room := &counted{}
			got, err := way.write(room, []byte(head)[:len(head):len(head)])
			if err != nil || string(got) != head+string(way.expected) || len(room.sizes) != 1 || room.sizes[0] != len(got) || cap(got) != len(got) {
				t.Errorf("%s behind %q: %v, %d bytes of %d, asked for %v", way.name, head, err, len(got), cap(got), room.sizes)
			}
			room = &counted{}
			got, err = way.write(room, append(make([]byte, 0, 2*len(doc)), head...))
			if err != nil || string(got) != head+string(way.expected) || len(room.sizes) != 0 {
				t.Errorf("%s behind %q with room: %v, %d bytes, asked for %v", way.name, head, err, len(got), room.sizes)
			}
		}
	}
}

// must is what is known to work.
func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
