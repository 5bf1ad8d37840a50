// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"

	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// zstandard compresses with the library's defaults, whose window is larger than ours.
func zstandard(t testing.TB, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(raw)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// clientDecoder is the decoder of a client.
type clientDecoder struct{ *zstd.Decoder }

func (d clientDecoder) Close() error { return d.Reset(nil) }

// withZstd is a client that sends zstd and accepts it.
func withZstd() []connect.ClientOption {
	return []connect.ClientOption{
		connect.WithAcceptCompression("zstd",
			func() connect.Decompressor {
				d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
				return clientDecoder{d}
			},
			func() connect.Compressor {
				w, _ := zstd.NewWriter(io.Discard, zstd.WithEncoderConcurrency(1))
				return w
			}),
		connect.WithSendCompression("zstd"),
	}
}

// post sends a body with the headers of its encoding.
func post(t *testing.T, url, contentType string, header map[string]string, body []byte) (status int, answer []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := mcptest.Client(t, 2).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// exchangeBytes posts a body to a path, for a caller that accepts an encoding, and returns the response as it came.
func exchangeBytes(t *testing.T, url, contentType, accept string, body []byte) (http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for _, name := range []string{"Accept-Encoding", "Grpc-Accept-Encoding", "Connect-Accept-Encoding"} {
		req.Header.Set(name, accept)
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
	url := mount(t, ofRig(rig), connectapi.Options{})
	sizes := []int{10, 300, 1500, 30_000}
	var stream []byte
	for _, size := range sizes {
		stream = append(stream, prefixed(0, marshal(t, &demov1.EchoRequest{Nonce: "n", Payload: make([]byte, size)}))...)
	}
	const compressed = 1 // of the flags of a prefix, in gRPC, gRPC-Web and Connect
	for _, accept := range []struct{ header, encoding string }{{"gzip", "gzip"}, {"zstd", "zstd"}, {"zstd,gzip", "zstd"}, {"br, gzip, zstd", "gzip"}} {
		for _, contentType := range []string{"application/grpc", "application/grpc-web", "application/connect+proto"} {
			header, got := exchangeBytes(t, url+"/outrigger.demo.v1.Lab/Relay", contentType, accept.header, stream)
			if encoding := header.Get("Grpc-Encoding") + header.Get("Connect-Content-Encoding"); encoding != accept.encoding {
				t.Errorf("%s: the encoding is %q where %q is accepted", contentType, encoding, accept.header)
			}
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
				callPath: call, echoPath: call[strings.Index(call, `{"nonce"`) : len(call)-1],
			} {
				header, _ := exchangeBytes(t, url+path, "application/json", accept.header, []byte(body))
				if got := header.Get("Content-Encoding"); (got == accept.encoding) != (size > 1024) {
					t.Errorf("%s: a response of %d bytes has the encoding %q", path, size, got)
				}
			}
		}
	}
}

// TestZstdIsReadAndWritten: messages of many sizes come back as they were sent, in every protocol and with reused decoders.
func TestZstdIsReadAndWritten(t *testing.T) {
	t.Parallel()
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{})
	for name, protocol := range map[string][]connect.ClientOption{
		"connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect.NewClient[demov1.EchoRequest, demov1.EchoResponse](mcptest.Client(t, 2), url+"/outrigger.demo.v1.Lab/Relay", append(withZstd(), protocol...)...)
			stream := client.CallBidiStream(t.Context())
			for _, size := range []int{0, 10, 5_000, 300_000, 900_000, 20} {
				sent := bytes.Repeat([]byte{byte(size), 2, 3, 4}, size/4)
				if err := stream.Send(&demov1.EchoRequest{Payload: sent}); err != nil {
					t.Fatal(err)
				}
				got, err := stream.Receive()
				if err != nil || !bytes.Equal(got.GetPayload(), sent) {
					t.Fatalf("%d bytes: %d came back, %v", size, len(got.GetPayload()), err)
				}
			}
			if err := stream.CloseRequest(); err != nil {
				t.Error(err)
			}
			if err := stream.CloseResponse(); err != nil {
				t.Error(err)
			}
			if header := stream.ResponseHeader(); header.Get("Grpc-Encoding")+header.Get("Connect-Content-Encoding") != "zstd" {
				t.Errorf("answered with %v", header)
			}
		})
	}
}

// TestBrokenZstd is a parse error, as broken gzip is.
func TestBrokenZstd(t *testing.T) {
	t.Parallel()
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{})
	whole := zstandard(t, []byte(`{"tool_name":"lab.echo","arguments":{"nonce":"n"}}`))
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-1] ^= 1 // of the checksum
	for name, body := range map[string][]byte{
		"text": []byte("{}"), "half a frame": whole[:len(whole)/2], "a wrong checksum": damaged,
		"a window of 2 GiB": {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00},
	} {
		status, answer := post(t, url+callPath, "application/json", map[string]string{"Content-Encoding": "zstd"}, body)
		if status != http.StatusBadRequest || !bytes.Contains(answer, []byte(errmap.ParseError)) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	if status, answer := post(t, url+callPath, "application/json", map[string]string{"Content-Encoding": "zstd"}, whole); status != http.StatusOK {
		t.Errorf("%d %s", status, answer)
	}
}
