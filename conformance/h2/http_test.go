// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// httpCase is one or more requests on one connection, which a client replaces once it has got GOAWAY.
type httpCase struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	// The body: Prefix, Size times "a", and Suffix. With Pieces it has no content-length, and comes in so many with a
	// pause between them. With Stall it does not end before the response has.
	Prefix  string `json:"prefix"`
	Size    int    `json:"size"`
	Suffix  string `json:"suffix"`
	Pieces  int    `json:"pieces"`
	PauseMS int    `json:"pause_ms"`
	Stall   bool   `json:"stall"`
	// Window is the window of streams that the client announces; 0 for its default.
	Window int `json:"window"`
	// Times is how many requests are sent, one after the other.
	Times int `json:"times"`

	// goesAway: GOAWAY comes before the last response.
	goesAway bool
	// want is the status of each response, wantBytes the least that they have together.
	want      int
	wantBytes int
}

const (
	// large does not fit into a window of the sidecar.
	large = 3 << 20
	// echoed is the size of a payload in base64 that lab.echo returns.
	echoed = 1 << 20
)

func (c httpCase) with(change func(*httpCase)) httpCase {
	change(&c)
	return c
}

// call is a call of lab.echo over JSON-RPC, with a payload.
func call(url string, size int) httpCase {
	return httpCase{
		URL: url + "/rpc", Method: http.MethodPost, Headers: map[string]string{"content-type": "application/json", "authorization": "Bearer " + token},
		Prefix: `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n","payload":"`,
		Size:   size, Suffix: `"}}}`, want: http.StatusOK, wantBytes: size,
	}
}

// refused is a request with a large body that is refused before the body has come.
func refused(name, url string, status int, headers ...string) httpCase {
	h := map[string]string{"content-type": "application/json", "authorization": "Bearer " + token}
	for i := 0; i < len(headers); i += 2 {
		if h[headers[i]] = headers[i+1]; headers[i+1] == "" {
			delete(h, headers[i])
		}
	}
	return httpCase{Name: name, URL: url, Method: http.MethodPost, Headers: h, Size: large, want: status, wantBytes: 1}
}

// slowly has the body come in pieces.
func slowly(c httpCase) httpCase {
	return c.with(func(c *httpCase) { c.Name, c.Pieces, c.PauseMS = c.Name+", slow body", 6, 150 })
}

// httpCases are the cases on a sidecar with tokens and limits, and on one that ends connections early.
func httpCases(tr transport, main, aged *sidecar.Server) []httpCase {
	url, other := tr.scheme+"://"+main.Addr(), tr.scheme+"://"+aged.Addr()
	unauthenticated := refused("401", url+"/mcp", 401, "authorization", "")
	foreign := refused("403 of a foreign origin", url+"/mcp", 403, "origin", "https://foreign.example")
	unknown := refused("404", url+"/nothing", 404)
	kind := refused("415", url+"/rpc", 415, "content-type", "text/plain")
	return []httpCase{
		unauthenticated, slowly(unauthenticated), foreign, slowly(foreign), unknown, slowly(unknown), kind, slowly(kind),
		refused("404 of the admin listener", main.AdminURL("/nothing"), 404),
		refused("405", url+"/rpc", 405).with(func(c *httpCase) { c.Method = http.MethodPut }),
		refused("413", url+"/rpc", 413).with(func(c *httpCase) { c.Size = 2 * large }),
		refused("413 without a length", url+"/rpc", 413).with(func(c *httpCase) { c.Size, c.Pieces = 2*large, 2 }),
		refused("a body that does not end", url+"/rpc", 400).with(func(c *httpCase) { c.Size, c.Stall = 1000, true }),
		call(url, 10).with(func(c *httpCase) { c.Name = "a small call" }),
		call(url, echoed).with(func(c *httpCase) { c.Name = "a large call" }),
		slowly(call(url, echoed).with(func(c *httpCase) { c.Name = "a large call" })),
		call(url, echoed).with(func(c *httpCase) { c.Name, c.Window = "a large call into small windows", 2047 }),
		refused("a body that is too slow", url+"/rpc", 400).with(func(c *httpCase) { c.Size, c.Pieces, c.PauseMS = 1000, 20, 250 }),
		call(other, echoed).with(func(c *httpCase) { c.Name, c.want, c.wantBytes = "429", http.StatusTooManyRequests, 1 }),
		{
			Name: "GOAWAY after three requests", URL: other + "/rpc", Method: http.MethodPost, Headers: map[string]string{"content-type": "application/json"},
			Prefix: `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`, Times: 10, goesAway: true, want: http.StatusOK, wantBytes: 10,
		},
	}
}

// check compares what a client saw with what a case wants.
func (c httpCase) check(t *testing.T, got outcome, ran bool) {
	t.Helper()
	switch {
	case !ran:
		t.Errorf("%s: not run", c.Name)
	case got.Error != "" || len(got.Statuses) != max(c.Times, 1) || got.Bytes < c.wantBytes ||
		slices.ContainsFunc(got.Statuses, func(status int) bool { return status != c.want }):
		t.Errorf("%s: statuses %v with %d bytes, error %q; want %d with %d bytes", c.Name, got.Statuses, got.Bytes, got.Error, c.want, c.wantBytes)
	}
}

// checkAll runs the cases that a client can ask for.
func (h httpClient) checkAll(t *testing.T, tr transport, cases []httpCase) {
	t.Helper()
	can := slices.DeleteFunc(slices.Clone(cases), func(c httpCase) bool {
		return h.cannot(c) || tr.tls != nil && strings.HasPrefix(c.URL, "http:") // of the admin listener
	})
	got := h.run(t, tr.ca(), can)
	for _, c := range can {
		one, ran := got[c.Name]
		c.check(t, one, ran)
	}
}

// TestHTTPClients: what a client is answered, it sees: refusals that do not wait for the body, large and slow bodies,
// small windows, and connections that end.
func TestHTTPClients(t *testing.T) {
	t.Parallel()
	needsPeers(t)
	for _, tr := range transports(t) {
		main := tr.serve(t, "--tokens", tokensFile(t), "--max-message-bytes", "4MiB", "--body-timeout", "2s")
		aged := tr.serve(t, "--max-connection-requests", "3", "--tool-rate", "0.001")
		goClient(t, tr.ca(), []httpCase{call(tr.scheme+"://"+aged.Addr(), 0)}) // all that the rate admits
		cases := httpCases(tr, main, aged)
		for name, client := range httpClients() {
			t.Run(name+", "+tr.name, func(t *testing.T) {
				t.Parallel()
				client.checkAll(t, tr, cases)
			})
		}
	}
}
