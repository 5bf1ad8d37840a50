// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/errmap"
)

func TestBackendErrorsGetTheirCanonicalCode(t *testing.T) {
	t.Parallel()
	expired, cancel := context.WithDeadline(context.Background(), time.Now())
	defer cancel()
	distant, cancelDistant := context.WithTimeout(context.Background(), time.Hour)
	defer cancelDistant()
	const secret = "dial tcp 10.0.0.7:443"
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		err     error
		want    errmap.Code
		backend string
		message string
		retry   bool
		wait    time.Duration // 0 for any
	}{
		{name: "unreachable", err: &Error{Kind: KindUnreachable, Message: "no listener"},
			want: errmap.Unavailable, message: "no listener", retry: true},
		{name: "timeout", err: &Error{Kind: KindTimeout}, want: errmap.Timeout},
		{name: "cancelled", err: &Error{Kind: KindCancelled}, want: errmap.Cancelled},
		{name: "transport", err: &Error{Kind: KindTransport}, want: errmap.TransportError},
		{name: "answer too large", err: &Error{Kind: KindTooLarge, Message: "5 MB"}, want: errmap.ResourceExhausted, message: "5 MB"},
		{name: "request too large", err: &Error{Kind: KindRequestTooLarge, Message: "5 MB"}, want: errmap.PayloadTooLarge, message: "5 MB"},
		{name: "an HTTP server in the service's place", err: &Error{Kind: KindForeign, Sent: true}, want: errmap.TransportError},
		{name: "unreachable, with a hint", err: &Error{Kind: KindUnreachable, Sent: true, RetryAfter: 7 * time.Second}, want: errmap.Unavailable, retry: true, wait: 7 * time.Second},
		{name: "the backend asks to wait", err: &Error{Kind: KindStatus, Code: connect.CodeInternal, RetryAfter: 7 * time.Second},
			want: errmap.ToolExecutionFailed, backend: "internal", retry: true, wait: 7 * time.Second},
		{name: "the backend asks for no retry", err: &Error{Kind: KindStatus, Code: connect.CodeUnavailable, RetryAfter: -1},
			want: errmap.ToolExecutionFailed, backend: "unavailable"},
		{name: "garbage", err: &Error{Kind: KindGarbage, Sent: true}, want: errmap.SerializationError},
		{name: "garbage before anything was sent", err: &Error{Kind: KindGarbage, Message: "no protocol found"}, want: errmap.Unavailable, retry: true},
		{name: "rejected", err: &Error{Kind: KindRejected}, want: errmap.InternalError},
		{name: "a kind to come", err: &Error{Kind: 200}, want: errmap.InternalError},
		{name: "no backend error", err: errors.New(secret), want: errmap.InternalError},
		{name: "the backend says not found", err: &Error{Kind: KindStatus, Code: connect.CodeNotFound, Message: "no such vehicle"},
			want: errmap.ToolExecutionFailed, backend: "not_found", message: "no such vehicle"},
		{name: "the backend says unavailable", err: &Error{Kind: KindStatus, Code: connect.CodeUnavailable},
			want: errmap.ToolExecutionFailed, backend: "unavailable", retry: true},
		{name: "the backend says deadline exceeded at our deadline", ctx: expired,
			err: &Error{Kind: KindStatus, Code: connect.CodeDeadlineExceeded}, want: errmap.Timeout},
		{name: "the backend itself says deadline exceeded", ctx: distant,
			err:  &Error{Kind: KindStatus, Code: connect.CodeDeadlineExceeded},
			want: errmap.ToolExecutionFailed, backend: "deadline_exceeded"},
		{name: "the backend says deadline exceeded without any",
			err:  &Error{Kind: KindStatus, Code: connect.CodeDeadlineExceeded},
			want: errmap.ToolExecutionFailed, backend: "deadline_exceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx := tc.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			got := canonical(ctx, tc.err)
			if got.Code != tc.want || got.BackendCode != tc.backend || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %v (backend %q), want %s (backend %q)", got, got.BackendCode, tc.want, tc.backend)
			}
			if tc.wait != 0 && got.RetryAfter != tc.wait {
				t.Errorf("retry after %v, want %v", got.RetryAfter, tc.wait)
			}
			if got.CanRetry(false) != tc.retry {
				t.Errorf("retryable %v, want %v", got.CanRetry(false), tc.retry)
			}
			if strings.Contains(string(got.Data(errmap.About{})), secret) {
				t.Errorf("the cause is shown: %s", got.Data(errmap.About{}))
			}
		})
	}
}

func TestMetadataOfAFailedCall(t *testing.T) {
	t.Parallel()
	md := http.Header{"X-Request-Id": {"7"}}
	if got := FailedAnswer(&Error{Trailer: md}); got == nil || cmp.Diff(md, got.Trailer) != "" {
		t.Errorf("got %+v, want the metadata as trailers", got)
	}
	for _, err := range []error{&Error{}, errors.New("other")} {
		if got := FailedAnswer(err); got != nil {
			t.Errorf("%v: got %+v, want nothing", err, got)
		}
	}
}
