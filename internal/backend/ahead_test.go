// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// TestReadAheadKeepsTheBytes reads messages as the library does, first a prefix and then
// the rest, from bodies that give their bytes in pieces of every kind, and wants the
// bytes, the error behind them, and the memory back.
func TestReadAheadKeepsTheBytes(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	sizes := []int{0, 1, 15, 16, 200, readAhead - 5, readAhead, readAhead + 1, 3 * readAhead, 7}
	for i, n := range sizes {
		sent.Write([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		sent.Write(bytes.Repeat([]byte{byte(i + 1)}, n))
	}
	wrong := errors.New("broken")
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"whole":            func(r io.Reader) io.Reader { return r },
		"halves":           iotest.HalfReader,
		"bytes":            iotest.OneByteReader,
		"error with bytes": iotest.DataErrReader,
		"failure":          func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(wrong)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := io.EOF
			if name == "failure" {
				want = wrong
			}
			b := &aheadBody{ReadCloser: io.NopCloser(cut(bytes.NewReader(sent.Bytes())))}
			var got bytes.Buffer
			for _, n := range sizes {
				if _, err := io.CopyN(&got, b, 5); err != nil {
					t.Fatalf("prefix: %v", err)
				}
				if m, err := io.CopyN(&got, b, int64(n)); err != nil {
					t.Fatalf("%d of %d bytes: %v", m, n, err)
				}
			}
			if !bytes.Equal(got.Bytes(), sent.Bytes()) {
				t.Error("other bytes came out")
			}
			for range 2 {
				if n, err := b.Read(make([]byte, 5)); n != 0 || !errors.Is(err, want) {
					t.Errorf("behind the last: %d %v, want %v", n, err, want)
				}
			}
			if b.memory != nil {
				t.Error("a body at rest holds memory")
			}
		})
	}
}
