// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// buffered keeps 4 KiB, as HTTP/2 servers do, before it waits for its reader.
type buffered struct {
	*stalling

	kept int
}

func (b *buffered) Write(p []byte) (int, error) {
	if b.kept+len(p) <= 4<<10 {
		b.kept += len(p)
		return len(p), nil
	}
	return b.stalling.Write(p)
}

// A long answer in small pieces, whatever their size, ends too when no one reads it: the write that waits may be any of them.
func TestSmallPiecesEndToo(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 7, 100, 1000, 1500, 2047, 2048, 4096} {
		synctest.Test(t, func(t *testing.T) {
			b := peer.NewBudget(peer.BudgetOptions{Timeout: 30 * time.Second})
			done := make(chan error, 1)
			h := b.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				var err error
				for sent := 0; err == nil && sent < 16<<10; sent += size {
					_, err = w.Write(make([]byte, size))
				}
				done <- err
			}), func(remote string) string { return remote })
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.ProtoMajor = 2
			w := &buffered{stalling: newStalling(0)}
			go h.ServeHTTP(w, r)
			select {
			case err := <-done:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("pieces of %d bytes: %v", size, err)
				}
			case <-time.After(time.Hour):
				t.Errorf("pieces of %d bytes: the answer does not end", size)
				_ = w.SetWriteDeadline(time.Unix(1, 0))
				<-done
			}
			synctest.Wait()
		})
	}
}
