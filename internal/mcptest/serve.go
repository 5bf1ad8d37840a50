// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Serve listens on loopback for a handler, with HTTP/1.1 and h2c as the sidecar
// has them, and returns the URL. It ends with the test.
func Serve(t testing.TB, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = protocols(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// Client returns an HTTP client of one protocol version, 1 or 2, with
// its own connections, which end with the test.
func Client(t testing.TB, version int) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: protocols(version == 1)}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// protocols are h2c, and HTTP/1.1 where it is asked for. A client that knows
// both would never choose the former.
func protocols(one bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(one)
	p.SetUnencryptedHTTP2(true)
	return p
}
