// SPDX-License-Identifier: Apache-2.0

package h2server_test

import (
	"strings"

	"golang.org/x/net/http2"
)

// brokenRule is something that no client may say.
type brokenRule struct {
	say func(*peer)
	// last is what the server says to it at the end.
	last string
	// differs is why net/http says something else, "" where it does not.
	differs string
}

func brokenRules() map[string]brokenRule {
	goAway := func(code http2.ErrCode) string { return "GOAWAY " + code.String() }
	raw := func(kind http2.FrameType, flags http2.Flags, id uint32, payload string) func(*peer) {
		return func(p *peer) { p.must(p.framer.WriteRawFrame(kind, flags, id, []byte(payload))) }
	}
	request := func(end bool, fields ...string) func(*peer) { return func(p *peer) { p.open(1, end, fields...) } }
	then := func(steps ...func(*peer)) func(*peer) {
		return func(p *peer) {
			for _, step := range steps {
				step(p)
			}
		}
	}
	data := func(id uint32, end bool, size int) func(*peer) {
		return func(p *peer) { p.must(p.framer.WriteData(id, end, make([]byte, size))) }
	}
	post := request(false, head("POST", "/echo")...)
	return map[string]brokenRule{
		"a stream of the server's": {say: func(p *peer) { p.open(2, true, head("GET", "/nothing")...) }, last: goAway(http2.ErrCodeProtocol)},
		"streams go down": {say: func(p *peer) {
			p.open(5, true, head("GET", "/nothing")...)
			p.open(3, true, head("GET", "/nothing")...)
		}, last: goAway(http2.ErrCodeProtocol), differs: "the answer to the first may come before"},
		"a push":                        {say: raw(http2.FramePushPromise, 4, 1, "\x00\x00\x00\x02\x82"), last: goAway(http2.ErrCodeProtocol)},
		"data of no stream":             {say: data(7, false, 1), last: goAway(http2.ErrCodeProtocol)},
		"a reset of no stream":          {say: raw(http2.FrameRSTStream, 0, 7, "\x00\x00\x00\x08"), last: goAway(http2.ErrCodeProtocol)},
		"a window of no stream":         {say: raw(http2.FrameWindowUpdate, 0, 7, "\x00\x00\x00\x08"), last: goAway(http2.ErrCodeProtocol)},
		"no window":                     {say: raw(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x00"), last: goAway(http2.ErrCodeProtocol)},
		"too much window":               {say: raw(http2.FrameWindowUpdate, 0, 0, "\x7f\xff\xff\xff"), last: goAway(http2.ErrCodeFlowControl)},
		"a short window":                {say: raw(http2.FrameWindowUpdate, 0, 0, "\x00"), last: goAway(http2.ErrCodeFrameSize)},
		"too much window of a stream":   {say: then(post, raw(http2.FrameWindowUpdate, 0, 1, "\x7f\xff\xff\xff")), last: "1: FLOW_CONTROL_ERROR"},
		"a short ping":                  {say: raw(http2.FramePing, 0, 0, "1234"), last: goAway(http2.ErrCodeFrameSize)},
		"a ping on a stream":            {say: raw(http2.FramePing, 0, 1, "12345678"), last: goAway(http2.ErrCodeProtocol)},
		"odd settings":                  {say: raw(http2.FrameSettings, 0, 0, "12345"), last: goAway(http2.ErrCodeFrameSize)},
		"settings on a stream":          {say: raw(http2.FrameSettings, 0, 1, ""), last: goAway(http2.ErrCodeProtocol)},
		"a bad frame size":              {say: raw(http2.FrameSettings, 0, 0, "\x00\x05\x00\x00\x00\x01"), last: goAway(http2.ErrCodeProtocol)},
		"a bad window in settings":      {say: raw(http2.FrameSettings, 0, 0, "\x00\x04\xff\xff\xff\xff"), last: goAway(http2.ErrCodeFlowControl)},
		"settings twice in one":         {say: raw(http2.FrameSettings, 0, 0, strings.Repeat("\x00\x03\x00\x00\x00\x01", 2)), last: goAway(http2.ErrCodeProtocol)},
		"settings confirmed twice":      {say: then(raw(http2.FrameSettings, 1, 0, ""), raw(http2.FrameSettings, 1, 0, "")), last: goAway(http2.ErrCodeProtocol)},
		"a continuation of nothing":     {say: raw(http2.FrameContinuation, 4, 1, ""), last: goAway(http2.ErrCodeProtocol)},
		"a block that is interrupted":   {say: then(raw(http2.FrameHeaders, 0, 1, "\x82"), raw(http2.FramePing, 0, 0, "12345678")), last: goAway(http2.ErrCodeProtocol)},
		"compression that is none":      {say: raw(http2.FrameHeaders, 5, 1, "\xff\xff\xff\xff\xff\xff"), last: goAway(http2.ErrCodeCompression)},
		"too much padding":              {say: then(post, raw(http2.FrameData, 8, 1, "\x10abc")), last: goAway(http2.ErrCodeProtocol)},
		"a frame that is too large":     {say: then(post, raw(http2.FrameData, 0, 1, strings.Repeat("x", 17<<10))), last: goAway(http2.ErrCodeFrameSize), differs: "it takes frames of 1 MiB"},
		"no method":                     {say: request(true, ":scheme", "http", ":path", "/nothing", ":authority", "test"), last: "1: PROTOCOL_ERROR"},
		"no path":                       {say: request(true, ":method", "GET", ":scheme", "http", ":authority", "test"), last: "1: PROTOCOL_ERROR"},
		"another scheme":                {say: request(true, ":method", "GET", ":scheme", "ftp", ":path", "/nothing", ":authority", "test"), last: "1: PROTOCOL_ERROR"},
		"a user in the authority":       {say: request(true, ":method", "GET", ":scheme", "http", ":path", "/nothing", ":authority", "me@test"), last: "1: PROTOCOL_ERROR"},
		"a path that is none":           {say: request(true, head("GET", "nothing")...), last: "1: PROTOCOL_ERROR"},
		"two methods":                   {say: request(true, head("GET", "/nothing", ":method", "POST")...), last: "1: PROTOCOL_ERROR"},
		"a field of HTTP after others":  {say: request(true, "x-own", "1", ":method", "GET", ":scheme", "http", ":path", "/nothing"), last: "1: PROTOCOL_ERROR"},
		"a field that HTTP has not":     {say: request(true, head("GET", "/nothing", ":odd", "1")...), last: "1: PROTOCOL_ERROR"},
		"an answer's field":             {say: request(true, head("GET", "/nothing", ":status", "200")...), last: "1: PROTOCOL_ERROR"},
		"upper case":                    {say: request(true, head("GET", "/nothing", "X-Own", "1")...), last: "1: PROTOCOL_ERROR"},
		"a value with a line end":       {say: request(true, head("GET", "/nothing", "x-own", "a\nb")...), last: "1: PROTOCOL_ERROR"},
		"CONNECT with a path":           {say: request(true, head("CONNECT", "/nothing")...), last: "1: PROTOCOL_ERROR"},
		"extended CONNECT":              {say: request(true, head("CONNECT", "/nothing", ":protocol", "websocket")...), last: "1: PROTOCOL_ERROR"},
		"a header of the connection":    {say: request(true, head("GET", "/nothing", "connection", "close")...), last: "1: 400", differs: "its text has another length"},
		"chunks":                        {say: request(true, head("GET", "/nothing", "transfer-encoding", "chunked")...), last: "1: 400", differs: "its text has another length"},
		"TE other than trailers":        {say: request(true, head("GET", "/nothing", "te", "gzip")...), last: "1: 400", differs: "its text has another length"},
		"more body than announced":      {say: then(request(false, head("POST", "/echo", "content-length", "2")...), data(1, true, 3)), last: "1: PROTOCOL_ERROR"},
		"less body than announced":      {say: then(request(false, head("POST", "/echo", "content-length", "4")...), data(1, true, 3)), last: "1: 5 bytes end"},
		"trailers that do not end":      {say: then(post, request(false, "x-late", "1")), last: "1: PROTOCOL_ERROR"},
		"trailers with fields of HTTP":  {say: then(post, request(true, ":path", "/")), last: "1: PROTOCOL_ERROR"},
		"a body after its end":          {say: then(request(true, head("POST", "/echo")...), data(1, false, 3)), last: "1: STREAM_CLOSED", differs: "what comes first is a matter of luck"},
		"more data than the window has": {say: then(request(false, head("POST", "/stuck")...), flood(1, 70)), last: goAway(http2.ErrCodeFlowControl), differs: "it resets the stream"},
		"a stream that depends on itself": {say: func(p *peer) {
			p.must(p.framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 1, BlockFragment: p.encode(head("GET", "/nothing")...), EndHeaders: true, EndStream: true, Priority: http2.PriorityParam{StreamDep: 1},
			}))
		}, last: "1: 200", differs: "priorities are not read (RFC 9113, section 5.3.2)"},
	}
}

// flood sends frames of data, of 16 KiB each.
func flood(id uint32, frames int) func(*peer) {
	return func(p *peer) {
		for range frames {
			p.must(p.framer.WriteData(id, false, make([]byte, 16<<10)))
		}
	}
}
