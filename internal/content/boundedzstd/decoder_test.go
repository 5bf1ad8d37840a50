// SPDX-License-Identifier: Apache-2.0

package boundedzstd_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/outrigger-mcp/outrigger/internal/content/boundedzstd"
)

func decoder(t *testing.T, limit int) *boundedzstd.Decoder {
	t.Helper()
	d, err := boundedzstd.NewDecoder(limit)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// compressed is zeros, compressed by the library as a stream (whose frame does not have the size) or as a whole (whose frame has it).
func compressed(t *testing.T, size int, isStream bool, options ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, append(options, zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		t.Fatal(err)
	}
	if !isStream {
		return w.EncodeAll(make([]byte, size), nil)
	}
	for left := size; left > 0; left -= min(left, 1<<10) {
		if _, err := w.Write(make([]byte, min(left, 1<<10))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestTheLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{100, 100_000, 20 << 20} {
		d := decoder(t, limit) // one for all, as a pool would
		for _, isStream := range []bool{true, false} {
			for _, size := range []int{0, 1, limit - 1, limit} {
				if got, err := d.Decode(compressed(t, size, isStream)); err != nil || len(got) != size {
					t.Errorf("limit %d: %d bytes of %d, %v", limit, len(got), size, err)
				}
			}
			for name, message := range map[string][]byte{
				"one beyond":   compressed(t, limit+1, isStream),
				"a bomb":       compressed(t, 2*limit+(9<<20), isStream),
				"two frames":   bytes.Repeat(compressed(t, limit/2+1, isStream), 2),
				"many of them": bytes.Repeat(compressed(t, limit/2, isStream), 100),
			} {
				if got, err := d.Decode(message); !errors.Is(err, boundedzstd.ErrOverLimit) || len(got) != 0 {
					t.Errorf("limit %d: %s: %d bytes, %v", limit, name, len(got), err)
				}
			}
		}
	}
}

// windowed is a frame of one byte, whose window has 2 to the power of log bytes (RFC 8878, 3.1.1.1.2).
func windowed(log byte) []byte {
	return []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, (log - 10) << 3, 0x09, 0x00, 0x00, 'a'}
}

// TestWindows: one of 8 MiB is read with every limit, because encoders choose it without a look at the message.
func TestWindows(t *testing.T) {
	t.Parallel()
	d := decoder(t, 1000)
	if got, err := d.Decode(windowed(23)); err != nil || string(got) != "a" {
		t.Errorf("8 MiB: %q, %v", got, err)
	}
	if _, err := d.Decode(windowed(24)); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("16 MiB: %v", err)
	}
	if got, err := decoder(t, 16<<20).Decode(windowed(24)); err != nil || string(got) != "a" {
		t.Errorf("16 MiB of 16: %q, %v", got, err)
	}
}

// TestAnnouncementsTakeNoMemory: windows and sizes are announced in a few bytes.
func TestAnnouncementsTakeNoMemory(t *testing.T) {
	d := decoder(t, 1<<20)
	messages := [][]byte{
		windowed(23),
		windowed(31),
		{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0x7f, 0x0b, 0x00, 0x00, 'a'}, // a content of 2 GiB
	}
	var before, after runtime.MemStats
	const rounds = 20
	runtime.ReadMemStats(&before)
	for range rounds {
		for _, message := range messages {
			_, _ = d.Decode(message)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > 256<<10 {
		t.Errorf("%d bytes of memory for messages of ten bytes", each)
	}
}

// TestWhatIsCut is an error that a reader does not take for the end.
func TestWhatIsCut(t *testing.T) {
	t.Parallel()
	d := decoder(t, 1<<20)
	whole := compressed(t, 300_000, true)
	for n := 1; n < len(whole); n++ {
		if got, err := d.Decode(whole[:n]); err == nil || errors.Is(err, io.EOF) || errors.Is(err, boundedzstd.ErrOverLimit) {
			t.Fatalf("%d of %d bytes: %d, %v", n, len(whole), len(got), err)
		}
	}
	if _, err := d.Decode([]byte("plain")); err == nil {
		t.Error("plain text was taken")
	}
	if got, err := d.Decode(whole); err != nil || len(got) != 300_000 {
		t.Errorf("after errors: %d bytes, %v", len(got), err)
	}
}

func TestEncoder(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := boundedzstd.NewEncoder(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	d := decoder(t, 1<<20)
	for _, size := range []int{0, 1, 1 << 20} {
		want := bytes.Repeat([]byte("outrigger"), size/9+1)[:size]
		out.Reset()
		w.Reset(&out)
		if _, err := w.Write(want); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Decode(out.Bytes()); err != nil || !bytes.Equal(got, want) || size > 1000 && out.Len() > size/100 {
			t.Errorf("%d bytes in %d: %d, %v", size, out.Len(), len(got), err)
		}
	}
}
