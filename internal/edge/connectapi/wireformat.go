// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/bridge"
)

// prefixBytes stand before each message of gRPC: a flag, and the length.
const prefixBytes = 5

// wireFormat is how a plain unary request is written, and its answer.
type wireFormat struct {
	kind     string // Content-Type
	protocol string
	isGRPC   bool
	isJSON   bool
}

// read finds out the format of a request; false where it is not plain.
func (f *wireFormat) read(r *http.Request) bool {
	kinds := r.Header["Content-Type"]
	if r.Method != http.MethodPost || len(kinds) == 0 {
		return false
	}
	f.kind = kinds[0]
	switch f.kind {
	case "application/grpc", "application/grpc+proto":
		f.isGRPC, f.protocol = true, connect.ProtocolGRPC
		return r.ProtoMajor == 2 && isIdentity(r.Header["Grpc-Encoding"]) && !acceptsCompression(r.Header["Grpc-Accept-Encoding"])
	case "application/json", "application/proto":
		f.isJSON, f.protocol = f.kind == "application/json", connect.ProtocolConnect
		return r.ContentLength > 0 && r.ContentLength <= mostPlain &&
			r.Header["Content-Encoding"] == nil && !acceptsCompression(r.Header["Accept-Encoding"]) && isReadable(r.Header, "Content-Encoding")
	}
	return false
}

func isIdentity(encoding []string) bool {
	return len(encoding) == 0 || encoding[0] == "" || encoding[0] == "identity"
}

// message reads the body, which is one message. Where it is none, what was read of it is
// returned instead, and the error behind that.
func (f *wireFormat) message(r *http.Request, limit int) (message, consumed []byte, err error) {
	if f.isGRPC {
		return readPrefixed(r.Body, min(limit, mostPlain))
	}
	if r.ContentLength > int64(limit) {
		return nil, nil, nil
	}
	buf := make([]byte, r.ContentLength+1)
	n, err := readFull(r.Body, buf)
	if !errors.Is(err, io.EOF) || int64(n) != r.ContentLength {
		return nil, buf[:n], err
	}
	return buf[:n], nil, nil
}

// readPrefixed reads the one message of a gRPC body.
func readPrefixed(body io.Reader, most int) (message, consumed []byte, err error) {
	buf := make([]byte, 512) // what most messages fit in
	n, err := readFull(body, buf[:prefixBytes])
	size := int64(binary.BigEndian.Uint32(buf[1:]))
	if n < prefixBytes || buf[0] != 0 || size > int64(most) {
		return nil, buf[:n], err
	}
	if need := prefixBytes + int(size) + 1; need > len(buf) {
		buf = append(make([]byte, 0, need), buf[:n]...)[:need]
	} else {
		buf = buf[:need]
	}
	if err == nil {
		var more int
		more, err = readFull(body, buf[n:])
		n += more
	}
	if n != prefixBytes+int(size) || !errors.Is(err, io.EOF) {
		return nil, buf[:n], err
	}
	return buf[prefixBytes:n:n], nil, nil
}

// readFull reads until buf is full or there is an error, which may come with the last bytes.
func readFull(from io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = from.Read(buf[n:])
		n += more
	}
	return n, err
}

// begin sets the headers of any answer.
func (f *wireFormat) begin(h http.Header) {
	h["Content-Type"] = []string{f.kind}
	if f.isGRPC {
		h["Grpc-Accept-Encoding"] = []string{supported}
	} else {
		h["Accept-Encoding"] = []string{supported}
	}
}

// prefix is what stands before the message of an answer.
func (f *wireFormat) prefix() []byte {
	if f.isGRPC {
		return make([]byte, prefixBytes, 512)
	}
	return make([]byte, 0, 512)
}

// write writes an answer that went well. message begins with the prefix.
func (f *wireFormat) write(w http.ResponseWriter, message []byte, resp *bridge.Response) {
	h := w.Header()
	addMetadata(h, "", resp.Header)
	if !f.isGRPC {
		addMetadata(h, connectTrailer, resp.Trailer)
		_, _ = w.Write(message) // the caller has gone if this fails
		return
	}
	binary.BigEndian.PutUint32(message[1:], uint32(len(message)-prefixBytes))
	if _, err := w.Write(message); err != nil {
		return // the caller has gone
	}
	addMetadata(h, http.TrailerPrefix, resp.Trailer)
	h[http.TrailerPrefix+headerStatus] = []string{"0"}
}

// writeError writes an answer that is an error.
func (f *wireFormat) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if !f.isGRPC {
		_ = connect.NewErrorWriter().Write(w, r, err) // the caller has gone if this fails
		return
	}
	var shown *connect.Error
	if !errors.As(err, &shown) {
		shown = connect.NewError(connect.CodeOf(err), err)
	}
	h, meta := w.Header(), shown.Meta()
	if challenge := meta[headerChallenge]; challenge != nil {
		delete(meta, headerChallenge)
		h[headerChallenge] = challenge
	}
	w.WriteHeader(http.StatusOK)
	addMetadata(h, http.TrailerPrefix, meta)
	h[http.TrailerPrefix+headerStatus] = []string{strconv.Itoa(int(shown.Code()))}
	h[http.TrailerPrefix+headerMessage] = []string{percentEncode(shown.Message())}
	if details := statusDetails(shown); details != "" {
		h[http.TrailerPrefix+headerDetails] = []string{details}
	}
}

// statusDetails is the status with its details as gRPC sends it, "" where there are none.
func statusDetails(err *connect.Error) string {
	if len(err.Details()) == 0 {
		return ""
	}
	status := &statuspb.Status{Code: int32(err.Code()), Message: err.Message()}
	for _, d := range err.Details() {
		status.Details = append(status.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	raw, failed := proto.Marshal(status)
	if failed != nil {
		return ""
	}
	return base64.RawStdEncoding.EncodeToString(raw)
}

// connectTrailer begins the name of each trailer of a unary answer of Connect.
const connectTrailer = "Trailer-"

// addMetadata adds metadata to a header, but for what is the protocols' own.
func addMetadata(h http.Header, prefix string, metadata http.Header) {
	for name, values := range metadata {
		if len(values) > 0 && !isProtocolHeader(name) {
			h[prefix+name] = append(h[prefix+name], values...)
		}
	}
}

// isProtocolHeader holds for headers that the library sets itself.
func isProtocolHeader(name string) bool {
	switch name {
	case "Content-Type", "Content-Length", "Content-Encoding", "Host", "User-Agent", "Trailer", "Date",
		"Accept-Encoding", connectTrailer, "Connect-Content-Encoding", "Connect-Accept-Encoding", "Connect-Timeout-Ms",
		"Connect-Protocol-Version", "Grpc-Encoding", "Grpc-Accept-Encoding", "Grpc-Timeout",
		headerStatus, headerMessage, headerDetails:
		return true
	}
	return false
}

// percentEncode writes a message as gRPC has it in a header (gRPC over HTTP/2, responses).
func percentEncode(text string) string {
	isPlain := func(c byte) bool { return c >= ' ' && c <= '~' && c != '%' }
	at := 0
	for at < len(text) && isPlain(text[at]) {
		at++
	}
	if at == len(text) {
		return text
	}
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(text) {
		if c := text[i]; isPlain(c) {
			out.WriteByte(c)
		} else {
			out.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return out.String()
}
