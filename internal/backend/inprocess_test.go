// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"go.uber.org/zap"
)

// TestBothVersions asks over HTTP/1.1 and over HTTP/2, and after the end.
func TestBothVersions(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		s := backend.NewInProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }), zap.NewNop())
		protocols := new(http.Protocols)
		protocols.SetHTTP1(version == 1)
		protocols.SetUnencryptedHTTP2(version == 2)
		transport := &http.Transport{DialContext: s.Dial, Protocols: protocols}
		client := &http.Client{Transport: transport}
		res, err := client.Get("http://in-process/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		_ = res.Body.Close()
		if want := fmt.Sprintf("HTTP/%d.%d", version, 2-version); string(body) != want {
			t.Errorf("%s, want %s", body, want)
		}
		transport.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Dial(t.Context(), "tcp", "in-process:80"); err == nil {
			t.Error("a server that is closed accepts connections")
		}
	}
}
