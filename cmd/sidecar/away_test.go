// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// demoSet writes the descriptors of the example services.
func demoSet(t *testing.T) string {
	t.Helper()
	raw, err := proto.Marshal(mcptest.Descriptors(demov1.File_outrigger_demo_v1_lab_proto, demov1.File_outrigger_demo_v1_fleet_proto))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "demo.binpb")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serveAt listens on an address that is free, until stop is called.
func serveAt(t *testing.T, addr string, handler http.Handler, protocols *http.Protocols) (stop func()) {
	t.Helper()
	lis := testkit.Listen(t, addr)
	server := &http.Server{Protocols: protocols, Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) })
	return func() {
		_ = server.Close()
		serving.Wait()
	}
}

// TestABackendThatIsAway, with tools from descriptors: the process is not ready and says why, as the log does, and is
// started and live. What needs no backend works. Readiness follows the backend as it comes and goes, without calls.
func TestABackendThatIsAway(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ scheme, mode, listed string }{{"grpc", "full", "lab.echo"}, {"http", "compact", "catalog.search"}} {
		t.Run(tc.scheme+" "+tc.mode, func(t *testing.T) {
			t.Parallel()
			f := newFront(t)
			f.close()
			p := startProcess(t, "serve", "--backend", tc.scheme+"://"+f.addr, "--descriptors", demoSet(t), "--catalog-mode", tc.mode)
			readyz := func() (int, string) { return p.operate(t, http.MethodGet, "/readyz?verbose") }
			testkit.Until(t, "the reason at /readyz", func() bool {
				status, page := readyz()
				if status != http.StatusServiceUnavailable {
					t.Fatalf("/readyz is %d: %s", status, page)
				}
				return strings.Contains(page, "backend does not answer") && strings.Contains(page, "refused")
			})
			for _, probe := range []string{"/startupz", "/livez"} {
				if status, page := p.operate(t, http.MethodGet, probe); status != http.StatusOK {
					t.Errorf("%s is %d: %s", probe, status, page)
				}
			}
			if !p.lists(t, tc.listed) {
				t.Error("the tools are not listed")
			}
			requests := map[string]string{
				`"server/describe","params":{}`:                                       `"name"`,
				`"tools/get","params":{"name":"fleet.get_vehicle"}`:                   `"inputSchema"`,
				`"tools/call","params":{"name":"fleet.cancel_order","arguments":{}}`:  "DESTRUCTIVE_BLOCKED",
				`"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"x"}}`: "UNAVAILABLE",
			}
			if tc.mode == "compact" {
				var stdout, stderr bytes.Buffer
				run(t.Context(), []string{"tools", "lab.echo", "--signature", "--server", p.main}, strings.NewReader(""), &stdout, &stderr, nil)
				if !strings.Contains(stdout.String(), "\nlab.echo(") {
					t.Errorf("signatures: %s%s", &stdout, &stderr)
				}
				requests[`"tools/call","params":{"name":"catalog.search","arguments":{"query":"cancel an order"}}`] = `"fleet.cancel_order"`
				requests[`"tools/call","params":{"name":"catalog.describe","arguments":{"name":"fleet.get_vehicle"}}`] = `"inputSchema"`
				requests[`"tools/call","params":{"name":"catalog.call","arguments":{"name":"lab.echo","arguments":{"nonce":"x"}}}`] = "UNAVAILABLE"
			}
			for request, want := range requests {
				if _, answer := postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":`+request+`}`); !strings.Contains(answer, want) {
					t.Errorf("%s: %s", request, answer)
				}
			}
			f.open(t)
			testkit.Until(t, "ready with the backend", func() bool { status, _ := readyz(); return status == http.StatusOK })
			f.close()
			testkit.Until(t, "not ready without it", func() bool { status, _ := readyz(); return status == http.StatusServiceUnavailable })
		})
	}
}

// TestDescriptorsOfAnotherBackend: a process that serves descriptors of a service that the backend does not have says so when
// the backend first answers, and once more where that is another one after an outage.
func TestDescriptorsOfAnotherBackend(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	lack := func(service string) {
		refuse := func(w http.ResponseWriter, r *http.Request) bool {
			asked, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			if asked != service && !strings.HasPrefix(asked, "grpc.reflection.") {
				return false
			}
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "12")
			w.Header().Set("Grpc-Message", "unknown service "+asked)
			return true
		}
		f.refuse.Store(&refuse)
	}
	lack("outrigger.demo.v1.Lab")
	p := startProcess(t, "serve", "--backend", "grpc://"+f.addr, "--descriptors", demoSet(t))
	const message = "descriptors differ from the backend"
	if l := p.await(t, message); !bytes.Contains(l.raw, []byte("outrigger.demo.v1.Lab, and the backend does not")) || !bytes.Contains(l.raw, []byte(`"fix":"pass the descriptors`)) {
		t.Errorf("the log has %s", l.raw)
	}
	f.close()
	lack("outrigger.demo.v1.Fleet")
	f.open(t)
	if l := p.await(t, message); !bytes.Contains(l.raw, []byte("outrigger.demo.v1.Fleet, and the backend does not")) {
		t.Errorf("the log has %s", l.raw)
	}
}

// TestABidirectionalToolOverHTTP1: the tool that a backend without HTTP/2 can never run is not listed, with the reason in
// doctor. Calls of it are the caller's fault, and no outage of the backend. It is listed once the backend has HTTP/2.
func TestABidirectionalToolOverHTTP1(t *testing.T) {
	t.Parallel()
	addr, descriptors := testkit.Reserved(t), demoSet(t)
	isOld := true
	open := func() (stop func()) {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(!isOld)
		mux := http.NewServeMux()
		mux.Handle(demov1connect.NewLabHandler(demov1connect.UnimplementedLabHandler{}))
		return serveAt(t, addr, mux, protocols)
	}
	stop := open()
	for _, scheme := range []string{"http", "connect+http"} {
		var out bytes.Buffer
		code := run(context.Background(), []string{"doctor", "--backend", scheme + "://" + addr, "--descriptors", descriptors}, strings.NewReader(""), &out, &out, nil)
		if code != exitOK || !strings.Contains(out.String(), "Lab/Relay: left out of the lists: a bidirectional stream needs HTTP/2") {
			t.Errorf("doctor exits %d: %s", code, out.String())
		}
	}
	p := startProcess(t, "serve", "--backend", "connect+http://"+addr, "--descriptors", descriptors)
	testkit.Until(t, "not listed", func() bool { return !p.lists(t, "lab.relay") })
	if !p.lists(t, "lab.echo") {
		t.Error("other tools are not listed either")
	}
	c := demov1connect.NewLabClient(webClient(2), p.main, connect.WithGRPC())
	for range 30 {
		stream := c.Relay(t.Context())
		_ = stream.Send(&demov1.EchoRequest{Nonce: "x"})
		_ = stream.CloseRequest()
		_, err := stream.Receive()
		_ = stream.CloseResponse()
		if failed := new(connect.Error); !errors.As(err, &failed) || failed.Code() != connect.CodeUnimplemented || !strings.Contains(failed.Message(), "need HTTP/2") {
			t.Fatalf("got %v", err)
		}
	}
	testkit.Until(t, "ready", func() bool { status, _ := p.operate(t, http.MethodGet, "/readyz"); return status == http.StatusOK })
	if _, page := p.operate(t, http.MethodGet, "/readyz?verbose"); !strings.Contains(page, "circuit breaker closed, opened 0 times") {
		t.Errorf("/readyz: %s", page)
	}
	stop()
	testkit.Until(t, "away", func() bool { status, _ := p.operate(t, http.MethodGet, "/readyz"); return status != http.StatusOK })
	isOld = false
	defer open()()
	testkit.Until(t, "listed", func() bool { return p.lists(t, "lab.relay") })
}
