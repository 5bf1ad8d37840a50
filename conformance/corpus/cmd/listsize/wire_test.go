// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// listing is a sidecar with the tools of Temporal's API, on its own listener.
func listing(b *testing.B) (url string) {
	b.Helper()
	set, _, err := sources.Registered(apis()[0].packages...)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := proto.Marshal(set)
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "api.binpb")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		b.Fatal(err)
	}
	app := mcptest.Start(b, mcptest.Options{Behind: "grpc://127.0.0.1:1", Configure: func(c *configv1.Config) {
		c.Catalog.Descriptors, c.Catalog.Native, c.Catalog.Include = []string{file}, new("off"), []string{"temporal.api.*"}
		c.Listeners.Listen = proto.String("127.0.0.1:0") // what is off shares a value
	}}).App()
	if err := app.Listen(context.Background()); err != nil {
		b.Fatal(err)
	}
	return "http://" + app.Sockets()[0].Addr().String() + "/mcp"
}

// decoders read responses as clients do.
type decoders struct {
	gzip gzip.Reader
	zstd *zstd.Decoder
}

// read reads a response to its end, and counts what came and what it represents.
func (d *decoders) read(encoding string, from io.Reader) (wire, plain int64, err error) {
	counted := &counter{Reader: from}
	var in io.Reader = counted
	switch encoding {
	case "gzip":
		err, in = d.gzip.Reset(counted), &d.gzip
	case "zstd":
		err, in = d.zstd.Reset(counted), d.zstd
	}
	if err != nil {
		return 0, 0, err
	}
	plain, err = io.Copy(io.Discard, in)
	return counted.n, plain, err
}

type counter struct {
	io.Reader

	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// BenchmarkListOverTheWire asks for the list of Temporal's API over loopback, in each encoding in turn, and decodes it. One run
// has all of them, so that their ratios do not depend on what else the machine does.
func BenchmarkListOverTheWire(b *testing.B) {
	url := listing(b)
	transport := &http.Transport{DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(reader.Close)
	known := &decoders{zstd: reader}
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	encodings := [...]string{"identity", "gzip", "zstd"}
	var took [3]time.Duration
	var bytes [3]int64
	ask := func(i int) {
		began := time.Now()
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Accept-Encoding": {encodings[i]},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"},
		}
		res, err := client.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		encoding := res.Header.Get("Content-Encoding")
		wire, plain, err := known.read(encoding, res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || encoding != strings.TrimPrefix(encodings[i], "identity") || plain < 400_000 {
			b.Fatalf("%d, encoded as %q, %d bytes, %v", res.StatusCode, encoding, plain, err)
		}
		took[i] += time.Since(began)
		bytes[i] += wire
	}
	for i := range encodings {
		ask(i) // the first list is made
	}
	took, bytes = [3]time.Duration{}, [3]int64{}
	for b.Loop() {
		for i := range encodings {
			ask(i)
		}
	}
	for i, encoding := range encodings {
		b.ReportMetric(float64(bytes[i])/float64(b.N), encoding+"-B")
		b.ReportMetric(float64(took[i].Microseconds())/1e3/float64(b.N), encoding+"-ms")
		if i > 0 {
			b.ReportMetric(float64(bytes[i])/float64(bytes[0]), encoding+"-B/identity")
			b.ReportMetric(float64(took[i])/float64(took[0]), encoding+"-ms/identity")
		}
	}
}
