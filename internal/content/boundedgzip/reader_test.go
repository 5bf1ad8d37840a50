// SPDX-License-Identifier: Apache-2.0

package boundedgzip_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/content/boundedgzip"
)

func TestReaderStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		size, limit int
		want        int
		err         error
	}{
		{name: "below", size: 99, limit: 100, want: 99},
		{name: "at", size: 100, limit: 100, want: 100},
		{name: "one beyond, for the library to see", size: 101, limit: 100, want: 101},
		{name: "a bomb", size: 64 << 20, limit: 100, want: 101, err: boundedgzip.ErrOverLimit},
		{name: "nothing", size: 0, limit: 100},
	}
	reader := boundedgzip.New(100) // one for all, as a pool would
	for _, tt := range tests {
		if err := reader.Reset(bytes.NewReader(deflate(t, tt.size))); err != nil {
			t.Fatalf("%s: reset: %v", tt.name, err)
		}
		got, err := io.Copy(io.Discard, reader)
		if int(got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %d bytes and %v, want %d and %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestResetRefusesWhatIsNoGzip(t *testing.T) {
	t.Parallel()
	if err := boundedgzip.New(10).Reset(bytes.NewReader([]byte("plain"))); err == nil {
		t.Error("Reset took plain text")
	}
}

func deflate(t *testing.T, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.CopyN(w, zeros{}, int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
