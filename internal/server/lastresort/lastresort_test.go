// SPDX-License-Identifier: Apache-2.0

package lastresort

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

func TestLastResort(t *testing.T) {
	t.Parallel()
	const grace = 3 * time.Second
	for name, tt := range map[string]struct {
		blocked, late, ends bool
		want                time.Duration // 0 for never
	}{
		"the process ends":             {ends: true},
		"it does not end":              {want: grace + lastResortAfter - dumpTime},
		"unread standard error":        {blocked: true, want: grace + lastResortAfter},
		"the grace period comes later": {late: true, want: grace + lastResortAfter - dumpTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var ended atomic.Int64
				text := &lockedBuffer{}
				var stderr io.Writer = text
				if tt.blocked {
					unread, pipe := io.Pipe()
					defer unread.Close()
					stderr = pipe
				}
				r := New(stderr, func(code int) {
					if ended.Store(int64(time.Since(start))); code != 1 {
						t.Errorf("exit code %d", code)
					}
				})
				if tt.late {
					r.Begin()
					time.Sleep(time.Second)
				}
				r.mu.Lock()
				r.grace = grace
				r.mu.Unlock()
				if tt.late {
					r.Configure(grace, zap.NewNop())
				}
				r.Begin()
				if tt.ends {
					time.Sleep(grace)
					r.Disarm()
				}
				time.Sleep(time.Minute)
				if got := time.Duration(ended.Load()); got != tt.want {
					t.Errorf("it ended after %v, want %v", got, tt.want)
				}
				if tt.want > 0 && !tt.blocked && !tt.late && !strings.Contains(text.String(), "TestLastResort") {
					t.Errorf("no stacks: %s", text.String())
				}
				r.Begin() // has no effect
			})
		})
	}
}

// lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestStacksAreBounded(t *testing.T) {
	t.Parallel()
	b := &boundedText{left: 10}
	if n, err := b.Write([]byte("0123456")); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := b.Write([]byte("789ab")); n != 3 || err == nil || b.text.String() != "0123456789" {
		t.Errorf("%d, %v: %q", n, err, b.text.String())
	}
	if n := len(stacks()); n == 0 || n > maxStacks {
		t.Errorf("%d bytes of stacks", n)
	}
}
