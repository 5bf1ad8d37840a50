// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// attempt starts the span of a call whose context has [tracing.Calls]; nil for others, as the client's own are. Transparent
// repetitions, of what the peer turned away unprocessed, are a part of one attempt.
func (m *Method) attempt(ctx context.Context) *tracing.Attempt {
	calls := tracing.CallsOf(ctx)
	if calls == nil {
		return nil
	}
	rpc := strings.TrimPrefix(m.procedure, "/")
	if !calls.IsRecording() {
		return calls.Attempt(rpc)
	}
	attributes := make([]tracing.Attribute, 0, 6)
	attributes = append(attributes, tracing.Text(tracing.RPCMethod, rpc))
	if system := m.client.Protocol().system(); system != "" {
		attributes = append(attributes, tracing.Text(tracing.RPCSystem, system))
	}
	return calls.Attempt(rpc, m.client.target.appendAddress(attributes)...)
}

// injected returns the headers of a request with the context of its attempt.
func injected(a *tracing.Attempt, header http.Header) http.Header {
	if a == nil {
		return header
	}
	if header == nil {
		header = make(http.Header, 2)
	}
	a.Inject(header)
	return header
}

// system is the protocol in the words of the conventions, "" while it is not known. Connect has its own; gRPC-Web is gRPC in
// other frames.
func (p Protocol) system() string {
	switch p {
	case ProtocolGRPC, ProtocolGRPCWeb:
		return tracing.SystemGRPC
	case ProtocolConnect:
		return tracing.SystemConnect
	case ProtocolUnknown:
	}
	return ""
}

// appendAddress appends where the backend is: host and port, or the path of a socket.
func (t Target) appendAddress(to []tracing.Attribute) []tracing.Attribute {
	if t.socket != "" {
		return append(to, tracing.Text(tracing.ServerAddress, t.socket))
	}
	host, port, err := net.SplitHostPort(t.host)
	if err != nil {
		return append(to, tracing.Text(tracing.ServerAddress, t.host))
	}
	to = append(to, tracing.Text(tracing.ServerAddress, host))
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		to = append(to, tracing.Int(tracing.ServerPort, int64(n)))
	}
	return to
}

// ended ends the span of an attempt. err is nil, an *Error, or that of a receiver who wanted no more of a stream.
func (m *Method) ended(a *tracing.Attempt, err error) {
	if !a.IsRecording() {
		a.End(tracing.Outcome{})
		return
	}
	if system := m.client.Protocol().system(); system != "" {
		a.Set(tracing.Text(tracing.RPCSystem, system)) // it may have been found out meanwhile
	}
	a.End(outcomeOf(err))
}

func outcomeOf(err error) tracing.Outcome {
	status := func(code string) []tracing.Attribute {
		return []tracing.Attribute{tracing.Text(tracing.StatusCode, code)}
	}
	failed := new(Error)
	switch {
	case err == nil:
		return tracing.Outcome{Attributes: status(statusOK)}
	case !errors.As(err, &failed): // the receiver has what it wants, so this is no failure
		return tracing.Outcome{Attributes: status(statusName(connect.CodeCanceled))}
	}
	code := statusName(failed.Code)
	out := tracing.Outcome{ErrorType: code, Attributes: status(code)}
	if failed.Kind != KindStatus { // what a service wrote may be of its users
		out.Message = failed.Kind.String() + ": " + failed.Message
	}
	return out
}

// statusOK is gRPC's name of success.
const statusOK = "OK"

// statusName is gRPC's name of a code, such as NOT_FOUND; that of Connect is the same word in other letters.
func statusName(code connect.Code) string {
	if code == connect.CodeCanceled {
		return "CANCELLED"
	}
	return strings.ToUpper(code.String())
}
