// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// FuzzNoRequestIsAFaultOfTheServer: the only tool echoes, so that whatever a caller sends is the caller's fault or none. Each
// edge answers, and with no status that says otherwise.
func FuzzNoRequestIsAFaultOfTheServer(f *testing.F) {
	for _, one := range slices.Concat(jsonRefusals(), rpcRefusals()) {
		f.Add(one.path, strings.Join(one.headers, "\n"), one.body, one.version == 2, one.get)
	}
	for _, one := range []struct{ path, headers, body string }{
		{"/rpc", "Content-Type\n" + asJSON, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"a"}}}`},
		{"/mcp", "Content-Type\n" + asJSON, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`},
		{typedEcho, "Content-Type\n" + asJSON, `{"nonce":"a"}`},
		{callAPI, "Content-Type\n" + asJSON, `{"name":"lab.echo","argumentsJson":"e30="}`},
	} {
		f.Add(one.path, one.headers, one.body, false, false)
	}
	rig := mcptest.Start(f, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Catalog.Include = []string{"outrigger.demo.v1.Lab/Echo"}
		c.Limits.MaxMessageBytes = proto.Int64(4096)
	}})
	url := rig.Serve(f)
	clients := map[bool]*http.Client{false: mcptest.Client(f, 1), true: mcptest.Client(f, 2)}
	f.Fuzz(func(t *testing.T, path, headers, body string, isTwo, get bool) {
		method, text := http.MethodPost, io.Reader(strings.NewReader(body))
		if get {
			method, text = http.MethodGet, nil
		}
		// A stream may stay open; what it has said by then counts.
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer stop()
		r, err := http.NewRequestWithContext(ctx, method, url+"/"+strings.TrimPrefix(path, "/"), text)
		if err != nil {
			return // no client could send it
		}
		r.Header.Set("Accept", "application/json, text/event-stream")
		for pair := range slices.Chunk(strings.Split(headers, "\n"), 2) {
			if len(pair) == 2 {
				r.Header.Set(pair[0], pair[1])
			}
		}
		resp, err := clients[isTwo].Do(r)
		if err != nil {
			return // the client refuses it, or the time is over
		}
		defer func() { _ = resp.Body.Close() }()
		var all bytes.Buffer
		_, _ = all.ReadFrom(resp.Body)
		said := all.String()
		status := resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status")
		if _, trailers, ok := strings.Cut(strings.ToLower(said), "grpc-status: "); ok && status == "" { // of gRPC-Web
			status, _, _ = strings.Cut(trailers, "\r")
		}
		switch {
		case resp.StatusCode == http.StatusNotImplemented && strings.Contains(said, `"unimplemented"`): // Connect's form of an unknown method or compression
		case resp.StatusCode == http.StatusGatewayTimeout && strings.Contains(said, "DEADLINE_EXCEEDED"): // the caller's deadline
		case resp.StatusCode >= http.StatusInternalServerError, status == "2", status == "13", status == "15",
			strings.Contains(said, `"code":-32603`), strings.Contains(said, `"code":"internal"`), strings.Contains(said, `"code":"unknown"`):
			t.Errorf("%s %q\n%q\n%q\nhas %d, status %q, %s", method, path, headers, body, resp.StatusCode, status, said)
		}
	})
}
