// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// fieldReader turns the fields of one header block into facts of an answer. A
// block without one, of a call that was given up, is read all the same, because
// the compression of the blocks after it builds on it.
type fieldReader struct {
	answer  *Answer
	trailer bool // the block is the trailers
	limit   int
	size    int
	status  int // of HTTP
	err     error
}

// isGRPC tells an answer of gRPC from one of an HTTP server in its place. The HTTP status
// says nothing about that: a proxy may set it beside the status of gRPC.
func (a *Answer) isGRPC() bool {
	kind, _, _ := strings.Cut(a.ContentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+")
}

// reset begins a block.
func (r *fieldReader) reset(answer *Answer, trailer bool, limit int) {
	*r = fieldReader{answer: answer, trailer: trailer, limit: limit}
}

// field takes one field.
func (r *fieldReader) field(f hpack.HeaderField) {
	r.size += int(f.Size())
	switch {
	case r.answer == nil || r.err != nil:
		return
	case r.size > r.limit:
		r.err = ErrHeaderTooLarge
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		r.pseudo(f)
		return
	}
	if !isFieldName(f.Name) || !isFieldValue(f.Value) {
		r.err = broken(codeProtocol, "the response has a malformed header field")
		return
	}
	a := r.answer
	switch f.Name {
	case "content-type":
		if !r.trailer {
			a.ContentType = f.Value
		}
	case "grpc-encoding":
		a.Encoding = f.Value
	case "grpc-status":
		a.HasStatus, a.HasTrailingStatus, a.Status = true, r.trailer, f.Value
	case "grpc-message":
		a.StatusMessage = f.Value
	case "grpc-status-details-bin":
		a.StatusDetails = f.Value
	default:
		r.metadata(f)
	}
}

// pseudo takes a field of HTTP itself. An answer has one.
func (r *fieldReader) pseudo(f hpack.HeaderField) {
	status, err := strconv.Atoi(f.Value)
	if f.Name != ":status" || r.trailer || r.status != 0 || err != nil || len(f.Value) != 3 || status < 100 {
		r.err = broken(codeProtocol, "the response has an invalid field %q", f.Name)
		return
	}
	r.status = status
}

func (r *fieldReader) metadata(f hpack.HeaderField) {
	key := textproto.CanonicalMIMEHeaderKey(f.Name)
	into := &r.answer.Header
	if r.trailer {
		into = &r.answer.Trailer
	}
	if *into == nil {
		*into = http.Header{}
	}
	(*into)[key] = append((*into)[key], f.Value)
}

// isFieldName holds for names as HTTP/2 sends them (RFC 9113, section 8.2.1).
func isFieldName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			continue
		}
		return false
	}
	return name != ""
}

// isFieldValue holds for values without control characters (RFC 9113, section
// 8.2.1, and RFC 9110, section 5.5).
func isFieldValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}
