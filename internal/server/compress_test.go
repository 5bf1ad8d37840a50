// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// listening opens the sidecar's own listener, with its own HTTP/2, and returns its URL.
func listening(t *testing.T, o mcptest.Options) string {
	t.Helper()
	configure := o.Configure
	o.Configure = func(c *configv1.Config) {
		c.Listeners.Listen = proto.String("127.0.0.1:0") // what is off shares a value
		if configure != nil {
			configure(c)
		}
	}
	app := mcptest.Start(t, o).App()
	if err := app.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	return "http://" + app.Sockets()[0].Addr().String()
}

// TestCompressionOverHTTP2 (cleartext), and over HTTP/1.1 for comparison: lists are compressed, and events are not.
func TestCompressionOverHTTP2(t *testing.T) {
	t.Parallel()
	f := &traffic{}
	url := listening(t, mcptest.Options{Behind: f.serve(t), Configure: func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Fleet/WatchVehicles", Tool: &configv1.ToolOptions{Watch: proto.Bool(true)}})
	}})
	for version := 1; version <= 2; version++ {
		client := mcptest.Client(t, version)
		for _, encoding := range []string{"identity", "gzip", "zstd"} {
			for name, list := range lists() {
				header, body := compressedAnswer(t, client, version, url, list, encoding)
				want := strings.TrimPrefix(encoding, "identity")
				if got := header.Get("Content-Encoding"); got != want || header.Get("Vary") != "Accept-Encoding" {
					t.Errorf("HTTP/%d, %s: asked for %s: %v", version, name, encoding, header)
				}
				_, plain := compressedAnswer(t, client, version, url, list, "identity")
				if got := decoded(t, want, body); !bytes.Equal(got, plain) || !bytes.Contains(got, []byte("watch_vehicles")) {
					t.Errorf("HTTP/%d, %s as %s is another list: %.300s", version, name, encoding, got)
				}
				if want != "" && len(body) > len(plain)/2 {
					t.Errorf("HTTP/%d, %s as %s: %d bytes of %d", version, name, encoding, len(body), len(plain))
				}
			}
			eventsAtOnce(t, f, client, version, url, encoding)
		}
	}
}

// compressedAnswer asks over one version of HTTP, and returns the response as it comes.
func compressedAnswer(t *testing.T, client *http.Client, version int, url string, s sent, accept string) (http.Header, []byte) {
	t.Helper()
	headers := []string{"Accept-Encoding: " + accept}
	for name := range s.header {
		headers = append(headers, name+": "+s.header.Get(name))
	}
	resp := open(t.Context(), t, client, http.MethodPost, url+s.path, s.body, headers...)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != version {
		t.Fatalf("%s %d, %v: %.300s", resp.Proto, resp.StatusCode, err, body)
	}
	return resp.Header, body
}

// eventsAtOnce subscribes to a resource: each event is read before the next change.
func eventsAtOnce(t *testing.T, f *traffic, client *http.Client, version int, url, accept string) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	body, headers := modernMessage("subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+vehicles+`"]}`)
	resp := open(ctx, t, client, http.MethodPost, url+"/mcp", body, append(headers, "Accept-Encoding: "+accept)...)
	defer func() { _ = resp.Body.Close() }()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" || resp.Header.Get("Content-Encoding") != "" || resp.ProtoMajor != version {
		t.Fatalf("%s, %v", resp.Proto, resp.Header)
	}
	stream := newLines(t, resp.Body)
	stream.next("acknowledged")
	for range 2 {
		f.move()
		stream.next("notifications/resources/updated")
	}
	leave()
	testkit.Until(t, "the backend's stream ends", func() bool { return f.isOpen() == 0 })
}
