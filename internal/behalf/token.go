// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

// masked replaces a token in every text form.
const masked = "[redacted]"

// token is the access token of a caller while its request runs. Only an Exchanger reads
// it. It formats as a mask in every way.
type token struct {
	text atomic.Pointer[string]
	// ended is closed with the request, a moment before the text is dropped on another
	// goroutine.
	ended <-chan struct{}
}

// tokenKey is the context key of the caller's token.
type tokenKey struct{}

// WithToken returns a context that carries the caller's access token for an [Exchanger].
// The token is dropped when ctx ends, which is when the request does: tasks and other
// work that outlives the request cannot use it and do not keep it.
func WithToken(ctx context.Context, text string) context.Context {
	t := &token{ended: ctx.Done()}
	t.text.Store(&text)
	context.AfterFunc(ctx, t.forget)
	return context.WithValue(ctx, tokenKey{}, t)
}

// tokenFrom returns the caller's token, or "" if there is none or the request has ended.
func tokenFrom(ctx context.Context) string {
	t, _ := ctx.Value(tokenKey{}).(*token)
	if t == nil {
		return ""
	}
	select {
	case <-t.ended:
		return ""
	default:
	}
	if text := t.text.Load(); text != nil {
		return *text
	}
	return ""
}

func (t *token) forget() { t.text.Store(nil) }

// String returns a mask.
func (*token) String() string { return masked }

// GoString returns a mask for %#v.
func (*token) GoString() string { return masked }

// Format writes a mask for every verb.
func (*token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// MarshalJSON returns a mask.
func (*token) MarshalJSON() ([]byte, error) { return []byte(`"` + masked + `"`), nil }

// MarshalText returns a mask.
func (*token) MarshalText() ([]byte, error) { return []byte(masked), nil }
