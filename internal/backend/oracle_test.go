// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// rawCall is grpc-go's codec for messages that are bytes.
type rawCall struct{}

func (rawCall) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil } //nolint:forcetypeassert // of one type
func (rawCall) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...) //nolint:forcetypeassert // of one type
	return nil
}
func (rawCall) Name() string { return "proto" }

// theirs is what grpc-go makes of an answer: the code, with the message where the peer
// chose it, or the body of a success.
func theirs(t *testing.T, p *remote) *status.Status {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:"+strings.TrimPrefix(p.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	in, out := []byte("x"), []byte(nil)
	if err := conn.Invoke(t.Context(), echoProcedure, &in, &out, grpc.ForceCodec(rawCall{})); err != nil {
		return status.Convert(err)
	}
	return status.New(codes.OK, string(out))
}

// ours is what a call of this package ends with, in the same terms: the peer's status, or
// the kind of the failure.
func ours(body []byte, err error) (shown string, e *Error) {
	if err == nil {
		return shownStatus(codes.OK, string(body), 0), nil
	}
	e = err.(*Error) //nolint:errorlint,forcetypeassert // of this package
	if e.Kind == KindStatus && !strings.HasPrefix(e.Message, "HTTP status ") {
		code := codes.Code(e.Code)
		if e.PeerStatus != 0 {
			code = codes.Code(e.PeerStatus)
		}
		return shownStatus(code, e.Message, len(e.Details)), e
	}
	return fmt.Sprintf("%s (%v)", codes.Code(e.Code), e.Kind), e
}

func shownStatus(code codes.Code, message string, details int) string {
	shown := fmt.Sprintf("%s: %q", code, message)
	if details > 0 {
		shown += fmt.Sprintf(" +%d", details)
	}
	return shown
}

// rich is a google.rpc.Status with one detail, as grpc-status-details-bin has it.
func rich(code int32, message string) string {
	detail, err := anypb.New(&errdetails.ErrorInfo{Reason: "R", Domain: "d"})
	if err != nil {
		panic(err)
	}
	raw, err := proto.Marshal(&statuspb.Status{Code: code, Message: message, Details: []*anypb.Any{detail}})
	if err != nil {
		panic(err)
	}
	return base64.RawStdEncoding.EncodeToString(raw)
}

// answers are raw answers of HTTP/2 to a unary call. head and tail are fields, "name:
// value" each; what is left out of head is what a good answer has.
func rawAnswers() []rawAnswer {
	const one = "\x00\x00\x00\x00\x02hi"
	ok := []string{"grpc-status: 0"}
	failed := func(fields ...string) []string {
		return append([]string{"grpc-status: 8", "grpc-message: full"}, fields...)
	}
	page := func(code string, fields ...string) []string {
		return append([]string{":status: " + code, "content-type: text/html"}, fields...)
	}
	grpcAt := func(code string, fields ...string) []string { return append([]string{":status: " + code}, fields...) }
	const (
		keepsStatus  = "the status has separate fields, so what is wrong with another field does not end it"
		firstDetails = "grpc-go drops details that come twice; the status is the same"
		ownCode      = "grpc-go answers INTERNAL where details name another code; here they are dropped, and the service's status stays"
		ownMessage   = "the message is that of grpc-message, as for callers without details"
		namedKind    = "a response without a status that can be read violates the protocol, so it is INTERNAL"
		usesProvided = "gRPC's mapping of HTTP statuses: if grpc-status was provided, it must be used"
		fromHTTP     = "no grpc-status came, so the HTTP status counts; grpc-go goes by the content type alone"
		foldsCase    = "media types are compared without case (RFC 9110, section 8.3.1)"
		outcome      = "an HTTP server answered in place of the service, so the outcome is unknown"
		ofSize       = "the request is too large for a server between, and a retry does not help"
		statusFirst  = "a service that has failed may leave its response cut"
	)
	return []rawAnswer{
		// What is as it should be.
		{name: "a message", body: one, tail: ok},
		{name: "an empty message", body: "\x00\x00\x00\x00\x00", tail: ok},
		{name: "trailers only", head: failed()},
		{name: "trailers", tail: failed()},
		{name: "trailers behind a message", body: one, tail: failed()},
		{name: "details", tail: failed("grpc-status-details-bin: " + rich(8, "full"))},
		{name: "details, trailers only", head: failed("grpc-status-details-bin: " + rich(8, "full"))},

		// grpc-message.
		{name: "message, escaped", head: []string{"grpc-status: 3", "grpc-message: 100%25 of %C3%BC"}},
		{name: "message, lower case escapes", head: []string{"grpc-status: 3", "grpc-message: %c3%bc"}},
		{name: "message, a broken escape", head: []string{"grpc-status: 3", "grpc-message: 100% of %zz"}},
		{name: "message, half an escape", head: []string{"grpc-status: 3", "grpc-message: 50%4"}},
		{name: "message, a percent sign at its end", head: []string{"grpc-status: 3", "grpc-message: 50%"}},
		{name: "message, an escape at its end", head: []string{"grpc-status: 3", "grpc-message: 50%25"}},
		{name: "message, good behind broken", tail: []string{"grpc-status: 3", "grpc-message: %zz%41"}},
		{name: "message, raw UTF-8", head: []string{"grpc-status: 3", "grpc-message: größer"}},
		{name: "message, no UTF-8", head: []string{"grpc-status: 3", "grpc-message: %ff%fe"}},
		{name: "message, empty", head: []string{"grpc-status: 3", "grpc-message: "}},
		{name: "message, none", head: []string{"grpc-status: 3"}},
		{name: "message, escaped line ends", head: []string{"grpc-status: 3", "grpc-message: a%0Ab%00"}},
		{name: "message, twice", head: []string{"grpc-status: 3", "grpc-message: a", "grpc-message: b"}},
		{name: "message beside success", body: one, tail: []string{"grpc-status: 0", "grpc-message: %zz"}},

		// grpc-status.
		{name: "status 1", head: []string{"grpc-status: 1"}},
		{name: "status 16", head: []string{"grpc-status: 16"}},
		{name: "status 17", head: []string{"grpc-status: 17", "grpc-message: odd"}},
		{name: "status 1010", head: []string{"grpc-status: 1010", "grpc-message: odd"}},
		{name: "status 05", head: []string{"grpc-status: 05"}},
		{name: "status 00", body: one, tail: []string{"grpc-status: 00"}, stream: `Unknown: ""`},
		{name: "status twice", head: []string{"grpc-status: 5", "grpc-status: 6"}},
		{name: "status in the head and the trailers", head: []string{"grpc-status: 5"}, tail: failed()},
		{name: "status that is no number", head: []string{"grpc-status: fine"}, what: `Internal (garbage)`, why: namedKind},
		{name: "status that is a name", tail: []string{"grpc-status: NOT_FOUND"}, what: `Internal (garbage)`, why: namedKind},
		{name: "status, empty", tail: []string{"grpc-status: "}, what: `Internal (garbage)`, why: namedKind},
		{name: "status, negative", head: []string{"grpc-status: -1"}, what: `Internal (garbage)`, why: namedKind},
		{name: "status, too large", head: []string{"grpc-status: 99999999999"}, what: `Internal (garbage)`, why: namedKind},
		{name: "status before a message", head: []string{"grpc-status: 5"}, body: one},
		{name: "no status, trailers", body: one, tail: []string{"x-other: 1"}, what: `Internal (garbage)`, why: namedKind},
		{name: "no status, a message", body: one},
		{name: "no status, nothing", what: `Internal (garbage)`, why: namedKind},

		// grpc-status-details-bin.
		{name: "details, padded", tail: failed("grpc-status-details-bin: " + padded(rich(8, "full")))},
		{name: "details, no base64", tail: failed("grpc-status-details-bin: !!!!"), what: `ResourceExhausted: "full"`, why: keepsStatus},
		{name: "details, no base64, trailers only", head: failed("grpc-status-details-bin: ="), what: `ResourceExhausted: "full"`, why: keepsStatus},
		{name: "details, base64 of URLs", tail: failed("grpc-status-details-bin: _-__"), what: `ResourceExhausted: "full"`, why: keepsStatus},
		{name: "details, garbage", tail: failed("grpc-status-details-bin: ////")},
		{name: "details, garbage, trailers only", head: failed("grpc-status-details-bin: AAAA")},
		{name: "details, cut", tail: failed("grpc-status-details-bin: " + rich(8, "full")[:16])},
		{name: "details, empty", tail: failed("grpc-status-details-bin: "), what: `ResourceExhausted: "full"`, why: keepsStatus},
		{name: "details, twice", tail: failed("grpc-status-details-bin: "+rich(8, "full"), "grpc-status-details-bin: "+rich(8, "full")), what: `ResourceExhausted: "full" +1`, why: firstDetails},
		{name: "details of another code", tail: failed("grpc-status-details-bin: " + rich(5, "other")), what: `ResourceExhausted: "full"`, why: ownCode},
		{name: "details of code 0", tail: failed("grpc-status-details-bin: " + rich(0, "")), what: `ResourceExhausted: "full" +1`, why: ownCode},
		{name: "details of code 42", tail: failed("grpc-status-details-bin: " + rich(42, "other")), what: `ResourceExhausted: "full"`, why: ownCode},
		{name: "details of a negative code", tail: failed("grpc-status-details-bin: " + rich(-1, "other")), what: `ResourceExhausted: "full"`, why: ownCode},
		{name: "details of another message", tail: failed("grpc-status-details-bin: " + rich(8, "other")), what: `ResourceExhausted: "full" +1`, why: ownMessage},
		{name: "details with the message", tail: []string{"grpc-status: 8", "grpc-status-details-bin: " + rich(8, "full")}},
		{name: "details of a success", body: one, tail: []string{"grpc-status: 0", "grpc-status-details-bin: " + rich(5, "other")}, what: `OK: "hi"`, why: ownCode},
		{name: "other metadata, no base64", tail: failed("x-bin: !!!!"), what: `ResourceExhausted: "full"`, why: keepsStatus},

		// Content types.
		{name: "content type with a parameter", head: []string{"content-type: application/grpc; charset=utf-8"}, body: one, tail: ok},
		{name: "content type +proto with a parameter", head: []string{"content-type: application/grpc+proto; charset=utf-8"}, body: one, tail: ok},
		{name: "content type +proto;", head: []string{"content-type: application/grpc+proto;"}, body: one, tail: failed()},
		{name: "content type in capitals", head: []string{"content-type: Application/gRPC"}, body: one, tail: ok, what: `OK: "hi"`, why: foldsCase},
		{name: "content type +json, a status", head: failed("content-type: application/grpc+json")},
		{name: "content type of another protocol", head: []string{"content-type: application/grpcx"}, body: one, tail: ok, what: `Unavailable (foreign)`, why: outcome},
		{name: "content type, none, a status", head: failed("content-type: "), what: `ResourceExhausted: "full"`, why: usesProvided},
		{name: "content type of a page, a status", head: page("200", failed()...), body: "<html>", what: `ResourceExhausted: "full"`, why: usesProvided},
		{name: "content type of a page", head: page("200"), body: "<html>", what: `Unavailable (foreign)`, why: outcome},

		// HTTP statuses.
		{name: "503 with a status", head: grpcAt("503", failed()...)},
		{name: "400 with a status", head: grpcAt("400", failed()...)},
		{name: "403 with a status", head: grpcAt("403", failed()...)},
		{name: "429 with a status", head: grpcAt("429", failed()...)},
		{name: "204 with a status", head: grpcAt("204", failed()...)},
		{name: "503 with a status in trailers", head: grpcAt("503"), tail: failed()},
		{name: "503 with a message", head: grpcAt("503"), body: one, tail: ok},
		{name: "503 of a page, a status", head: page("503", failed()...), body: "<html>", what: `ResourceExhausted: "full"`, why: usesProvided},
		{name: "503 without a status", head: grpcAt("503"), what: `Unavailable (unreachable)`, why: fromHTTP},
		{name: "503 of a proxy", head: page("503"), body: "<html>"},
		{name: "429 of a proxy", head: page("429"), body: "<html>"},
		{name: "502 of a proxy", head: page("502"), body: "<html>"},
		{name: "504 of a proxy", head: page("504"), body: "<html>"},
		{name: "400 of a proxy", head: page("400"), body: "<html>"},
		{name: "401 of a proxy", head: page("401"), body: "<html>"},
		{name: "403 of a proxy", head: page("403"), body: "<html>"},
		{name: "404 of a proxy", head: page("404"), body: "<html>"},
		{name: "413 of a proxy", head: page("413"), body: "<html>", what: `ResourceExhausted (request_too_large)`, why: ofSize},
		{name: "415 of a proxy", head: page("415"), body: "<html>", what: `Unavailable (foreign)`, why: outcome},
		{name: "500 of a proxy", head: page("500"), body: "<html>", what: `Unavailable (foreign)`, why: outcome},
		{name: "302 of a proxy", head: page("302", "location: /login"), what: `Unavailable (foreign)`, why: outcome},
		{name: "an interim answer before", interim: true, body: one, tail: ok},

		// Bodies.
		{name: "half a message", body: one[:6], tail: ok},
		{name: "half a message, a status", body: one[:6], tail: failed(), what: `ResourceExhausted: "full"`, why: statusFirst},
		{name: "two messages", body: one + one, tail: ok, stream: `OK: "hihi"`},
		{name: "no message", tail: ok, stream: `OK: ""`},
		{name: "no message, trailers only", head: ok, stream: `OK: ""`},
		{name: "unknown flags", body: "\x04" + one[1:], tail: ok},
		{name: "compressed without an encoding", body: "\x01" + one[1:], tail: ok},
		{name: "an unknown encoding, a status", head: []string{"grpc-encoding: br"}, tail: failed(), stream: `Internal (garbage)`},
	}
}

// rawAnswer is one row. what is what this package makes of the answer if grpc-go makes
// something else of it, and why is the reason. stream is what a stream ends with if that
// differs from a unary call.
type rawAnswer struct {
	name      string
	interim   bool
	head      []string
	body      string
	tail      []string
	what, why string
	stream    string
}

func padded(base string) string { return base + strings.Repeat("=", (4-len(base)%4)%4) }

// serve answers every call on a connection with the row.
func (a *rawAnswer) serve(tb testing.TB) *remote {
	tb.Helper()
	head := map[string]bool{}
	for _, field := range a.head {
		name, _, _ := strings.Cut(field[1:], ": ")
		head[field[:1]+name] = true
	}
	var pairs []string
	for _, field := range [...]string{":status: 200", "content-type: application/grpc"} {
		name, _, _ := strings.Cut(field[1:], ": ")
		if !head[field[:1]+name] {
			pairs = append(pairs, fieldPairs(field)...)
		}
	}
	return h2peer(tb, func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
		if a.interim && !sendHeaders(fr, stream, false, ":status", "103") {
			return false
		}
		first := fieldPairs(a.head...)
		if !sendHeaders(fr, stream, a.body == "" && a.tail == nil, sortedPseudo(append(pairs, first...))...) {
			return false
		}
		if a.body != "" && fr.WriteData(stream, a.tail == nil, []byte(a.body)) != nil {
			return false
		}
		return a.tail == nil || sendHeaders(fr, stream, true, fieldPairs(a.tail...)...)
	})
}

// fieldPairs splits "name: value".
func fieldPairs(fields ...string) []string {
	var pairs []string
	for _, field := range fields {
		name, value, _ := strings.Cut(field[1:], ": ")
		if name = field[:1] + name; name == "content-type" && value == "" {
			continue
		}
		pairs = append(pairs, name, value)
	}
	return pairs
}

// sortedPseudo puts :status first, as HTTP/2 wants it.
func sortedPseudo(pairs []string) []string {
	var first, rest []string
	for i := 0; i < len(pairs); i += 2 {
		if strings.HasPrefix(pairs[i], ":") {
			first = append(first, pairs[i:i+2]...)
		} else {
			rest = append(rest, pairs[i:i+2]...)
		}
	}
	return append(first, rest...)
}

// TestAnswersAsGRPCGoReadsThem holds what this package makes of an answer, as a unary
// call and as a stream, to what grpc-go makes of it. What differs is named with its
// reason, and has to differ.
func TestAnswersAsGRPCGoReadsThem(t *testing.T) {
	t.Parallel()
	for _, row := range rawAnswers() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := row.serve(t)
			c := newClient(t, p.as("grpc"), Options{})
			oracle := theirs(t, p)
			body := []byte(nil)
			answer, err := c.Call(t.Context(), echoProcedure, []byte("x"), nil)
			if err == nil {
				body = answer.Body
			}
			unary, e := ours(body, err)
			want := shownStatus(oracle.Code(), oracle.Message(), len(oracle.Details()))
			same := unary == want || e != nil && strings.HasSuffix(unary, ")") && codes.Code(e.Code) == oracle.Code()
			switch {
			case row.why == "" && !same:
				t.Errorf("got %s, want what grpc-go has: %s", unary, want)
			case row.why != "" && same:
				t.Errorf("does not differ from grpc-go: %s", want)
			case row.why != "" && unary != row.what:
				t.Errorf("got %s, want %s (%s)", unary, row.what, row.why)
			}
			body = nil
			err = func() error {
				_, err := c.Stream(context.WithoutCancel(t.Context()), echoProcedure, []byte("x"), nil, func(m []byte) error {
					body = append(body, m...)
					return nil
				})
				return err
			}()
			streamed, _ := ours(body, err)
			if want := cmp.Or(row.stream, unary); streamed != want {
				t.Errorf("as a stream: got %s, want %s", streamed, want)
			}
		})
	}
}
