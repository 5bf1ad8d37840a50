// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// archive starts a grpc-go server of archive.v1.Archive, whose Fetch answers with a
// document of 2,000 bytes, and whose Download answers with a stream of 100 parts of 1,000
// bytes. It returns the flags of a sidecar in front of it.
func archive(t *testing.T) []string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if err := s.RecvMsg(new(emptypb.Empty)); err != nil {
			return err
		}
		if method, _ := grpc.MethodFromServerStream(s); strings.HasSuffix(method, "/Fetch") {
			return s.SendMsg(&httpbody.HttpBody{ContentType: "text/csv", Data: bytes.Repeat([]byte("0123456789"), 200)})
		}
		for range 100 {
			if err := s.SendMsg(wrapperspb.Bytes(bytes.Repeat([]byte{0xff}, 1000))); err != nil {
				return err
			}
		}
		return nil
	}))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto),
		protodesc.ToFileDescriptorProto(emptypb.File_google_protobuf_empty_proto),
		protodesc.ToFileDescriptorProto(wrapperspb.File_google_protobuf_wrappers_proto),
		protodesc.ToFileDescriptorProto(httpbody.File_google_api_httpbody_proto),
		{
			Name: new("archive/v1/archive.proto"), Package: new("archive.v1"), Syntax: new("proto3"),
			Dependency: []string{"google/api/httpbody.proto", "google/protobuf/empty.proto", "google/protobuf/wrappers.proto"},
			Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Archive"), Method: []*descriptorpb.MethodDescriptorProto{
				{Name: new("Fetch"), InputType: new(".google.protobuf.Empty"), OutputType: new(".google.api.HttpBody")},
				{Name: new("Download"), InputType: new(".google.protobuf.Empty"), OutputType: new(".google.protobuf.BytesValue"), ServerStreaming: new(true)},
			}}},
		},
	}}
	raw, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "archive.binpb")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--backend", "grpc://" + l.Addr().String(), "--descriptors", file}
}

// modern posts a request of MCP 2026-07-28 and returns the reply.
func (p *process) modern(t *testing.T, method, name, params string) string {
	t.Helper()
	return postedText(t, p.main+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
}

// linkIn is the URI of the link in a reply to tools/call.
func linkIn(t *testing.T, reply string) string {
	t.Helper()
	var got struct {
		Result struct {
			Content []struct {
				Type, URI string
				Size      int
			}
		}
	}
	if err := json.Unmarshal([]byte(reply), &got); err != nil {
		t.Fatalf("%v: %s", err, reply)
	}
	for _, block := range got.Result.Content {
		if block.Type == "resource_link" {
			return block.URI
		}
	}
	t.Fatalf("no link: %s", reply)
	return ""
}

// TestDocumentsThatAreHeld goes over real listeners: a document of an RPC and one of a
// stream, read in parts by MCP and whole by Connect, within the bounds that flags set.
func TestDocumentsThatAreHeld(t *testing.T) {
	t.Parallel()
	p := startProcess(t, append([]string{"serve", "--max-inline-bytes", "1000", "--max-held-bytes", "1MiB", "--caller-share", "100", "--held-ttl", "2s"}, archive(t)...)...)
	uri := linkIn(t, p.modern(t, "tools/call", "archive_fetch", `"name":"archive_fetch"`))
	part := p.modern(t, "resources/read", uri+"?offset=1990&length=100", `"uri":`+strconv.Quote(uri+"?offset=1990&length=100"))
	if !strings.Contains(part, `"text":"0123456789"`) || !strings.Contains(part, `{"dev.outrigger/range":{"offset":1990,"length":10,"size":2000}}`) {
		t.Errorf("the end of the document: %s", part)
	}
	uri = linkIn(t, p.modern(t, "tools/call", "archive_download", `"name":"archive_download"`))
	whole, err := p.client(t).ReadResource(t.Context(), connect.NewRequest(&outriggerv1.ReadResourceRequest{Uri: uri}))
	if err != nil || len(whole.Msg.GetResult().GetContents()) != 1 || len(whole.Msg.GetResult().GetContents()[0].GetBlob()) != 100000 {
		t.Errorf("by Connect: %v, %v", whole, err)
	}
	for range 12 { // 1.2 MB in 1 MiB: the oldest make way
		linkIn(t, p.modern(t, "tools/call", "archive_download", `"name":"archive_download"`))
	}
	if gone := p.modern(t, "resources/read", uri, `"uri":`+strconv.Quote(uri)); !strings.Contains(gone, "RESOURCE_NOT_FOUND") {
		t.Errorf("the oldest document is still there: %.200s", gone)
	}
}
