// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/anypb"
)

// deadlineSlack is how long before our deadline an end that the peer ascribes to
// a deadline counts as ours. Connect sends the time left in whole milliseconds,
// rounded down, and the peer's timer may win the race by as much.
const deadlineSlack = 10 * time.Millisecond

// classify turns what a call returned into an *Error. The order matters: the
// peer's own word first, then our own clock, then what the exchange showed.
func classify(ctx context.Context, err error, f *facts) *Error {
	var rpc *connect.Error
	if !errors.As(err, &rpc) {
		rpc = connect.NewError(connect.CodeUnknown, err)
	}
	e := sortOut(ctx, err, rpc, f)
	e.HTTPStatus = f.httpStatus
	e.cause = err
	if f.sendErr != nil {
		e.cause = f.sendErr
	}
	return e
}

func sortOut(ctx context.Context, err error, rpc *connect.Error, f *facts) *Error {
	ours := ended(ctx)
	if connect.IsWireError(err) {
		return fromPeer(ctx, rpc, ours)
	}
	if ours != 0 {
		return ourEnd(ours, f.began())
	}
	if f.httpStatus == 0 {
		return noResponse(ctx, f)
	}
	return badResponse(ctx, rpc, f)
}

// ended is KindTimeout or KindCancelled once the caller's context is done, else 0.
func ended(ctx context.Context) Kind {
	switch err := ctx.Err(); {
	case err == nil:
		return 0
	case errors.Is(err, context.DeadlineExceeded), errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return KindTimeout
	default:
		return KindCancelled
	}
}

// expiring reports whether the caller's deadline has passed or is about to.
func expiring(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= deadlineSlack
}

func ourEnd(k Kind, sent bool) *Error {
	message := "the deadline passed before the backend answered"
	if k == KindCancelled {
		message = "the call was cancelled"
	}
	e := newError(k, message, nil)
	e.Sent = sent
	return e
}

func fromPeer(ctx context.Context, rpc *connect.Error, ours Kind) *Error {
	switch {
	case rpc.Code() == connect.CodeDeadlineExceeded && expiring(ctx):
		return ourEnd(KindTimeout, true)
	case rpc.Code() == connect.CodeCanceled && ours != 0:
		return ourEnd(ours, true)
	}
	e := statusError(rpc.Code(), rpc.Message())
	e.Metadata = incoming(rpc.Meta())
	for _, d := range rpc.Details() {
		e.Details = append(e.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return e
}

// statusError keeps foreign codes, 0 among them, apart: status details can carry
// any number whatever the header says.
func statusError(code connect.Code, message string) *Error {
	e := &Error{Kind: KindStatus, Code: code, PeerCode: code.String(), Message: message, Sent: true}
	if code < connect.CodeCanceled || code > connect.CodeUnauthenticated {
		e.Code = connect.CodeUnknown
	}
	if code > connect.CodeUnauthenticated {
		e.PeerStatus = uint32(code)
	}
	return e
}

// noResponse sorts failures in which no HTTP response came.
func noResponse(ctx context.Context, f *facts) *Error {
	cause, sent := f.sendErr, f.complete()
	if cause == nil {
		return newError(KindRejected, "the request cannot be sent", nil)
	}
	switch {
	case tooManyFields(cause):
		return newError(KindRequestTooLarge, tooManyFieldsText, nil)
	case errors.Is(cause, errHTTP1):
		return newError(KindGarbage, "the backend answers HTTP/2 requests with HTTP/1, but gRPC needs HTTP/2 (try http:// or connect+http://)", nil)
	case errors.Is(cause, errNotHTTP):
		return newError(KindGarbage, "the backend's response is not HTTP", nil)
	case !f.began():
		return newError(KindUnreachable, "cannot reach the backend", nil)
	case !sent:
		return newError(KindUnreachable, "the connection broke before the request was complete", nil)
	case unprocessed(cause):
		return newError(KindUnreachable, "the backend rejected the request", nil)
	case handshakeRefused(cause):
		return newError(KindUnreachable, "the backend refused the TLS handshake", nil)
	case f.greeted() == greetTLS:
		return newError(KindUnreachable, errWantsTLS.Error(), nil)
	case resetBy(cause, h2Cancel) && expiring(ctx):
		return ourEnd(KindTimeout, true)
	}
	e := newError(KindTransport, "the connection broke before the backend answered", nil)
	if !f.onHTTP2 && f.greeted() == greetOther {
		e = newError(KindGarbage, "the backend's response is not HTTP", nil)
	}
	e.Sent = true
	return e
}

// badResponse sorts failures in which an HTTP response came that is no answer of
// the protocol. rpc may be nil where f says why the body ended.
func badResponse(ctx context.Context, rpc *connect.Error, f *facts) *Error {
	e := func() *Error {
		switch {
		case f.overLimit, f.bodyErr == nil && f.httpStatus == http.StatusOK && rpc.Code() == connect.CodeResourceExhausted:
			return newError(KindTooLarge, "the response is too large", nil)
		case f.bodyErr != nil && resetBy(f.bodyErr, h2Cancel) && expiring(ctx):
			return ourEnd(KindTimeout, true)
		case f.bodyErr != nil:
			return newError(KindTransport, "the connection broke during the response", nil)
		case f.httpStatus != http.StatusOK:
			return fromHTTPStatus(f.httpStatus, f.hangsUp)
		default:
			return newError(KindGarbage, "the response violates the protocol", nil)
		}
	}()
	e.Sent = true
	return e
}

// fromHTTPStatus sorts answers of an HTTP server that did not get as far as the
// protocol, along gRPC's table for such answers. hangsUp says that the server
// closes the connection: with a 400, that it could not read the request, as net/http
// does when the time for the headers has run out in between.
func fromHTTPStatus(status int, hangsUp bool) *Error {
	switch status {
	case http.StatusBadRequest:
		if hangsUp {
			return newError(KindTransport, "the backend's HTTP server could not read the request and closed the connection: HTTP Bad Request", nil)
		}
	case http.StatusRequestTimeout:
		return newError(KindTransport, "the backend's HTTP server did not receive the request in time: HTTP Request Timeout", nil)
	case http.StatusUnauthorized:
		return statusError(connect.CodeUnauthenticated, "HTTP status 401 Unauthorized")
	case http.StatusForbidden:
		return statusError(connect.CodePermissionDenied, "HTTP status 403 Forbidden")
	case http.StatusNotFound:
		return statusError(connect.CodeUnimplemented, "HTTP status 404 Not Found")
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return newError(KindTransport, "an intermediary could not forward the request: HTTP "+http.StatusText(status), nil)
	}
	return newError(KindGarbage, "HTTP "+http.StatusText(status)+" instead of a response of the protocol", nil)
}
