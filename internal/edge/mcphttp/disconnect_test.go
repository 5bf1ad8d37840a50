// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// watched is a backend that says how its one call ended.
type watched struct {
	bridge.NoBackend // for what it does not watch
	entered, release chan struct{}
	ended            chan error
}

// Call implements bridge.Upstream.
func (w *watched) Call(ctx context.Context, _ *catalog.Method, in []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	close(w.entered)
	select {
	case <-w.release:
		w.ended <- ctx.Err()
		return &bridge.Answer{Body: bytes.Clone(in)}, nil
	case <-ctx.Done():
		w.ended <- ctx.Err()
		return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
	}
}

// In this the eras are opposites: the end of the connection cancels a modern
// call, and a legacy one goes on.
func TestTheEndOfTheConnection(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		body    string
		headers []string
		cancels bool
	}{
		{"modern", request("tools/call", `"name":"lab_echo",`+meta), modern("tools/call", "Mcp-Name: lab_echo"), true},
		{"legacy", request("tools/call", `"name":"lab_echo"`), nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backend := &watched{entered: make(chan struct{}), release: make(chan struct{}), ended: make(chan error, 1)}
			b := dialect.New(bridge.New(mcptest.Memory(t), backend, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
			served, gone := make(chan struct{}), make(chan struct{})
			edge := mcphttp.New(b, mcphttp.Options{})
			url := mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(served)
				context.AfterFunc(r.Context(), func() { close(gone) })
				edge.ServeHTTP(w, r)
			}))
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			for _, h := range tc.headers {
				name, value, _ := strings.Cut(h, ": ")
				req.Header.Set(name, value)
			}
			client := mcptest.Client(t, 1)
			go func() {
				<-backend.entered
				hangUp()
			}()
			if _, err := client.Do(req); err == nil {
				t.Error("an answer came")
			}
			<-gone // the server has noticed
			if !tc.cancels {
				close(backend.release)
			}
			if err := <-backend.ended; (err != nil) != tc.cancels {
				t.Errorf("the call ended with %v", err)
			}
			<-served
			if n := b.Flights().InFlight(); n != 0 {
				t.Errorf("%d calls are still in flight", n)
			}
		})
	}
}
