// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestAHeaderOfTheProtocolThatIsRefusedIsNamed, on calls of every protocol and on streams.
func TestAHeaderOfTheProtocolThatIsRefusedIsNamed(t *testing.T) {
	t.Parallel()
	service := echoing(t)
	url := mcptest.Serve(t, service.Root(service.PassThrough(service.NotFound())))
	frame := []byte{0, 0, 0, 0, 0}
	for _, tc := range []struct{ path, contentType, header, value, beside, taken string }{
		{callPath, "application/grpc", "Grpc-Timeout", "5x", "", ""},
		{callPath, "application/grpc", "Grpc-Timeout", "123456789n", "", ""},
		{callPath, "application/grpc", "Grpc-Timeout", "S", "", ""},
		{callPath, "application/grpc-web", "Grpc-Timeout", "-1S", "", ""},
		{"/outrigger.demo.v1.Lab/Echo", "application/grpc", "Grpc-Timeout", "5x", "", ""},
		{"/outrigger.demo.v1.Lab/Relay", "application/grpc", "Grpc-Timeout", "soon", "", ""},
		{callPath, "application/json", "Connect-Timeout-Ms", "soon", "", ""},
		{callPath, "application/json", "Connect-Protocol-Version", "2", "", ""},
		{"/outrigger.demo.v1.Lab/Relay", "application/connect+proto", "Connect-Timeout-Ms", "12345678901", "", ""},
		// What the library takes is not named.
		{callPath, "application/json", "Connect-Protocol-Version", "2", "Connect-Timeout-Ms", "9999999999"},
		{callPath, "application/json", "Connect-Protocol-Version", "2", "Connect-Timeout-Ms", "0"},
		{callPath, "application/json", "Connect-Protocol-Version", "2", "Grpc-Timeout", "99999999H"},
		{callPath, "application/json", "Connect-Protocol-Version", "2", "Grpc-Timeout", "0n"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+tc.path, bytes.NewReader(frame))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", tc.contentType)
		r.Header.Set(tc.header, tc.value)
		if tc.beside != "" {
			r.Header.Set(tc.beside, tc.taken)
		}
		res, err := mcptest.Client(t, 2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		told := string(raw) + res.Header.Get("Grpc-Message") + res.Trailer.Get("Grpc-Message")
		if err != nil || !strings.Contains(told, "the header "+tc.header+" is ") || !strings.Contains(told, tc.value) {
			t.Errorf("%s, %s %s: %v, %d %q", tc.contentType, tc.header, tc.value, err, res.StatusCode, told)
		}
	}
}

// TestAUnaryResponseOfGRPCLeavesInOnePiece: its message is not flushed before its trailers are there, except over HTTP/1.1,
// where they would be lost.
func TestAUnaryResponseOfGRPCLeavesInOnePiece(t *testing.T) {
	t.Parallel()
	service := echoing(t)
	handler := service.Root(service.PassThrough(service.NotFound()))
	for _, version := range []int{1, 2} {
		for path, message := range map[string][]byte{callPath: marshal(t, toolCall("lab.echo", "{}")), echoPath: nil} {
			r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(prefixed(0, message)))
			r.Header.Set("Content-Type", "application/grpc")
			r.ProtoMajor = version
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if status := w.Result().Trailer.Get("Grpc-Status"); status != "0" || w.Flushed == (version == 2) {
				t.Errorf("%s, HTTP/%d: status %q, flushed %t", path, version, status, w.Flushed)
			}
		}
	}
}
