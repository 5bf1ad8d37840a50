// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protodesc"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// documents measures the checks of single documents.
func documents(ctx context.Context) ([]Row, error) {
	envelope := []byte(`{"jsonrpc":"2.0","id":"call_0190","method":"tools/call","params":{"name":"area0.get_thing0","arguments":{"field_0":"` +
		strings.Repeat("x", 4096) + `"}}}`)
	validate, err := perRun(func() error {
		_, err := contracttest.ValidateMessageEnvelope(envelope)
		return err
	})
	if err != nil {
		return nil, err
	}
	live, err := load(ctx, 10, 5)
	if err != nil {
		return nil, err
	}
	schemas := live.Current()
	one, err := perRun(func() error {
		_, err := schemas.LoadToolIO("area3.get_thing2")
		return err
	})
	return []Row{
		below("validation of an envelope of 4 KB", time.Millisecond, validate),
		below("one tool's schemas, compiled", time.Millisecond, one),
	}, err
}

// load builds a catalog of n services with that many methods each.
func load(ctx context.Context, n, methods int) (*catalog.Live, error) {
	set, names := services(n, methods)
	live := catalog.NewLive([]source.Source{source.NewDescriptors("bench", set, names...)}, catalog.LiveOptions{})
	return live, live.Refresh(ctx)
}

// Registrations that are measured, and listings each right after one of them.
const (
	registrations = 100
	changes       = 100
)

// catalogs measures listing and registration over 1,000 tools. Every
// registration has its own schema, so that nothing is there before.
func catalogs(ctx context.Context) ([]Row, error) {
	live, err := load(ctx, 200, 5)
	if err != nil {
		return nil, err
	}
	b := dialect.New(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	message := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`), jsonrpc.ProfileCanonical, jsonrpc.Limits{})
	list := func() error {
		in := &dialect.Inbound{Message: &message, Origin: b.Flights().NewOrigin()}
		if reply := b.HandleMessage(ctx, in); reply.Status != http.StatusOK {
			return fmt.Errorf("tools/list: status %d", reply.Status)
		}
		return nil
	}
	listing, err := perRun(list)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	for i := range registrations {
		if err := register(ctx, live, i); err != nil {
			return nil, err
		}
	}
	registering := time.Since(start) / registrations
	changed := make([]time.Duration, 0, changes)
	for i := range changes {
		if err := register(ctx, live, registrations+i); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := list(); err != nil {
			return nil, err
		}
		changed = append(changed, time.Since(start))
	}
	return []Row{
		below("registration of a tool beside 1,000 others", time.Millisecond, registering),
		below("list of 1,000 tools", 5*time.Millisecond, listing),
		below("list of 1,000 tools and more, the first after one was registered, median", 5*time.Millisecond, median(changed)),
	}, nil
}

// register registers the tool of a number.
func register(ctx context.Context, live *catalog.Live, n int) error {
	placed, err := live.Put(ctx, catalog.Registration{
		Name: fmt.Sprintf("bench.registered_%d", n), Description: "Get a thing by another name.",
		InputSchema: fmt.Appendf(nil, `{"type":"object","properties":{"field_0":{"type":"string","maxLength":%d}},"additionalProperties":false}`, n+1),
		Binding:     catalog.Binding{Service: "bench.v1.Area7", Method: "GetThing3"},
	})
	if err == nil && !placed.Created {
		err = errors.New("it was there before")
	}
	if err != nil {
		return fmt.Errorf("register tool %d: %w", n, err)
	}
	return nil
}

// discoveries are made on fresh connections; the median counts.
const discoveries = 5

// discovery measures the whole way from a backend's reflection to a catalog,
// over a real connection.
func discovery(ctx context.Context) ([]Row, error) {
	set, names := services(200, 5)
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	reflector := grpcreflect.NewReflector(grpcreflect.NamerFunc(func() []string { return names }), grpcreflect.WithDescriptorResolver(files))
	mux := http.NewServeMux()
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	target, err := backend.ParseTarget("grpc" + strings.TrimPrefix(server.URL, "http"))
	if err != nil {
		return nil, err
	}
	times := make([]time.Duration, discoveries)
	for i := range times {
		if times[i], err = discover(ctx, target); err != nil {
			return nil, err
		}
	}
	return []Row{below("discovery of 200 services with 1,000 tools, by reflection, median", 2*time.Second, median(times))}, nil
}

func discover(ctx context.Context, target backend.Target) (time.Duration, error) {
	client, err := backend.New(target, backend.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Close() }()
	live := catalog.NewLive([]source.Source{backend.NewReflectionSource(client, source.ReflectionOptions{})}, catalog.LiveOptions{})
	start := time.Now()
	if err := live.Refresh(ctx); err != nil {
		return 0, err
	}
	took := time.Since(start)
	if got := len(live.Current().Tools()); got != 1000 {
		return 0, fmt.Errorf("%d tools, want 1000", got)
	}
	return took, nil
}
