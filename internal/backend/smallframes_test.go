// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"golang.org/x/net/http2"
)

// readerConn reads from a reader.
type readerConn struct {
	net.Conn
	io.Reader
}

func (c readerConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// However the bytes are cut, only the one setting changes, in each SETTINGS frame.
func TestPeersTakeSmallFrames(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	fr := http2.NewFramer(&sent, nil)
	write := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	write(fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 5}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20}))
	write(fr.WriteSettingsAck())
	write(fr.WriteData(1, false, bytes.Repeat([]byte{0, 5, 1, 2, 3, 4}, 100)))
	write(fr.WriteData(1, true, nil))
	write(fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1<<24 - 1}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 5}))
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
	} {
		got := http2.NewFramer(io.Discard, &smallFrames{Conn: readerConn{Reader: cut(bytes.NewReader(sent.Bytes()))}})
		want := http2.NewFramer(io.Discard, bytes.NewReader(sent.Bytes()))
		settings := 0
		for {
			w, err := want.ReadFrame()
			if err != nil {
				break
			}
			g, err := got.ReadFrame()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch g := g.(type) {
			case *http2.SettingsFrame:
				if g.IsAck() {
					continue
				}
				settings++
				_ = g.ForeachSetting(func(s http2.Setting) error {
					val, _ := w.(*http2.SettingsFrame).Value(s.ID)
					if s.ID == http2.SettingMaxFrameSize {
						val = smallestMaxFrame
					}
					if s.Val != val {
						t.Errorf("%s: %v, want %d", name, s, val)
					}
					return nil
				})
			case *http2.DataFrame:
				if !bytes.Equal(g.Data(), w.(*http2.DataFrame).Data()) {
					t.Errorf("%s: data changed", name)
				}
			}
		}
		if settings != 2 {
			t.Errorf("%s: %d SETTINGS frames", name, settings)
		}
	}
}
