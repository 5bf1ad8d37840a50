// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// exchangeBytes posts a body to a path, for a caller that accepts gzip, and returns the response as it came.
func exchangeBytes(t *testing.T, url, contentType string, body []byte) (http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for _, name := range []string{"Accept-Encoding", "Grpc-Accept-Encoding", "Connect-Accept-Encoding"} {
		req.Header.Set(name, "gzip")
	}
	resp, err := mcptest.Client(t, 2).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", contentType, resp.StatusCode, got, err)
	}
	return resp.Header, got
}

// TestOnlyLargeMessagesAreCompressed: a compressor costs more than it saves on a small message, in every protocol.
func TestOnlyLargeMessagesAreCompressed(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: tenantsAndReplies})
	url := mount(t, rig.Bridge, connectapi.Options{})
	sizes := []int{10, 300, 1500, 30_000}
	var stream []byte
	for _, size := range sizes {
		stream = append(stream, prefixed(0, marshal(t, &demov1.EchoRequest{Nonce: "n", Payload: make([]byte, size)}))...)
	}
	const compressed = 1 // of the flags of a prefix, in gRPC, gRPC-Web and Connect
	for _, contentType := range []string{"application/grpc", "application/grpc-web", "application/connect+proto"} {
		_, got := exchangeBytes(t, url+"/outrigger.demo.v1.Lab/Relay", contentType, stream)
		for _, size := range sizes {
			if len(got) < 5 {
				t.Fatalf("%s: no message of %d", contentType, size)
			}
			length := int(binary.BigEndian.Uint32(got[1:5]))
			if isLarge := size > 1024; (got[0]&compressed != 0) != isLarge || isLarge && length > size/2 {
				t.Errorf("%s: a message of %d has flags %d and %d bytes", contentType, size, got[0], length)
			}
			got = got[5+length:]
		}
	}
	for _, size := range sizes {
		call := `{"tool_name":"lab.echo","arguments":{"nonce":"n","payload":"` + strings.Repeat("A", size/3*4) + `"}}`
		for path, body := range map[string]string{
			"/outrigger.v1.ToolService/CallTool": call, "/outrigger.demo.v1.Lab/Echo": call[strings.Index(call, `{"nonce"`) : len(call)-1],
		} {
			header, _ := exchangeBytes(t, url+path, "application/json", []byte(body))
			if got := header.Get("Content-Encoding"); (got == "gzip") != (size > 1024) {
				t.Errorf("%s: a response of %d bytes has the encoding %q", path, size, got)
			}
		}
	}
}
