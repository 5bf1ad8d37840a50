// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// startWriting wakes the writer. The lock is held.
func (c *ClientConn) startWriting() {
	if c.writing {
		return
	}
	c.writing = true
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// writeLoop writes what there is, as much as there is, until the connection
// fails.
func (c *ClientConn) writeLoop() {
	for {
		select {
		case <-c.wake:
		case <-c.closed:
			return
		}
		// Other senders share the write.
		runtime.Gosched()
		for c.writeOnce() {
		}
	}
}

// writeOnce writes one batch and reports whether there may be more.
func (c *ClientConn) writeOnce() bool {
	c.mu.Lock()
	c.fill()
	if len(c.out) == 0 || c.failed {
		c.writing = false
		c.mu.Unlock()
		return false
	}
	batch := c.out
	c.out, c.spare = c.spare[:0], nil
	c.owed = 0
	c.handed += int64(len(batch))
	c.writeBegan, c.stuck = time.Now(), 0
	c.mu.Unlock()

	n, err := c.nc.Write(batch)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += int64(n)
	c.writeBegan = time.Time{}
	if cap(batch) <= 2*highWater {
		c.spare = batch[:0]
	}
	if err != nil {
		c.fail(err)
	}
	return true
}

// fill adds requests to what is written next, each stream one frame in turn, as
// far as the windows and the high-water mark admit.
func (c *ClientConn) fill() {
	for s := c.waiting.first; s != nil && len(c.out) < highWater; s = c.waiting.first {
		if !s.begun {
			c.appendHeaders(s)
		}
		room := min(c.window, s.window, c.peer.frameSize)
		if room <= 0 {
			if c.window <= 0 {
				return // all wait for the connection
			}
			c.waiting.remove(s) // until its window opens
			continue
		}
		c.appendData(s, int(room))
		c.waiting.remove(s)
		if !s.ended {
			c.waiting.add(s)
		}
	}
}

// place is where the next byte of out is in the connection.
func (c *ClientConn) place() int64 { return c.handed + int64(len(c.out)) }

// appendHeaders appends the request's header fields, in as many frames as the
// peer's frame size takes.
func (c *ClientConn) appendHeaders(s *clientStream) {
	s.begun, s.from = true, c.place()
	c.block.Reset()
	s.req.encode(c.encoder)
	if parent := s.req.TraceParent; parent != "" {
		appendLiteral(&c.block, traceParent, parent)
	}
	kind, block := http2.FrameHeaders, c.block.Bytes()
	for {
		piece := block[:min(len(block), int(c.peer.frameSize))]
		block = block[len(piece):]
		var flags http2.Flags
		if len(block) == 0 {
			flags = http2.FlagHeadersEndHeaders
		}
		c.out = appendFrameHeader(c.out, len(piece), kind, flags, s.id)
		c.out = append(c.out, piece...)
		if len(block) == 0 {
			return
		}
		kind = http2.FrameContinuation
	}
}

// appendData appends at most room bytes of the message and its prefix.
func (c *ClientConn) appendData(s *clientStream, room int) {
	message := s.req.Message
	n := min(room, prefixBytes+len(message)-s.offset)
	var flags http2.Flags
	if s.offset+n == prefixBytes+len(message) {
		flags = http2.FlagDataEndStream
	}
	c.out = appendFrameHeader(c.out, n, http2.FrameData, flags, s.id)
	left := n
	if s.offset < prefixBytes {
		var prefix [prefixBytes]byte // the first byte is zero: not compressed
		binary.BigEndian.PutUint32(prefix[1:], uint32(len(message)))
		part := prefix[s.offset:min(prefixBytes, s.offset+left)]
		c.out = append(c.out, part...)
		s.offset += len(part)
		left -= len(part)
	}
	at := s.offset - prefixBytes
	if left > 0 {
		c.out = append(c.out, message[at:at+left]...)
		s.offset += left
	}
	c.window -= int64(n)
	s.window -= int64(n)
	if flags != 0 {
		s.ended, s.to = true, c.place()
	}
}

// encode writes the header fields (gRPC over HTTP/2, requests).
func (r *Request) encode(enc *hpack.Encoder) {
	r.fields(func(f hpack.HeaderField) {
		_ = enc.WriteField(f) // to a buffer, which does not fail
	})
}

// traceParent is the header of W3C Trace Context.
const traceParent = "traceparent"

// appendLiteral writes a field that no table keeps, as plain bytes (RFC 7541, section 6.2.3). It is for fields whose value never
// repeats: the encoder would look for it in its table, and Huffman's code saves a fifth of an id and costs both sides more than the
// bytes. name and value are shorter than 127 bytes, so that a length is one byte.
func appendLiteral(block *bytes.Buffer, name, value string) {
	block.WriteByte(0x10)
	block.WriteByte(byte(len(name)))
	block.WriteString(name)
	block.WriteByte(byte(len(value)))
	block.WriteString(value)
}

// headerListSize is the size as the peer's limit counts it.
func (r *Request) headerListSize() int64 {
	if len(r.Metadata) == 0 {
		return 0 // what is left is far below any limit that a server could serve with
	}
	size := int64(0)
	if r.TraceParent != "" {
		size += int64(hpack.HeaderField{Name: traceParent, Value: r.TraceParent}.Size())
	}
	r.fields(func(f hpack.HeaderField) { size += int64(f.Size()) })
	return size
}

// fields yields the header fields in their order.
func (r *Request) fields(yield func(hpack.HeaderField)) {
	yield(hpack.HeaderField{Name: ":method", Value: "POST"})
	yield(hpack.HeaderField{Name: ":scheme", Value: r.Scheme})
	yield(hpack.HeaderField{Name: ":path", Value: r.Path})
	yield(hpack.HeaderField{Name: ":authority", Value: r.Authority})
	yield(hpack.HeaderField{Name: "content-type", Value: "application/grpc"})
	yield(hpack.HeaderField{Name: "user-agent", Value: r.UserAgent})
	yield(hpack.HeaderField{Name: "te", Value: "trailers"})
	if r.AcceptGzip {
		yield(hpack.HeaderField{Name: "grpc-accept-encoding", Value: "gzip"})
	}
	if r.Timeout != 0 {
		// Never the same twice, so that it would only push out of the table what is.
		yield(hpack.HeaderField{Name: "grpc-timeout", Value: encodeTimeout(r.Timeout), Sensitive: true})
	}
	for name, values := range r.Metadata {
		name = lower(name)
		for _, value := range values {
			yield(hpack.HeaderField{Name: name, Value: value, Sensitive: isOfOneCall(name)})
		}
	}
}

// lower is a name as HTTP/2 has it. With tracing, every call has the first one.
func lower(name string) string {
	if name == "Traceparent" {
		return "traceparent"
	}
	return strings.ToLower(name)
}

// isOfOneCall holds for metadata that differs from call to call. In the table of the connection it would only push out what repeats,
// such as the path, which each side then has to write and read in full.
func isOfOneCall(name string) bool {
	switch name {
	case "traceparent", "tracestate", "baggage", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "uber-trace-id", "x-amzn-trace-id",
		"x-request-id", "idempotency-key":
		return true
	}
	return false
}

// encodeTimeout writes a time in the finest unit in which it has at most eight
// digits, rounded down (gRPC over HTTP/2, requests).
func encodeTimeout(d time.Duration) string {
	const most = 99_999_999
	d = max(d, 0)
	for _, u := range [...]struct {
		size time.Duration
		name byte
	}{{time.Nanosecond, 'n'}, {time.Microsecond, 'u'}, {time.Millisecond, 'm'}, {time.Second, 'S'}, {time.Minute, 'M'}} {
		if d/u.size <= most {
			return string(append(strconv.AppendInt(make([]byte, 0, 9), int64(d/u.size), 10), u.name))
		}
	}
	return string(append(strconv.AppendInt(make([]byte, 0, 9), int64(d/time.Hour), 10), 'H'))
}
