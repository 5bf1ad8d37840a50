// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

const (
	traceIDBytes = 32
	noTraceID    = "00000000000000000000000000000000"
)

// TraceID returns the trace id in a traceparent header (W3C Trace Context, section 3.2),
// or "" if there is none. A later version may have more fields after those that this
// function reads.
func TraceID(traceparent string) string {
	const (
		idAt     = len("00-")
		parentAt = idAt + traceIDBytes + 1
		flagsAt  = parentAt + 16 + 1
		size     = flagsAt + 2
	)
	if len(traceparent) < size || traceparent[2] != '-' || traceparent[parentAt-1] != '-' || traceparent[flagsAt-1] != '-' {
		return ""
	}
	version := traceparent[:2]
	if !isLowerHex(version) || version == "ff" || len(traceparent) > size && (version == "00" || traceparent[size] != '-') {
		return ""
	}
	parent := traceparent[parentAt : flagsAt-1]
	if !isLowerHex(parent) || parent == noTraceID[:16] || !isLowerHex(traceparent[flagsAt:size]) {
		return ""
	}
	if id := traceparent[idAt : parentAt-1]; isTraceID(id) {
		return id
	}
	return ""
}

func isTraceID(s string) bool { return len(s) == traceIDBytes && isLowerHex(s) && s != noTraceID }

func isLowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// putTraceID writes a trace id of 32 characters into dst: the n-th of a fixed
// sequence, or, for n 0, a random one. It need not be hard to guess.
func putTraceID(dst []byte, n uint64) {
	var raw [traceIDBytes / 2]byte
	if n == 0 {
		binary.BigEndian.PutUint64(raw[:8], rand.Uint64()) //nolint:gosec // an id, no secret
		n = max(rand.Uint64(), 1)                          //nolint:gosec // the same
	}
	binary.BigEndian.PutUint64(raw[8:], n)
	hex.Encode(dst, raw[:])
}
