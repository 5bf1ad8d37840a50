// SPDX-License-Identifier: Apache-2.0

package corpus_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/offer"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// manyTools is the least number of tools that the benchmarks are about.
const manyTools = 1000

// BenchmarkCatalog builds a catalog of 1,000 methods of public APIs, whose messages are as large as they get, and lists its
// tools, in each profile. It reports what the catalog holds in memory for each tool, and its part of a list.
func BenchmarkCatalog(b *testing.B) {
	path, s := publicMethods(b)
	for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
		build := func(b *testing.B) *catalog.Catalog {
			b.Helper()
			loaded, err := source.NewDescriptorFile(path, source.Limits{}).Load(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			c, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{Overlay: s.overlay(), Profile: profile})
			if err != nil {
				b.Fatal(err)
			}
			return c
		}
		b.Run("build/"+profile.String(), func(b *testing.B) {
			var c *catalog.Catalog
			b.ReportAllocs()
			for b.Loop() {
				c = build(b)
			}
			tools := float64(len(c.Tools()))
			b.ReportMetric(tools, "tools")
			b.ReportMetric(float64(held(&c))/tools, "heap-B/tool")
		})
		built := build(b)
		for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
			b.Run(fmt.Sprintf("list/%s/%s", profile, d), func(b *testing.B) { list(b, built, d) })
		}
	}
}

// list asks for all tools, over and over.
func list(b *testing.B, c *catalog.Catalog, d dialect.Dialect) {
	b.Helper()
	pipeline := bridge.New(one{c}, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{})
	sidecar := dialect.New(pipeline, dialect.Options{Offers: offer.New(pipeline, offer.Options{PageSize: 10_000})})
	origin := sidecar.Flights().NewOrigin()
	profile := jsonrpc.ProfileMCP
	if d == dialect.Canonical {
		profile = jsonrpc.ProfileCanonical
	}
	request := []byte(`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		msg := jsonrpc.Parse(request, profile, jsonrpc.Limits{})
		reply := sidecar.HandleMessage(context.Background(), &dialect.Inbound{Dialect: d, Origin: origin, Message: &msg, Transport: "bench", Route: "bench"})
		if reply.Status != http.StatusOK || reply.Len() < 100_000 {
			b.Fatalf("%d %.300s", reply.Status, reply.Bytes())
		}
		size = reply.Len()
	}
	b.ReportMetric(float64(size)/float64(len(c.Tools())), "list-B/tool")
}

// one is a catalog that never changes.
type one struct{ catalog *catalog.Catalog }

func (o one) Current() *catalog.Catalog                      { return o.catalog }
func (o one) Wait(context.Context) (*catalog.Catalog, error) { return o.catalog, nil }

// publicMethods writes a descriptor set with the files of Google's APIs until they have enough methods.
func publicMethods(b *testing.B) (string, *fileSet) {
	b.Helper()
	s := &fileSet{seen: map[string]bool{}}
	sources.Linked().Files.RangeFilesByPackage("google.cloud.dialogflow.cx.v3", func(fd protoreflect.FileDescriptor) bool {
		s.add(b, fd)
		return true
	})
	for _, pkg := range []protoreflect.FullName{
		"google.cloud.dialogflow.v2", "google.cloud.retail.v2", "google.cloud.documentai.v1", "google.cloud.osconfig.v1", "google.cloud.asset.v1",
		"google.cloud.securitycenter.v2", "google.cloud.talent.v4", "google.cloud.datacatalog.v1", "google.cloud.contactcenterinsights.v1",
		"google.container.v1", "google.cloud.compute.v1", "google.cloud.aiplatform.v1",
	} {
		sources.Linked().Files.RangeFilesByPackage(pkg, func(fd protoreflect.FileDescriptor) bool {
			if len(s.methods) < manyTools {
				s.add(b, fd)
			}
			return true
		})
	}
	if len(s.methods) < manyTools {
		b.Fatalf("%d methods, of at least %d", len(s.methods), manyTools)
	}
	path := filepath.Join(b.TempDir(), "set.binpb")
	if err := os.WriteFile(path, s.raw, 0o600); err != nil {
		b.Fatal(err)
	}
	return path, s
}

// held lets go of a catalog and says what it held.
func held(c **catalog.Catalog) int64 {
	with := heap()
	*c = nil
	return with - heap()
}

// heap is the bytes of what is reachable.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
