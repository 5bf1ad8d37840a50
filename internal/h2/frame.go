// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

const (
	frameHeaderBytes = 9
	// defaultFrameSize and defaultWindow hold until a peer says otherwise (RFC 9113, section 6.5.2).
	defaultFrameSize = 16 << 10
	defaultWindow    = 65535
	maxWindow        = 1<<31 - 1
	maxFrameSize     = 1<<24 - 1
	maxStreamID      = 1<<31 - 1
	// highWater is where bytes of messages stop being copied to what is about to be written; they follow when that has left.
	highWater = 64 << 10
	// prefixBytes are before each message of gRPC: a flag, and the length.
	prefixBytes = 5
)

func appendFrameHeader(dst []byte, length int, kind http2.FrameType, flags http2.Flags, stream uint32) []byte {
	dst = append(dst, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(dst, stream)
}

func appendSetting(dst []byte, id http2.SettingID, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, uint16(id)), value)
}

func appendWindowUpdate(dst []byte, stream, n uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrameHeader(dst, 4, http2.FrameWindowUpdate, 0, stream), n)
}

func appendReset(dst []byte, stream uint32, code http2.ErrCode) []byte {
	return binary.BigEndian.AppendUint32(appendFrameHeader(dst, 4, http2.FrameRSTStream, 0, stream), uint32(code))
}

func appendGoAway(dst []byte, last uint32, code http2.ErrCode) []byte {
	dst = appendFrameHeader(dst, 8, http2.FrameGoAway, 0, 0)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, last), uint32(code))
}
