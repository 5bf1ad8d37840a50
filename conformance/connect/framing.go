// SPDX-License-Identifier: Apache-2.0

// Package connect frames messages as Connect's conformance suite exchanges them with the
// programs that it tests: each behind its length, four bytes big-endian.
package connect

import (
	"encoding/binary"
	"fmt"
	"io"
)

// MaxMessage is the maximum size of a message, far above what the suite sends.
const MaxMessage = 16 << 20

// ReadMessage reads one message. The error is io.EOF if there is none.
func ReadMessage(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > MaxMessage {
		return nil, fmt.Errorf("a message of %d bytes, above %d", n, MaxMessage)
	}
	raw := make([]byte, n)
	_, err := io.ReadFull(r, raw)
	return raw, err
}

// WriteMessage writes one message at once.
func WriteMessage(w io.Writer, raw []byte) error {
	if len(raw) > MaxMessage {
		return fmt.Errorf("a message of %d bytes, above %d", len(raw), MaxMessage)
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...))
	return err
}
