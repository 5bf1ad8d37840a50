// SPDX-License-Identifier: Apache-2.0

package transcode

// Room lends buffers.
type Room interface {
	// Get returns an empty buffer with room for at least n bytes.
	Get(n int) []byte
}

// extended is dst with room for n bytes more: of room's where it has less, and there is one.
func extended(dst []byte, n int, room Room) []byte {
	if room == nil || cap(dst)-len(dst) >= n {
		return dst
	}
	return append(room.Get(len(dst)+n), dst...)
}
