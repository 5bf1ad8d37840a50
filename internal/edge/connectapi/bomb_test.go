// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestCompressedBombIsRefused sends messages that are small on the wire and far
// beyond the limit when they are decoded.
func TestCompressedBombIsRefused(t *testing.T) {
	t.Parallel()
	const limit = 1 << 16
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{Limits: jsonrpc.Limits{MaxBytes: limit}})
	large := make([]byte, 64<<20)
	bombs := map[string]map[string][]byte{
		"gzip": {"one member": zipped(large)},
		"zstd": {
			"one frame": zstandard(t, large),
			// Each frame is within the limit, and all of them are not.
			"many frames": bytes.Repeat(zstandard(t, large[:limit]), 1000),
			// A frame of one byte that announces 4 GiB.
			"an announcement": {0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0xff, 0x0b, 0x00, 0x00, 'a'},
		},
	}
	for encoding, forms := range bombs {
		for name, bomb := range forms {
			if len(bomb) > limit {
				t.Fatalf("%s, %s: %d bytes, which are refused as they come", encoding, name, len(bomb))
			}
			for _, path := range []string{callPath, echoPath, "/grpc.health.v1.Health/Check"} {
				t.Run(fmt.Sprint(encoding, " ", name, path), func(t *testing.T) {
					t.Parallel()
					status, body := post(t, url+path, "application/proto", map[string]string{"Content-Encoding": encoding}, bomb)
					// 429 is what Connect's table gives resource_exhausted.
					if status != http.StatusTooManyRequests || !bytes.Contains(body, []byte(`"resource_exhausted"`)) {
						t.Errorf("status %d, %s", status, body)
					}
				})
			}
		}
	}
}

// TestABombHasTheSameErrorInEveryEncoding, in every protocol, on calls and streams.
func TestABombHasTheSameErrorInEveryEncoding(t *testing.T) {
	t.Parallel()
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{Limits: jsonrpc.Limits{MaxBytes: 1 << 16}})
	large := make([]byte, 16<<20)
	for name, protocol := range map[string][]connect.ClientOption{
		"connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := map[string]string{}
			for encoding, options := range map[string][]connect.ClientOption{"gzip": {connect.WithSendGzip()}, "zstd": withZstd()} {
				for kind, send := range map[string]func(context.Context, connect.HTTPClient, ...connect.ClientOption) error{
					"call": func(ctx context.Context, c connect.HTTPClient, o ...connect.ClientOption) error {
						_, err := connect.NewClient[outriggerv1.ToolCall, outriggerv1.ToolResult](c, url+callPath, o...).
							CallUnary(ctx, connect.NewRequest(&outriggerv1.ToolCall{ToolName: "lab.echo", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: large}}))
						return err
					},
					"stream": func(ctx context.Context, c connect.HTTPClient, o ...connect.ClientOption) error {
						stream := connect.NewClient[demov1.EchoRequest, demov1.EchoResponse](c, url+"/outrigger.demo.v1.Lab/Relay", o...).CallBidiStream(ctx)
						_ = stream.Send(&demov1.EchoRequest{Payload: large}) // an end of the stream is seen by Receive
						_ = stream.CloseRequest()
						_, err := stream.Receive()
						_ = stream.CloseResponse()
						return err
					},
				} {
					err := send(t.Context(), mcptest.Client(t, 2), append(options, protocol...)...)
					if connect.CodeOf(err) != connect.CodeResourceExhausted || reason(t, err) != errmap.PayloadTooLarge {
						t.Errorf("%s %s: %v, reason %q", encoding, kind, err, reason(t, err))
						continue
					}
					if first := said[kind]; first != "" && first != err.Error() {
						t.Errorf("%s: %q in one encoding, and %q in the other", kind, first, err)
					}
					said[kind] = err.Error()
				}
			}
		})
	}
}
