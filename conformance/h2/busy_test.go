// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestBusySidecars: a sidecar whose queue is full, and one that drains, refuse requests before their bodies have come.
func TestBusySidecars(t *testing.T) {
	t.Parallel()
	needsPeers(t)
	for _, tr := range transports(t) {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			server := tr.serve(t, "--max-calls", "1", "--max-queued", "1", "--queue-wait", "60s", "--grace", "2m", "--caller-share", "100")
			url := tr.scheme + "://" + server.Addr()
			release := occupy(t, tr, url)
			defer release()
			await(t, tr, call(url, 0).with(func(c *httpCase) { c.Name, c.want = "full", http.StatusServiceUnavailable }))
			busy := refused("503 of a full queue", url+"/rpc", http.StatusServiceUnavailable)
			everyClient(t, tr, busy, slowly(busy))

			if code, err := post(t.Context(), http.DefaultClient, server.AdminURL("/drain"), ""); err != nil || code >= http.StatusBadRequest {
				t.Fatalf("POST /drain: %d, %v", code, err)
			}
			server.Log(t, "that it drains", func(e sidecar.Entry) bool { return e.Message == "lifecycle" && e.Fields["to"] == "draining" })
			draining := refused("503 of a drain", url+"/rpc", http.StatusServiceUnavailable).with(func(c *httpCase) { c.goesAway = true })
			everyClient(t, tr, draining, slowly(draining))
		})
	}
}

// everyClient runs cases with each client, all at once.
func everyClient(t *testing.T, tr transport, cases ...httpCase) {
	t.Helper()
	var running sync.WaitGroup
	for _, client := range httpClients() {
		running.Go(func() { client.checkAll(t, tr, cases) })
	}
	running.Wait()
}

// occupy has one call run, and one wait for it, until release is called.
func occupy(t *testing.T, tr transport, url string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: goTransport(tr.ca(), httpCase{})}
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for ctx.Err() == nil { // it may have waited for too long
				_, _ = post(ctx, client, url+"/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"300s"}}}`)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
		client.CloseIdleConnections()
	}
}

// await repeats a request until its status is the one that is wanted.
func await(t *testing.T, tr transport, c httpCase) {
	t.Helper()
	client := &http.Client{Transport: goTransport(tr.ca(), c), Timeout: testkit.Limit() / 20} // a request that is queued waits
	defer client.CloseIdleConnections()
	testkit.Try(t, c.Name, func() error {
		if status, _, _ := ask(t, client, c); status != c.want {
			return fmt.Errorf("status %d, want %d", status, c.want)
		}
		return nil
	})
}

var h2loadCounts = regexp.MustCompile(`requests: \d+ total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout\s+status codes: (\d+) 2xx, \d+ 3xx, (\d+) 4xx`)

// TestH2Load: many requests at once on few connections, with large and small windows, are all answered.
func TestH2Load(t *testing.T) {
	t.Parallel()
	needsPeers(t)
	for _, tr := range transports(t) {
		server := tr.serve(t, "--tokens", tokensFile(t))
		url := tr.scheme + "://" + server.Addr()
		for name, row := range map[string]struct {
			c        httpCase
			requests int
			args     string
			// want is succeeded, failed, errored, timeout, 2xx, 4xx.
			want string
		}{
			"small calls":                    {call(url, 0), 2000, "-c 4 -m 50", "2000 0 0 0 2000 0"},
			"large calls into small windows": {call(url, 64<<10), 200, "-c 4 -m 10 -w 11 -W 12", "200 0 0 0 200 0"},
			"refused with large bodies":      {refused("", url+"/mcp", 401, "authorization", "").with(func(c *httpCase) { c.Size = 200 << 10 }), 400, "-c 4 -m 10", "0 400 0 0 0 400"},
		} {
			t.Run(name+", "+tr.name, func(t *testing.T) {
				t.Parallel()
				args := append(strings.Fields(row.args), "-n", fmt.Sprint(row.requests), "-d", bodyFile(t, row.c), "-H", "accept-encoding: identity")
				for name, value := range row.c.Headers {
					args = append(args, "-H", name+": "+value)
				}
				out, failure := command(t, nil, "h2load", append(args, row.c.URL)...)
				counts := h2loadCounts.FindStringSubmatch(out)
				if failure != "" || counts == nil || strings.Join(counts[1:], " ") != row.want {
					t.Errorf("%s%v: %v, want %s\n%s", failure, args, counts, row.want, out)
				}
			})
		}
	}
}
