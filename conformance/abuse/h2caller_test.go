// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// streams opens one HTTP/2 stream after another, itself, because a client library
// repeats those that a GOAWAY left out. On the first GOAWAY it opens no more, and
// connects again.
func streams(ctx context.Context, addr string, seen *callStats) error {
	for {
		conn, err := dial(ctx, addr)
		if errors.Is(err, errGone) {
			return nil
		}
		if err != nil {
			return err
		}
		err = streamsOf(conn, addr, seen)
		_ = conn.Close()
		if err != nil {
			return err
		}
	}
}

// streamsOf calls on one connection until it gets GOAWAY.
func streamsOf(conn net.Conn, addr string, seen *callStats) error {
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return err
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for id := uint32(1); ; id += 2 {
		head.Reset()
		for _, field := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":authority", addr}, {":path", "/rpc"}, {"content-type", "application/json"},
		} {
			if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				return err
			}
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true}); err != nil {
			return fmt.Errorf("stream %d: %w", id, err)
		}
		if err := framer.WriteData(id, true, []byte(rpcCall)); err != nil {
			return fmt.Errorf("stream %d: %w", id, err)
		}
		goes, err := answerOf(framer, id, seen)
		if goes || err != nil {
			return err
		}
	}
}

// answerOf reads frames to the end of a stream, and says whether GOAWAY was among
// them.
func answerOf(framer *http2.Framer, id uint32, seen *callStats) (goes bool, err error) {
	var body []byte
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return false, fmt.Errorf("stream %d: %w", id, err)
		}
		switch f := frame.(type) {
		case *http2.GoAwayFrame:
			if goes = true; f.LastStreamID < id || f.ErrCode != http2.ErrCodeNo {
				return false, fmt.Errorf("stream %d is left out by %v", id, f)
			}
		case *http2.RSTStreamFrame:
			return false, fmt.Errorf("stream %d is reset: %v", id, f.ErrCode)
		case *http2.PingFrame:
			if !f.IsAck() {
				err = framer.WritePing(true, f.Data)
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.DataFrame:
			if body = append(body, f.Data()...); len(f.Data()) > 0 {
				err = errors.Join(framer.WriteWindowUpdate(0, uint32(len(f.Data()))))
			}
		}
		if err != nil {
			return false, fmt.Errorf("stream %d: %w", id, err)
		}
		if data, ok := frame.(*http2.DataFrame); ok && data.StreamEnded() {
			seen.count(bytes.Contains(body, []byte("UNAVAILABLE")))
			return goes, nil
		}
	}
}
