// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
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
	if e := f.said.failure(ctx, err); e != nil && !f.overLimit {
		return e
	}
	if connect.IsWireError(err) && !f.ofAGateway() {
		e := fromPeer(ctx, rpc, ours)
		if e.Kind == KindStatus {
			e.Header, e.Trailer = f.said.metadata(rpc.Meta())
		}
		return e
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
	e.RetryAfter = retryHint(rpc.Meta())
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
	case !f.onHTTP2 && f.greeted() == greetSettings:
		return newError(KindGarbage, "the backend answers HTTP/1.1 requests with HTTP/2", nil)
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
		case f.httpStatus != http.StatusOK, f.foreign:
			return notTheService(f.httpStatus, mediaType(f.said.header.Get("Content-Type")), f.said.header, f.hangsUp)
		default:
			return newError(KindGarbage, "the response violates the protocol", nil)
		}
	}()
	e.Sent = true
	return e
}

// notTheService sorts answers of an HTTP server in the service's place, along gRPC's
// table for such answers. hangsUp says that the server closes the connection: with a 400,
// that it could not read the request, as net/http does when the time for the headers has
// run out in between.
func notTheService(status int, mediaType string, h http.Header, hangsUp bool) *Error {
	name := strconv.Itoa(status) + " " + http.StatusText(status)
	switch status {
	case http.StatusBadRequest:
		if hangsUp {
			return newError(KindTransport, "the backend's HTTP server could not read the request and closed the connection: HTTP "+name, nil)
		}
	case http.StatusRequestTimeout:
		return newError(KindTransport, "the backend's HTTP server did not receive the request in time: HTTP "+name, nil)
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		e := statusError(codeOfHTTP(status), "HTTP status "+name)
		e.RetryAfter = retryHint(h)
		return e
	case http.StatusRequestEntityTooLarge:
		return newError(KindRequestTooLarge, "an HTTP server before the service does not accept a request of this size: HTTP "+name, nil)
	case http.StatusRequestHeaderFieldsTooLarge:
		return newError(KindRequestTooLarge, tooManyFieldsText, nil)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		e := newError(KindUnreachable, "an HTTP server before the service refused the request: HTTP "+name, nil)
		e.RetryAfter = retryHint(h)
		return e
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return newError(KindTransport, "an intermediary could not forward the request: HTTP "+name, nil)
	}
	if mediaType == "" {
		mediaType = "no content type"
	}
	e := newError(KindForeign, "an HTTP server answered in place of the service: HTTP "+name+", "+clip(mediaType), nil)
	if status == http.StatusBadRequest {
		e.Code = connect.CodeInternal // as gRPC's table has it: the next request would be no better
	}
	return e
}

// ofAGateway reports whether the response is JSON that a gateway wrote in place of a
// server of Connect. The library takes any JSON for an error of Connect.
func (f *facts) ofAGateway() bool {
	switch f.httpStatus {
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		var wire struct {
			Code string `json:"code"`
		}
		return len(f.said.tail) > 0 && f.said.flags == 0 && json.Unmarshal(f.said.tail, &wire) == nil && wire.Code == ""
	}
	return false
}

func codeOfHTTP(status int) connect.Code {
	switch status {
	case http.StatusUnauthorized:
		return connect.CodeUnauthenticated
	case http.StatusForbidden:
		return connect.CodePermissionDenied
	default:
		return connect.CodeUnimplemented
	}
}
