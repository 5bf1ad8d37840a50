// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestErrorChain(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("call: %w", Wrap(Timeout, context.DeadlineExceeded, Tool("shop.get")))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error("the cause is lost")
	}
	if !errors.Is(err, New(Timeout)) || errors.Is(err, New(Unavailable)) {
		t.Error("Is does not go by the code")
	}
	var e *Error
	if !errors.As(err, &e) || e.Tool != "shop.get" {
		t.Errorf("As: %+v", e)
	}
	if code, ok := CodeOf(err); code != Timeout || !ok {
		t.Errorf("CodeOf = %s, %v", code, ok)
	}
	if code, ok := CodeOf(io.EOF); code != "" || ok {
		t.Errorf("CodeOf(EOF) = %s, %v", code, ok)
	}
	want := "call: TIMEOUT shop.get: Tool execution timed out: context deadline exceeded"
	if err.Error() != want {
		t.Errorf("Error() = %q, want %q", err, want)
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	limited := New(RateLimited)
	tests := []struct {
		name  string
		in    error
		want  Code
		cause error
	}{
		{"canonical", limited, RateLimited, nil},
		{"wrapped", fmt.Errorf("x: %w", limited), RateLimited, nil},
		{"foreign", io.EOF, InternalError, io.EOF},
		{"context", context.Canceled, InternalError, context.Canceled},
		{"unknown code", New("NOPE"), InternalError, ErrUnknownCode},
		{"unknown code with cause", Wrap("NOPE", io.EOF), InternalError, io.EOF},
		{"no code", &Error{}, InternalError, ErrUnknownCode},
		{"nil pointer", (*Error)(nil), InternalError, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := From(tt.in)
			if got == nil || got.Code != tt.want {
				t.Fatalf("From = %v, want %s", got, tt.want)
			}
			if tt.cause != nil && !errors.Is(got, tt.cause) {
				t.Errorf("%v does not wrap %v", got, tt.cause)
			}
		})
	}
	if From(nil) != nil {
		t.Error("From(nil) is an error")
	}
	if From(fmt.Errorf("x: %w", limited)) != limited {
		t.Error("From copies")
	}
}

// An error without a row shows as INTERNAL_ERROR everywhere: the code 0, or an unknown one, cannot leave.
func TestNoRow(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*Error{"nil": nil, "zero": {}, "unknown": New("NOPE", Message("inside"))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []Reply{e.JSONRPC(About{}), e.MCP(Modern, About{ToolCall: true}), e.MCP(Legacy, About{})} {
				if r.Code != rpcInternal || r.Message != "Internal error" || !strings.Contains(string(r.Data), `"INTERNAL_ERROR"`) {
					t.Errorf("%+v", r)
				}
			}
			if code, _ := CodeOf(FromConnect(ToConnect(e, About{}))); code != InternalError {
				t.Errorf("Connect: %s", code)
			}
			if e.HTTPStatus() != 500 || e.Type() != TypeToolExecution || e.CanRetry(true) {
				t.Error("not the row of INTERNAL_ERROR")
			}
			if !strings.Contains(string(e.AppendDetail(nil, About{})), "Internal error") || e.Detail(About{}).GetErrorMessage() != "Internal error" {
				t.Error("ErrorDetail is not that of INTERNAL_ERROR")
			}
		})
	}
}

// No conversion of any code shows a cause, and INTERNAL_ERROR shows nothing that was set by hand either.
func TestCausesStayInside(t *testing.T) {
	t.Parallel()
	const inside = "cause-8c1f"
	for _, code := range Codes() {
		e := Wrap(code, errors.New(inside), Tool("a.b"))
		shown := everything(t, e)
		if code == InternalError {
			shown += everything(t, Wrap(code, errors.New(inside), Message(inside)))
		}
		if strings.Contains(shown, inside) {
			t.Errorf("%s shows its cause", code)
		}
		if !strings.Contains(e.Error(), inside) {
			t.Errorf("%s: the log loses the cause", code)
		}
	}
}

// No message leaves unredacted, on whatever way.
func TestMessagesAreRedacted(t *testing.T) {
	t.Parallel()
	for _, code := range Codes() {
		e := New(code, Message("dial postgres://u:hunter2@db failed"), Advice("use password=hunter2"), Tool("a.b"))
		if strings.Contains(everything(t, e), "hunter2") || strings.Contains(e.Error(), "hunter2") {
			t.Errorf("%s shows a secret", code)
		}
	}
}

// everything is all that any edge would send for e.
func everything(t *testing.T, e *Error) string {
	t.Helper()
	var b strings.Builder
	for _, call := range []bool{true, false} {
		about := About{ToolCall: call}
		for _, r := range []Reply{e.JSONRPC(about), e.MCP(Modern, about), e.MCP(Legacy, about)} {
			fmt.Fprintf(&b, "%s %s %s %s\n", r.Message, r.Text, r.Data, r.Challenge)
		}
		b.Write(e.AppendDetail(nil, about))
		b.WriteString(e.Detail(about).String())
		ce := ToConnect(e, about)
		b.WriteString(ce.Error() + ce.Message())
		if ce.Unwrap() != nil {
			b.WriteString(ce.Unwrap().Error())
		}
		for _, d := range ce.Details() {
			b.Write(d.Bytes())
		}
	}
	return b.String()
}

func TestType(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		e    *Error
		want string
	}{
		{"row", New(Timeout), TypeTimeout},
		{"structure", InvalidInput("a", true), TypeSchema},
		{"rules", InvalidInput("a", false), TypeValidation},
		{"own", New(Timeout, Type("SlowError")), "SlowError"},
		{"own of an edge's shape", New(Timeout, Type("a.b_C9")), "a.b_C9"},
		{"not a name", New(Timeout, Type("9x")), TypeTimeout},
		{"with a space", New(Timeout, Type("a b")), TypeTimeout},
		{"too long", New(Timeout, Type(strings.Repeat("a", maxErrorTypeBytes+1))), TypeTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.e.Type(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestCanRetry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		e           *Error
		once, idemp bool
	}{
		{"no", New(InvalidToolInput), false, false},
		{"yes", New(RateLimited), true, true},
		{"idempotent only", New(Timeout), false, true},
		{"said so", New(InvalidToolInput, Retryable(true)), true, true},
		{"said not", New(RateLimited, Retryable(false)), false, false},
		{"backend unavailable", New(ToolExecutionFailed, BackendCode("unavailable")), true, true},
		{"backend deadline", New(ToolExecutionFailed, BackendCode("deadline_exceeded")), false, true},
		{"backend internal", New(ToolExecutionFailed, BackendCode("internal")), false, false},
		{"backend internal, asks for it", New(ToolExecutionFailed, BackendCode("internal"), RetryAfter(1)), true, true},
		{"backend unheard of", New(ToolExecutionFailed, BackendCode("nope")), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if a, b := tt.e.CanRetry(false), tt.e.CanRetry(true); a != tt.once || b != tt.idemp {
				t.Errorf("%v, %v; want %v, %v", a, b, tt.once, tt.idemp)
			}
		})
	}
}
