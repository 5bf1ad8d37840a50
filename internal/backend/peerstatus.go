// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// A service's status is kept whatever the form of what surrounds it. Its code and message
// come from their own fields, broken escapes in the message stay as they are, and details
// that cannot be read are dropped. The RPC library gives up the status in these cases, so
// it is read here as well; see docs/decisions/0013-the-backend-client.md.

// Names of gRPC's fields, in canonical form.
const (
	grpcStatusField  = "Grpc-Status"
	grpcMessageField = "Grpc-Message"
	grpcDetailsField = "Grpc-Status-Details-Bin"
	grpcPushback     = "Grpc-Retry-Pushback-Ms"
)

// grpcFailure returns the failure that gRPC's three fields describe. It returns nil if
// they describe success, or if the code is no number.
func grpcFailure(ctx context.Context, code, message, details string) *Error {
	number, err := strconv.ParseUint(code, 10, 32)
	if err != nil || number == 0 {
		return nil //nolint:nilerr // then there is no status
	}
	message = percentDecoded(message)
	status := readDetails(details, int32(number))
	if message == "" {
		message = status.GetMessage()
	}
	peer := connect.Code(number)
	switch ours := ended(ctx); {
	case peer == connect.CodeDeadlineExceeded && expiring(ctx):
		return ourEnd(KindTimeout, true)
	case peer == connect.CodeCanceled && ours != 0:
		return ourEnd(ours, true)
	}
	e := statusError(peer, message)
	e.Details = status.GetDetails()
	e.cause = errors.New(message)
	return e
}

// readDetails reads grpc-status-details-bin. It returns nil if there is none that can be
// read, or if it names another code: then it is not about this status. Code 0 names none.
func readDetails(value string, code int32) *statuspb.Status {
	if value == "" {
		return nil
	}
	raw, err := decodedBinary(value)
	if err != nil {
		return nil
	}
	status := new(statuspb.Status)
	if proto.Unmarshal(raw, status) != nil || status.GetCode() != code && status.GetCode() != 0 {
		return nil
	}
	return status
}

// decodedBinary reads a value of metadata whose name ends in -bin; senders may
// leave the padding out.
func decodedBinary(value string) ([]byte, error) {
	if len(value)%4 == 0 {
		return base64.StdEncoding.DecodeString(value)
	}
	return base64.RawStdEncoding.DecodeString(value)
}

// percentDecoded reads grpc-message. A broken escape stays as it is: the specification
// forbids to fail because of one.
func percentDecoded(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+3 <= len(text) {
			if b, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(b))
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(out)
}

// said is what a peer said at the end of a call that went through the RPC library.
type said struct {
	header  http.Header // of the response
	trailer http.Header // of HTTP, once the body has ended
	began   bool        // part of a body came
	// tail is the last frame of the body, where it is none of a message: gRPC-Web's
	// trailers or Connect's end of a stream; or the body of an error of unary Connect.
	tail  []byte
	flags byte // of that frame
}

// Flags of frames that are no messages. With the lowest bit they are compressed.
const (
	flagConnectEnd = 1 << 1
	flagWebTrailer = 1 << 7
)

// failure returns the status that the peer sent, and nil if it sent none. err is what
// the library made of the response.
func (s *said) failure(ctx context.Context, err error) *Error {
	trailer := s.trailer
	if s.flags == flagWebTrailer {
		trailer = webTrailer(s.tail)
	}
	e := (*Error)(nil)
	switch {
	case trailer.Get(grpcStatusField) != "":
		e = grpcFailureOf(ctx, trailer)
	case s.endsInHeader():
		trailer = s.header
		e = grpcFailureOf(ctx, trailer)
	case !connect.IsWireError(err):
		e, trailer = s.connectFailure(ctx)
	}
	if e == nil || e.Kind != KindStatus {
		return e
	}
	e.Trailer = incoming(trailer)
	if !s.endsInHeader() {
		e.Header = incoming(s.header)
	}
	e.RetryAfter = retryHint(trailer, s.header)
	return e
}

// endsInHeader reports whether the header is a trailer, as in a response of gRPC without messages. A status in the header
// of others means nothing.
func (s *said) endsInHeader() bool { return s.header.Get(grpcStatusField) != "" && !s.began }

// metadata tells what came in the header from what came in the trailer. all is both, as the library joins them for an error.
func (s *said) metadata(all http.Header) (header, trailer http.Header) {
	all = incoming(all)
	if s.endsInHeader() {
		return nil, all
	}
	for name, values := range all {
		if n := min(len(s.header[name]), len(values)); n > 0 {
			if header == nil {
				header = make(http.Header, len(all))
			}
			header[name], values = values[:n:n], values[n:]
		}
		if len(values) == 0 {
			continue
		}
		if trailer == nil {
			trailer = make(http.Header, len(all))
		}
		trailer[name] = values
	}
	return header, trailer
}

func grpcFailureOf(ctx context.Context, h http.Header) *Error {
	last := func(name string) string {
		values := h[name]
		if len(values) == 0 {
			return ""
		}
		return values[len(values)-1]
	}
	return grpcFailure(ctx, last(grpcStatusField), last(grpcMessageField), last(grpcDetailsField))
}

// webTrailer reads the trailers of gRPC-Web: a block of header fields without the line
// that ends one.
func webTrailer(block []byte) http.Header {
	h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(bytes.TrimRight(block, "\r\n"), "\r\n\r\n"...)))).ReadMIMEHeader()
	if err != nil {
		return nil
	}
	return http.Header(h)
}

// connectFailure reads an error of Connect that the library could not read, because of
// its details. Anything less than a code of Connect is not taken for one.
func (s *said) connectFailure(ctx context.Context) (*Error, http.Header) {
	var wire struct {
		Code    string            `json:"code"`
		Message string            `json:"message"`
		Details []json.RawMessage `json:"details"`
	}
	var trailer http.Header
	switch s.flags {
	case 0:
		if json.Unmarshal(s.tail, &wire) != nil {
			return nil, nil //nolint:nilerr // it is no error of Connect
		}
	case flagConnectEnd:
		var end struct {
			Error    json.RawMessage `json:"error"`
			Metadata http.Header     `json:"metadata"`
		}
		if json.Unmarshal(s.tail, &end) != nil || json.Unmarshal(end.Error, &wire) != nil {
			return nil, nil //nolint:nilerr // the same
		}
		trailer = make(http.Header, len(end.Metadata))
		for name, values := range end.Metadata {
			trailer[http.CanonicalHeaderKey(name)] = values
		}
	}
	var code connect.Code
	if code.UnmarshalText([]byte(wire.Code)) != nil || code < connect.CodeCanceled || code > connect.CodeUnauthenticated {
		return nil, nil //nolint:nilerr // the same
	}
	failed := connect.NewWireError(code, errors.New(wire.Message))
	e := fromPeer(ctx, failed, ended(ctx))
	for _, text := range wire.Details {
		var detail struct {
			Type  string `json:"type"`
			Value string `json:"value"`
		}
		if json.Unmarshal(text, &detail) != nil {
			continue
		}
		if raw, err := decodedBinary(detail.Value); err == nil && detail.Type != "" {
			e.Details = append(e.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type, Value: raw})
		}
	}
	return e, trailer
}

// retryHint is what a peer says about a retry: gRPC's pushback before HTTP's
// Retry-After. It is negative if the call must not be retried, and zero if the peer says
// nothing.
func retryHint(headers ...http.Header) time.Duration {
	const (
		never = -1
		most  = 24 * time.Hour
	)
	for _, h := range headers {
		if text := h.Get(grpcPushback); text != "" {
			ms, err := strconv.ParseInt(text, 10, 32)
			if err != nil || ms < 0 { // gRPC A6: a value that cannot be read forbids retries too
				return never
			}
			return min(time.Duration(ms)*time.Millisecond, most)
		}
	}
	for _, h := range headers {
		text := h.Get("Retry-After")
		if text == "" {
			continue
		}
		if s, err := strconv.ParseUint(text, 10, 32); err == nil {
			return min(time.Duration(s)*time.Second, most)
		}
		if at, err := http.ParseTime(text); err == nil {
			return min(max(time.Until(at), 0), most)
		}
	}
	return 0
}

// mediaType is a content type without parameters, in lower case.
func mediaType(contentType string) string {
	contentType, _, _ = strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(contentType))
}

// isGRPCType holds for the media types of gRPC and gRPC-Web.
func isGRPCType(mediaType string) bool {
	rest, ok := strings.CutPrefix(mediaType, "application/grpc")
	if !ok {
		return false
	}
	rest = strings.TrimPrefix(rest, "-web")
	return rest == "" || rest[0] == '+'
}

// isRPCType holds for the media types of all protocols.
func isRPCType(mediaType string) bool {
	return isGRPCType(mediaType) || mediaType == "application/json" || mediaType == "application/proto" ||
		strings.HasPrefix(mediaType, "application/connect+")
}

// readable prepares a response for the library: it knows no parameters of content types,
// and takes no gRPC from a response whose HTTP status is not 200, where gRPC's own counts.
func readable(resp *http.Response) {
	kind := mediaType(resp.Header.Get("Content-Type"))
	if !isRPCType(kind) {
		return
	}
	resp.Header["Content-Type"] = []string{kind}
	if isGRPCType(kind) {
		resp.StatusCode = http.StatusOK
	}
}
