// SPDX-License-Identifier: Apache-2.0

package h2server

import (
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// startWriting wakes the writer. The lock is held.
func (c *Conn) startWriting() {
	if c.writing || c.failed {
		return
	}
	c.writing = true
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// writeLoop writes what there is, as much as there is, until the connection fails.
func (c *Conn) writeLoop() {
	for {
		select {
		case <-c.wake:
		case <-c.closed:
			return
		}
		runtime.Gosched() // other answers share the write
		for c.writeOnce() {
		}
	}
}

// writeOnce writes one batch and reports whether there may be more.
func (c *Conn) writeOnce() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) == 0 || c.failed {
		c.writing = false
		c.settle()
		return false
	}
	batch := c.out
	c.out, c.spare = c.spare[:0], nil
	c.owed = 0
	c.resume()
	c.mu.Unlock()
	_, err := c.nc.Write(batch)
	c.mu.Lock()
	if cap(batch) <= 2*highWater {
		c.spare = batch[:0]
	}
	if err != nil {
		c.fail()
	}
	return true
}

// appendBlock appends a header block that was encoded, in as many frames as it takes.
func (c *Conn) appendBlock(s *stream, end bool) {
	kind, block := http2.FrameHeaders, c.block.Bytes()
	for {
		piece := block[:min(len(block), c.peer.frameSize)]
		block = block[len(piece):]
		var flags http2.Flags
		if len(block) == 0 {
			flags |= http2.FlagHeadersEndHeaders
		}
		if end && kind == http2.FrameHeaders {
			flags |= http2.FlagHeadersEndStream
		}
		c.out = appendFrameHeader(c.out, len(piece), kind, flags, s.id)
		c.out = append(c.out, piece...)
		if len(block) == 0 {
			break
		}
		kind = http2.FrameContinuation
	}
	c.block.Reset()
	c.startWriting()
}

// appendInterim appends an answer before the answer.
func (c *Conn) appendInterim(s *stream, status int, fields []hpack.HeaderField) {
	c.field(":status", strconv.Itoa(status))
	c.fields(fields)
	c.appendBlock(s, false)
}

// field encodes one field.
func (c *Conn) field(name, value string) {
	_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // to a buffer, which does not fail
}

// rare encodes a field whose value is seldom the same twice, so that it would only push
// out of the table what is.
func (c *Conn) rare(name, value string) {
	_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true})
}

// fields encodes fields of a header. What HTTP does not admit is left out.
func (c *Conn) fields(fields []hpack.HeaderField) {
	for _, f := range fields {
		name, ok := c.wireName(f.Name)
		if !ok || !httpguts.ValidHeaderFieldValue(f.Value) || name == "transfer-encoding" && f.Value != "trailers" {
			continue
		}
		if strings.HasPrefix(name, "grpc-status-details") || name == "content-length" {
			c.rare(name, f.Value)
			continue
		}
		c.field(name, f.Value)
	}
}

// wireName is the name of a header as HTTP/2 sends it; false for one that is none.
func (c *Conn) wireName(name string) (string, bool) {
	if wire, ok := c.names[name]; ok {
		return wire, wire != ""
	}
	wire := strings.ToLower(name)
	if !httpguts.ValidHeaderFieldName(wire) {
		wire = ""
	}
	if len(name) <= maxNameSize && len(c.names) < maxNames {
		c.names[name] = wire
	}
	return wire, wire != ""
}

// dateCache is the value of a Date header, which changes once a second.
type dateCache struct {
	second int64
	text   string
}

func (d *dateCache) now() string {
	now := time.Now()
	if d.text == "" || now.Unix() != d.second {
		d.second, d.text = now.Unix(), now.UTC().Format(timeFormat)
	}
	return d.text
}
