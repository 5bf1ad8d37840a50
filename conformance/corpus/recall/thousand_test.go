// SPDX-License-Identifier: Apache-2.0

package recall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/grpc"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

var update = flag.Bool("update", false, "rewrite the conversation in docs/thousand-rpcs.md")

// bytesPerToken is the estimate that the documents use.
const bytesPerToken = 4

// backups serves one RPC of Bigtable's: the others answer that they are not implemented.
type backups struct {
	adminpb.UnimplementedBigtableTableAdminServer
}

func (backups) ListBackups(_ context.Context, in *adminpb.ListBackupsRequest) (*adminpb.ListBackupsResponse, error) {
	return &adminpb.ListBackupsResponse{Backups: []*adminpb.Backup{
		{Name: in.GetParent() + "/backups/monday", SourceTable: "orders", SizeBytes: 1 << 20, State: adminpb.Backup_READY},
		{Name: in.GetParent() + "/backups/tuesday", SourceTable: "orders", SizeBytes: 2 << 20, State: adminpb.Backup_CREATING},
	}}, nil
}

// serve starts the backend and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	adminpb.RegisterBigtableTableAdminServer(server, backups{})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "grpc://" + listener.Addr().String()
}

// thousand is the catalog of Compute Engine, Bigtable and the APIs of googleapis.
func thousand(t testing.TB) *catalog.Live {
	t.Helper()
	packages := slices.Concat(apis()["googleapis"], apis()["bigtable"], []string{"google.cloud.compute.v1"})
	return liveWith(t, packages, nil, catalog.BuildOptions{Compact: true, Programs: true})
}

// agent is a scripted client of MCP: it calls what the sidecar offers, and reads the answers as a program does.
type agent struct {
	t      *testing.T
	rpc    *dialect.Handler
	id     int
	record strings.Builder
	tokens int
}

func (a *agent) ask(method, params string) []byte {
	a.t.Helper()
	a.id++
	if params != "" {
		params += ","
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, a.id, method, params)
	msg := jsonrpc.Parse([]byte(body), jsonrpc.ProfileMCP, jsonrpc.Limits{})
	reply := a.rpc.HandleMessage(a.t.Context(), &dialect.Inbound{
		Dialect: dialect.Modern, Origin: a.rpc.Flights().NewOrigin(), Message: &msg, Caller: bridge.CallerStdio, Transport: "stdio", Route: "stdio",
	})
	result, ok := jsontext.Lookup(reply.Bytes(), "result")
	if !ok {
		a.t.Fatalf("%s: %s", body, reply.Bytes())
	}
	return bytes.Clone(result)
}

// call calls a tool, records call and result, and returns the structured content.
func (a *agent) call(tool, arguments string) []byte {
	a.t.Helper()
	result := a.ask("tools/call", `"name":"`+tool+`","arguments":`+arguments)
	data, ok := jsontext.Lookup(result, "structuredContent")
	if isError, _ := jsontext.Lookup(result, "isError"); !ok || string(isError) == "true" {
		a.t.Fatalf("%s: %s", tool, result)
	}
	tokens := (len(arguments) + len(data)) / bytesPerToken
	a.tokens += tokens
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, data, "", "  "); err != nil {
		a.t.Fatal(err)
	}
	fmt.Fprintf(&a.record, "The agent calls `%s` with `%s`, and gets (%d tokens):\n\n```json\n%s\n```\n\n", tool, arguments, tokens, pretty.String())
	return data
}

const recordedPage = "../../../docs/thousand-rpcs.md"

const (
	recordBegins = "<!-- the conversation begins: TestAThousandRPCs -update writes it -->\n"
	recordEnds   = "<!-- the conversation ends -->"
)

// TestAThousandRPCs: a scripted agent finds one RPC among more than a thousand and calls it. The four tools and
// the instructions are below 2,000 tokens. The page has the conversation as it was.
func TestAThousandRPCs(t *testing.T) {
	live := thousand(t)
	target, err := backend.ParseTarget(serve(t))
	if err != nil {
		t.Fatal(err)
	}
	client, err := backend.New(target, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	const instructions = "Google Cloud: Compute Engine, Bigtable, Spanner, Pub/Sub, Logging, Monitoring and Kubernetes Engine of the project p."
	b := bridge.New(live, backend.NewUpstream(client), correlate.New(correlate.Options{}), bridge.Options{
		Server: bridge.ServerInfo{Instructions: instructions}, Compact: compact.Options{Mode: compact.Auto, AboveBytes: 100_000, HasPrograms: true},
	})
	a := &agent{t: t, rpc: dialect.New(b, dialect.Options{})}
	rpcs := len(live.Current().Tools())
	list, _ := jsontext.Lookup(a.ask("tools/list", ""), "tools")
	discovered, _ := jsontext.Lookup(a.ask("server/discover", ""), "instructions")
	tokens := (len(list) + len(discovered)) / bytesPerToken
	if rpcs < 1000 || tokens >= 2000 {
		t.Errorf("%d RPCs cost %d tokens, at most 2,000 are wanted for 1,000", rpcs, tokens)
	}
	fmt.Fprintf(&a.record, "The catalog has %d RPCs. The four tools and the instructions have %d tokens. The agent wants to know which backups a Bigtable cluster has.\n\n", rpcs, tokens)
	found := a.call("catalog_search", `{"query":"list the backups of a bigtable cluster","limit":3}`)
	var hits struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(found, &hits); err != nil || len(hits.Tools) == 0 {
		t.Fatalf("%v: %s", err, found)
	}
	name := hits.Tools[0].Name
	a.call("catalog_describe", `{"name":"`+name+`"}`)
	data := a.call("catalog_call", `{"name":"`+name+`","arguments":{"parent":"projects/p/instances/orders/clusters/eu"}}`)
	if !bytes.Contains(data, []byte("backups/tuesday")) {
		t.Errorf("the call brought %s", data)
	}
	fmt.Fprintf(&a.record, "In sum %d tokens.\n\n", tokens+a.tokens)
	a.compare()
}

// compare compares the record with the page, or writes it there.
func (a *agent) compare() {
	a.t.Helper()
	path := filepath.FromSlash(recordedPage)
	page, err := os.ReadFile(path)
	if err != nil {
		a.t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), recordBegins)
	was, tail, isClosed := strings.Cut(rest, recordEnds)
	if !ok || !isClosed {
		a.t.Fatalf("%s has no place for the conversation", path)
	}
	record := "\n" + a.record.String()
	if *update {
		if err := os.WriteFile(path, []byte(head+recordBegins+record+recordEnds+tail), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return
	}
	if was != record {
		a.t.Errorf("the page has another conversation; run the test with -update. It was:\n%s", record)
	}
}
