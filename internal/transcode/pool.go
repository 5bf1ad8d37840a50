// SPDX-License-Identifier: Apache-2.0

package transcode

// BufferPool lends buffers to ToWireWith and ToJSONWith, so that a caller can use the same memory for one call after another. Get
// is called by the goroutine that called those. Its buffer comes back as the result, or is dropped where the call fails.
type BufferPool interface {
	// Get returns a buffer of length zero and a capacity of at least n bytes.
	Get(n int) []byte
}

// extended is dst with pool for n bytes more: of pool's where it has less, and there is one.
func extended(dst []byte, n int, pool BufferPool) []byte {
	if pool == nil || cap(dst)-len(dst) >= n {
		return dst
	}
	return append(pool.Get(len(dst)+n), dst...)
}
