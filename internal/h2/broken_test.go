// SPDX-License-Identifier: Apache-2.0

package h2_test

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

// What net/http does where it differs.
const (
	answers    = "it answers the request"
	ends       = "the handler sees that the body ends early, and answers"
	resets     = "it resets the stream with the answer"
	priorities = "it does not read priorities"
)

// heardAnswer waits for all of an answer.
func heardAnswer(p *peer) { p.heard(until("end")) }

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
		"a push":                                     {say: raw(http2.FramePushPromise, 4, 1, "\x00\x00\x00\x02\x82"), last: goAway(http2.ErrCodeProtocol)},
		"data of no stream":                          {say: data(7, false, 1), last: goAway(http2.ErrCodeProtocol)},
		"a reset of no stream":                       {say: raw(http2.FrameRSTStream, 0, 7, "\x00\x00\x00\x08"), last: goAway(http2.ErrCodeProtocol)},
		"a window of no stream":                      {say: raw(http2.FrameWindowUpdate, 0, 7, "\x00\x00\x00\x08"), last: goAway(http2.ErrCodeProtocol)},
		"no window":                                  {say: raw(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x00"), last: goAway(http2.ErrCodeProtocol)},
		"too much window":                            {say: raw(http2.FrameWindowUpdate, 0, 0, "\x7f\xff\xff\xff"), last: goAway(http2.ErrCodeFlowControl)},
		"a short window":                             {say: raw(http2.FrameWindowUpdate, 0, 0, "\x00"), last: goAway(http2.ErrCodeFrameSize)},
		"too much window of a stream":                {say: then(post, raw(http2.FrameWindowUpdate, 0, 1, "\x7f\xff\xff\xff")), last: "1: FLOW_CONTROL_ERROR"},
		"a short ping":                               {say: raw(http2.FramePing, 0, 0, "1234"), last: goAway(http2.ErrCodeFrameSize)},
		"a ping on a stream":                         {say: raw(http2.FramePing, 0, 1, "12345678"), last: goAway(http2.ErrCodeProtocol)},
		"odd settings":                               {say: raw(http2.FrameSettings, 0, 0, "12345"), last: goAway(http2.ErrCodeFrameSize)},
		"settings on a stream":                       {say: raw(http2.FrameSettings, 0, 1, ""), last: goAway(http2.ErrCodeProtocol)},
		"a bad frame size":                           {say: raw(http2.FrameSettings, 0, 0, "\x00\x05\x00\x00\x00\x01"), last: goAway(http2.ErrCodeProtocol)},
		"a bad window in settings":                   {say: raw(http2.FrameSettings, 0, 0, "\x00\x04\xff\xff\xff\xff"), last: goAway(http2.ErrCodeFlowControl)},
		"settings confirmed twice":                   {say: then(raw(http2.FrameSettings, 1, 0, ""), raw(http2.FrameSettings, 1, 0, "")), last: goAway(http2.ErrCodeProtocol)},
		"a continuation of nothing":                  {say: raw(http2.FrameContinuation, 4, 1, ""), last: goAway(http2.ErrCodeProtocol)},
		"a block that is interrupted":                {say: then(raw(http2.FrameHeaders, 0, 1, "\x82"), raw(http2.FramePing, 0, 0, "12345678")), last: goAway(http2.ErrCodeProtocol)},
		"compression that is none":                   {say: raw(http2.FrameHeaders, 5, 1, "\xff\xff\xff\xff\xff\xff"), last: goAway(http2.ErrCodeCompression)},
		"too much padding":                           {say: then(post, raw(http2.FrameData, 8, 1, "\x10abc")), last: goAway(http2.ErrCodeProtocol)},
		"a frame that is too large":                  {say: then(post, raw(http2.FrameData, 0, 1, strings.Repeat("x", 17<<10))), last: goAway(http2.ErrCodeFrameSize), differs: "it takes frames of 1 MiB"},
		"no method":                                  {say: request(true, ":scheme", "http", ":path", "/nothing", ":authority", "test"), last: "1: PROTOCOL_ERROR"},
		"no path":                                    {say: request(true, ":method", "GET", ":scheme", "http", ":authority", "test"), last: "1: PROTOCOL_ERROR"},
		"another scheme":                             {say: request(true, ":method", "GET", ":scheme", "ftp", ":path", "/nothing", ":authority", "test"), last: "1: PROTOCOL_ERROR"},
		"a user in the authority":                    {say: request(true, ":method", "GET", ":scheme", "http", ":path", "/nothing", ":authority", "me@test"), last: "1: PROTOCOL_ERROR"},
		"a path that is none":                        {say: request(true, head("GET", "nothing")...), last: "1: PROTOCOL_ERROR"},
		"two methods":                                {say: request(true, head("GET", "/nothing", ":method", "POST")...), last: "1: PROTOCOL_ERROR"},
		"a field of HTTP after others":               {say: request(true, "x-own", "1", ":method", "GET", ":scheme", "http", ":path", "/nothing"), last: "1: PROTOCOL_ERROR"},
		"a field that HTTP has not":                  {say: request(true, head("GET", "/nothing", ":odd", "1")...), last: "1: PROTOCOL_ERROR"},
		"an answer's field":                          {say: request(true, head("GET", "/nothing", ":status", "200")...), last: "1: PROTOCOL_ERROR"},
		"upper case":                                 {say: request(true, head("GET", "/nothing", "X-Own", "1")...), last: "1: PROTOCOL_ERROR"},
		"a value with a line end":                    {say: request(true, head("GET", "/nothing", "x-own", "a\nb")...), last: "1: PROTOCOL_ERROR"},
		"CONNECT with a path":                        {say: request(true, head("CONNECT", "/nothing")...), last: "1: PROTOCOL_ERROR"},
		"extended CONNECT":                           {say: request(true, head("CONNECT", "/nothing", ":protocol", "websocket")...), last: "1: PROTOCOL_ERROR"},
		"a header of the connection":                 {say: request(true, head("GET", "/nothing", "connection", "close")...), last: "1: PROTOCOL_ERROR", differs: answers},
		"chunks":                                     {say: request(true, head("GET", "/nothing", "transfer-encoding", "chunked")...), last: "1: PROTOCOL_ERROR", differs: answers},
		"an upgrade":                                 {say: request(true, head("GET", "/nothing", "upgrade", "websocket")...), last: "1: PROTOCOL_ERROR", differs: answers},
		"keep-alive":                                 {say: request(true, head("GET", "/nothing", "keep-alive", "timeout=5")...), last: "1: PROTOCOL_ERROR", differs: answers},
		"a proxy's connection":                       {say: request(true, head("GET", "/nothing", "proxy-connection", "keep-alive")...), last: "1: PROTOCOL_ERROR", differs: answers},
		"TE twice":                                   {say: request(true, head("GET", "/nothing", "te", "trailers", "te", "gzip")...), last: "1: PROTOCOL_ERROR", differs: answers},
		"TE other than trailers":                     {say: request(true, head("GET", "/nothing", "te", "gzip")...), last: "1: PROTOCOL_ERROR", differs: answers},
		"more body than announced":                   {say: then(request(false, head("POST", "/echo", "content-length", "2")...), data(1, true, 3)), last: "1: PROTOCOL_ERROR"},
		"more body, in several frames":               {say: then(request(false, head("POST", "/echo", "content-length", "4")...), data(1, false, 3), data(1, true, 3)), last: "1: PROTOCOL_ERROR"},
		"less body than announced":                   {say: then(request(false, head("POST", "/echo", "content-length", "4")...), data(1, true, 3)), last: "1: PROTOCOL_ERROR", differs: ends},
		"less body, in several frames":               {say: then(request(false, head("POST", "/echo", "content-length", "9")...), data(1, false, 3), data(1, true, 3)), last: "1: PROTOCOL_ERROR", differs: ends},
		"less body, then trailers":                   {say: then(request(false, head("POST", "/echo", "content-length", "4", "trailer", "x-late")...), data(1, false, 3), request(true, "x-late", "1")), last: "1: PROTOCOL_ERROR", differs: ends},
		"no body where one is due":                   {say: request(true, head("POST", "/echo", "content-length", "4")...), last: "1: PROTOCOL_ERROR", differs: answers},
		"two lengths":                                {say: request(false, head("POST", "/echo", "content-length", "3", "content-length", "4")...), last: "1: PROTOCOL_ERROR", differs: answers},
		"a length that is no number":                 {say: request(false, head("POST", "/echo", "content-length", "+3")...), last: "1: PROTOCOL_ERROR", differs: answers},
		"more body than announced, after the answer": {say: then(request(false, head("POST", "/unread", "content-length", "2")...), heardAnswer, data(1, true, 3)), last: "1: PROTOCOL_ERROR", differs: resets},
		"less body than announced, after the answer": {say: then(request(false, head("POST", "/unread", "content-length", "2")...), heardAnswer, data(1, true, 1)), last: "1: PROTOCOL_ERROR", differs: resets},
		"more than the window, after the answer":     {say: then(request(false, head("POST", "/unread")...), heardAnswer, flood(1, 70)), last: "1: FLOW_CONTROL_ERROR", differs: resets},
		"trailers that do not end":                   {say: then(post, request(false, "x-late", "1")), last: "1: PROTOCOL_ERROR"},
		"trailers with fields of HTTP":               {say: then(post, request(true, ":path", "/")), last: "1: PROTOCOL_ERROR"},
		"a body after its end":                       {say: then(request(true, head("POST", "/echo")...), data(1, false, 3)), last: "1: STREAM_CLOSED", differs: "what comes first is a matter of luck"},
		"more data than the window has":              {say: then(request(false, head("POST", "/stuck")...), flood(1, 70)), last: goAway(http2.ErrCodeFlowControl), differs: "it resets the stream"},
		"a stream that depends on itself": {say: func(p *peer) {
			p.must(p.framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 1, BlockFragment: p.encode(head("GET", "/nothing")...), EndHeaders: true, EndStream: true, Priority: http2.PriorityParam{StreamDep: 1},
			}))
		}, last: "1: PROTOCOL_ERROR", differs: priorities},
		"a priority that depends on itself":              {say: then(request(true, head("GET", "/nothing")...), raw(http2.FramePriority, 0, 1, "\x00\x00\x00\x01\x10")), last: "1: PROTOCOL_ERROR", differs: priorities},
		"a priority of no stream that depends on itself": {say: raw(http2.FramePriority, 0, 7, "\x00\x00\x00\x07\x10"), last: goAway(http2.ErrCodeProtocol), differs: priorities},
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
