// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"bufio"
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestReadLine compares what is read with what a person sees, for every way in
// which bytes may arrive.
func TestReadLine(t *testing.T) {
	t.Parallel()
	const limit = 8
	long := strings.Repeat("x", limit+1)
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"one", "a\n", []string{"a"}},
		{"the last line needs no end", "a\nb", []string{"a", "b"}},
		{"Windows", "a\r\nb\r\n", []string{"a", "b"}},
		{"a carriage return inside", "a\rb\n", []string{"a\rb"}},
		{"a carriage return at the end of input", "a\r", []string{"a\r"}},
		{"blank", "\n\r\n\n", []string{"", "", ""}},
		{"of the limit", long[1:] + "\n" + long[1:] + "\r\n" + long[1:], []string{long[1:], long[1:], long[1:]}},
		{"over the limit", long + "\nb\n", []string{"too long", "b"}},
		{"over the limit, Windows", long + "\r\nb\n", []string{"too long", "b"}},
		{"over the limit at the end", "a\n" + long, []string{"a", "too long"}},
		{"a byte order mark", "\ufeffa\n\ufeffb\n", []string{"a", "\ufeffb"}},
		{"two byte order marks", "\ufeff\ufeffa\n", []string{"\ufeffa"}},
		{"a byte order mark and nothing", "\ufeff", nil},
		{"a byte order mark before the limit", "\ufeff" + long[1:] + "\r\n", []string{long[1:]}},
		{"half a byte order mark", "\xef\xbb\na", []string{"\xef\xbb", "a"}},
		{"over the buffer", strings.Repeat("y", 3*readBuffer) + "\nb\n", []string{"too long", "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for name, in := range map[string]io.Reader{
				"at once": strings.NewReader(tc.in), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.in)),
				"the end with the data": iotest.DataErrReader(strings.NewReader(tc.in)),
			} {
				if diff := cmp.Diff(tc.want, collect(in, limit)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// collect reads all lines as the session gets them.
func collect(in io.Reader, limit int) []string {
	lines, stop := make(chan line), make(chan struct{})
	defer close(stop)
	go readLines(in, limit, lines, stop, untimed)
	var out []string
	for l := range lines {
		switch {
		case l.err != nil:
			return out
		case l.tooLong:
			out = append(out, "too long")
		default:
			out = append(out, string(l.text))
		}
	}
	return out
}

// A line without an end costs no more memory than its limit. Not parallel: it
// looks at what the process allocates.
func TestALongLineIsThrownAway(t *testing.T) { //nolint:paralleltest // See above.
	const limit, size = 1 << 10, 64 << 20
	in := io.MultiReader(io.LimitReader(repeat('x'), size), strings.NewReader("\nnext\n"))
	r := bufio.NewReaderSize(in, readBuffer)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := readLine(r, limit, nil)
	runtime.ReadMemStats(&after)
	if cost := after.TotalAlloc - before.TotalAlloc; !l.tooLong || l.text != nil || cost > 4*readBuffer {
		t.Errorf("too long: %v, %d bytes kept, %d bytes allocated", l.tooLong, len(l.text), cost)
	}
	if next := readLine(r, limit, nil); string(next.text) != "next" {
		t.Errorf("the next line is %q", next.text)
	}
}

type repeat byte

func (b repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

func TestTheReaderOfLinesStops(t *testing.T) {
	t.Parallel()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		readLines(repeat('\n'), 8, make(chan line), stop, untimed)
		close(done)
	}()
	close(stop)
	<-done
}

func FuzzReadLines(f *testing.F) {
	for _, seed := range []string{"", "a\n", "a\r\nb", "\n\n", strings.Repeat("x", 20) + "\ny\n", "a\r", "\r\n\r", "\ufeffa\n\ufeff"} {
		f.Add([]byte(seed), uint8(8))
	}
	f.Fuzz(func(t *testing.T, in []byte, limit uint8) {
		most := int(limit) + 1
		var want []string
		for _, part := range bytes.SplitAfter(bytes.TrimPrefix(in, byteOrderMark), []byte("\n")) {
			if len(part) == 0 {
				continue
			}
			text := string(trimEnd(part))
			if len(text) > most {
				text = "too long"
			}
			want = append(want, text)
		}
		if diff := cmp.Diff(want, collect(iotest.HalfReader(bytes.NewReader(in)), most)); diff != "" {
			t.Errorf("%q, at most %d (-want +got):\n%s", in, most, diff)
		}
	})
}

// untimed is for lines whose time does not matter.
func untimed() time.Time { return time.Time{} }
