// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"
)

// conversions are all the ways in which a message leaves an error.
func conversions() map[string]func(e *Error) string {
	about := About{ToolCall: true}
	return map[string]func(e *Error) string{
		"JSON-RPC":       func(e *Error) string { return e.JSONRPC(about).Message },
		"MCP, modern":    func(e *Error) string { return e.MCP(Modern, about).Message },
		"MCP, legacy":    func(e *Error) string { return e.MCP(Legacy, About{}).Message },
		"tool result":    func(e *Error) string { return e.MCP(Modern, about).Text },
		"text":           func(e *Error) string { return e.ModelText(about) },
		"Connect":        func(e *Error) string { return ToConnect(e, about).Message() },
		"detail":         func(e *Error) string { return e.Detail(about).GetErrorMessage() },
		"detail, JSON":   func(e *Error) string { return string(e.AppendDetail(nil, about)) },
		"log":            func(e *Error) string { return e.Error() },
		"named":          func(e *Error) string { return e.Naming("t").ModelText(about) },
		"again":          func(e *Error) string { return e.Redacted().JSONRPC(about).Message },
		"named, Connect": func(e *Error) string { return ToConnect(e.Naming("t"), about).Message() },
	}
}

// TestAMessageIsRedactedOnce: no conversion of a redacted error reads its message again. The text in its place says so.
func TestAMessageIsRedactedOnce(t *testing.T) {
	t.Parallel()
	const mark = "password=this text was not redacted again"
	for name, show := range conversions() {
		e := New(Unavailable, Message("password=hunter2")).Redacted()
		if e.safe.text != "password=[redacted]" {
			t.Fatalf("redacted to %q", e.safe.text)
		}
		e.safe.text = mark
		if got := show(e); !strings.Contains(got, mark) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestTheStatusOfABackendIsRedactedOnce: what is read of a status is redacted, and stays so.
func TestTheStatusOfABackendIsRedactedOnce(t *testing.T) {
	t.Parallel()
	for _, code := range []connect.Code{connect.CodeNotFound, connect.CodeUnavailable, 77} {
		e := FromBackendStatus(code, "password=hunter2", nil)
		if e.Redacted() != e || !strings.Contains(e.Message, "password=[redacted]") || string(e.safe.text) != e.Message {
			t.Errorf("%v: %q, redacted %q", code, e.Message, e.safe.text)
		}
	}
	e := FromConnect(connect.NewError(connect.CodeUnavailable, errors.New("token: abcdefgh1")))
	if e.Redacted() != e || strings.Contains(e.Message, "abcdefgh1") {
		t.Errorf("%q", e.Message)
	}
}

// TestAChangedMessageIsRedacted: Message may be set after the error was redacted, and nothing of the new one leaks.
func TestAChangedMessageIsRedacted(t *testing.T) {
	t.Parallel()
	for name, show := range conversions() {
		for _, e := range []*Error{
			New(Unavailable, Message("first")).Redacted(),
			New(Unavailable).Redacted(),
			FromBackendStatus(connect.CodeNotFound, "first", nil),
		} {
			e.Message = "password=hunter2"
			if got := show(e); strings.Contains(got, "hunter2") || !strings.Contains(got, "password=[redacted]") {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}

// TestRedactedLeavesTheErrorAsItIs: several calls may share one.
func TestRedactedLeavesTheErrorAsItIs(t *testing.T) {
	t.Parallel()
	shared := New(Unavailable, Message("password=hunter2"))
	if done := shared.Redacted(); done == shared || done.Redacted() != done || shared.safe != (redaction{}) || done.Message != shared.Message {
		t.Errorf("%+v became %+v", shared, done)
	}
	if (*Error)(nil).Redacted() != nil {
		t.Error("nil became an error")
	}
}
