// SPDX-License-Identifier: Apache-2.0

package grpcwire

import "encoding/binary"

// preface opens a connection (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Types of frames (RFC 9113, section 6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	framePush         = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9
)

// Flags of frames.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings (RFC 9113, section 6.5.2).
const (
	settingTableSize     = 0x1
	settingPush          = 0x2
	settingStreams       = 0x3
	settingWindow        = 0x4
	settingFrameSize     = 0x5
	settingHeaderListMax = 0x6
)

// Error codes (RFC 9113, section 7).
const (
	codeNo            = 0x0
	codeProtocol      = 0x1
	codeFlowControl   = 0x3
	codeFrameSize     = 0x6
	codeRefusedStream = 0x7
	codeCancel        = 0x8
	codeCompression   = 0x9
	codeCalm          = 0xb
)

const (
	frameHeaderBytes = 9
	// defaultFrameSize and defaultWindow hold until a peer says otherwise
	// (RFC 9113, section 6.5.2).
	defaultFrameSize = 16 << 10
	defaultWindow    = 65535
	maxWindow        = 1<<31 - 1
	maxFrameSize     = 1<<24 - 1
	maxStreamID      = 1<<31 - 1
	// prefixBytes stand before each message: a flag, and the length.
	prefixBytes = 5
)

func appendFrameHeader(dst []byte, length int, kind, flags byte, stream uint32) []byte {
	dst = append(dst, byte(length>>16), byte(length>>8), byte(length), kind, flags)
	return binary.BigEndian.AppendUint32(dst, stream)
}

func appendSetting(dst []byte, id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, id), value)
}

func appendWindowUpdate(dst []byte, stream, n uint32) []byte {
	dst = appendFrameHeader(dst, 4, frameWindowUpdate, 0, stream)
	return binary.BigEndian.AppendUint32(dst, n)
}

func appendReset(dst []byte, stream, code uint32) []byte {
	dst = appendFrameHeader(dst, 4, frameReset, 0, stream)
	return binary.BigEndian.AppendUint32(dst, code)
}
