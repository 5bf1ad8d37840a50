// SPDX-License-Identifier: Apache-2.0

package httpbody_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
)

// deadlines is a recorder that takes deadlines, as the writers of net/http do.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetReadDeadline(time.Time) error { return nil }

// TestDate: a response has the date of the second in which it begins, in UTC, and a handler's own stays.
func TestDate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own := ""
		h := httpbody.Timeout(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(1500 * time.Millisecond)
			if own != "" {
				w.Header().Set("Date", own)
			}
			w.WriteHeader(http.StatusAccepted)
			w.Header().Set("Date", "too late, and of this response only")
		}), time.Minute, func(*http.Request) bool { return false }, nil)
		date := func() []string {
			w := deadlines{httptest.NewRecorder()}
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}")))
			return w.Result().Header["Date"]
		}
		for range 3 {
			if got, want := date(), time.Now().UTC().Format(http.TimeFormat); len(got) != 1 || got[0] != want {
				t.Errorf("%q, want %s", got, want)
			}
		}
		own = "Thu, 01 Jan 1970 00:00:00 GMT"
		if got := date(); len(got) != 1 || got[0] != own {
			t.Errorf("%q, want that of the handler", got)
		}
	})
}
