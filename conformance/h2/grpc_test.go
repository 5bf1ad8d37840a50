// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// grpcCase is one or more calls on one channel, one after the other.
type grpcCase struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	TLS     bool   `json:"tls"`
	Path    string `json:"path"`
	Token   string `json:"token"`
	// Message is the request, in base64. With Messages it is sent so often, on a stream in both directions, of which the client
	// reads nothing for a while.
	Message    string `json:"message"`
	Messages   int    `json:"messages"`
	WaitMS     int    `json:"wait_ms"`
	DeadlineMS int    `json:"deadline_ms"`
	Times      int    `json:"times"`

	// want is the status of each call, wantBytes the least that the responses have together.
	want      codes.Code
	wantBytes int
}

func wire(t *testing.T, m proto.Message) string {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func grpcCases(t *testing.T, tr transport, main, aged *sidecar.Server) []grpcCase {
	t.Helper()
	const lab = "/outrigger.demo.v1.Lab/"
	payload := func(size int) string { return wire(t, &demov1.EchoRequest{Nonce: "n", Payload: make([]byte, size)}) }
	unary := grpcCase{
		Address: main.Addr(), TLS: tr.tls != nil, Path: lab + "Echo", Token: token, Message: payload(10), DeadlineMS: int(clientTimeout.Milliseconds()),
	}
	stream := unary
	stream.Path, stream.Message, stream.Messages = lab+"Relay", payload(32<<10), 100
	with := func(c grpcCase, name string, change func(*grpcCase)) grpcCase {
		c.Name = name
		change(&c)
		return c
	}
	return []grpcCase{
		with(unary, "a small call", func(c *grpcCase) { c.wantBytes = 10 }),
		with(unary, "a large call", func(c *grpcCase) { c.Message, c.wantBytes = payload(1<<20), 1<<20 }),
		with(stream, "a stream both ways", func(c *grpcCase) { c.wantBytes = 100 * 32 << 10 }),
		with(stream, "a stream whose client reads late", func(c *grpcCase) { c.WaitMS, c.wantBytes = 1000, 100*32<<10 }),
		with(unary, "unauthenticated", func(c *grpcCase) { c.Message, c.Token, c.want = payload(1<<20), "", codes.Unauthenticated }),
		with(stream, "unauthenticated, a stream", func(c *grpcCase) { c.Token, c.want = "", codes.Unauthenticated }),
		with(unary, "no such method", func(c *grpcCase) { c.Message, c.Path, c.want = payload(1<<20), lab+"Nothing", codes.Unimplemented }),
		with(stream, "no such method, a stream", func(c *grpcCase) { c.Path, c.want = lab+"Nothing", codes.Unimplemented }),
		with(unary, "too large", func(c *grpcCase) { c.Message, c.want = payload(5<<20), codes.ResourceExhausted }),
		with(stream, "too large, a stream", func(c *grpcCase) { c.Message, c.Messages, c.want = payload(5<<20), 3, codes.ResourceExhausted }),
		with(unary, "a deadline", func(c *grpcCase) {
			c.Path, c.Message = lab+"Sleep", wire(t, &demov1.SleepRequest{Duration: durationpb.New(time.Minute)})
			c.DeadlineMS, c.want = 300, codes.DeadlineExceeded
		}),
		with(unary, "GOAWAY after three requests", func(c *grpcCase) {
			c.Address, c.Path, c.Times = aged.Addr(), "/grpc.health.v1.Health/Check", 20
			c.Message = ""
		}),
		with(unary, "limited", func(c *grpcCase) { c.Address, c.Message, c.want = aged.Addr(), payload(1<<20), codes.ResourceExhausted }),
	}
}

func (c grpcCase) check(t *testing.T, got outcome, ran bool) {
	t.Helper()
	switch {
	case !ran:
		t.Errorf("%s: not run", c.Name)
	case len(got.Statuses) != max(c.Times, 1) || got.Bytes < c.wantBytes ||
		slices.ContainsFunc(got.Statuses, func(status int) bool { return codes.Code(status) != c.want }):
		t.Errorf("%s: codes %v with %d bytes, %q; want %d with %d bytes", c.Name, got.Statuses, got.Bytes, got.Error, c.want, c.wantBytes)
	}
}

// TestGRPCClients: refusals, messages and streams that no window holds, deadlines, and connections that end.
func TestGRPCClients(t *testing.T) {
	t.Parallel()
	needsPeers(t)
	scripted := func(interpreter *string, file string) func(*testing.T, string, []grpcCase) map[string]outcome {
		return func(t *testing.T, ca string, cases []grpcCase) map[string]outcome {
			t.Helper()
			return script(t, ca, cases, *interpreter, filepath.Join(*clients, file))
		}
	}
	for _, tr := range transports(t) {
		main := tr.serve(t, "--tokens", tokensFile(t), "--max-message-bytes", "4MiB")
		aged := tr.serve(t, "--max-connection-requests", "3", "--tool-rate", "0.001")
		goClient(t, tr.ca(), []httpCase{call(tr.scheme+"://"+aged.Addr(), 0)}) // all that the rate admits
		cases := grpcCases(t, tr, main, aged)
		for name, run := range map[string]func(*testing.T, string, []grpcCase) map[string]outcome{
			"grpc-go": grpcGo, "grpc-js": scripted(node, "grpc.mjs"), "C-core": scripted(python, "core.py"),
		} {
			t.Run(name+", "+tr.name, func(t *testing.T) {
				t.Parallel()
				got := run(t, tr.ca(), cases)
				for _, c := range cases {
					one, ran := got[c.Name]
					c.check(t, one, ran)
				}
			})
		}
	}
}

// rawCodec has messages as bytes.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	raw, ok := v.(*[]byte)
	if !ok {
		return nil, errors.New("not bytes")
	}
	return *raw, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	raw, ok := v.(*[]byte)
	if !ok {
		return errors.New("not bytes")
	}
	*raw = slices.Clone(data)
	return nil
}

func grpcGo(t *testing.T, ca string, cases []grpcCase) map[string]outcome {
	t.Helper()
	got := map[string]outcome{}
	for _, c := range cases {
		safe := insecure.NewCredentials()
		if c.TLS {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM([]byte(ca))
			safe = credentials.NewClientTLSFromCert(roots, "")
		}
		conn, err := grpc.NewClient(c.Address, grpc.WithTransportCredentials(safe), grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20)))
		if err != nil {
			t.Fatal(err)
		}
		message, err := base64.StdEncoding.DecodeString(c.Message)
		if err != nil {
			t.Fatal(err)
		}
		var o outcome
		for range max(c.Times, 1) {
			size, err := c.call(t, conn, message)
			o.Statuses, o.Bytes = append(o.Statuses, int(status.Code(err))), o.Bytes+size
			if err != nil {
				o.Error = err.Error()
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		got[c.Name] = o
	}
	return got
}

func (c grpcCase) call(t *testing.T, conn *grpc.ClientConn, message []byte) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(c.DeadlineMS)*time.Millisecond)
	defer cancel()
	if c.Token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.Token)
	}
	var answer []byte
	if c.Messages == 0 {
		err := conn.Invoke(ctx, c.Path, &message, &answer)
		return len(answer), err
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, c.Path)
	if err != nil {
		return 0, err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range c.Messages {
			if stream.SendMsg(&message) != nil {
				break // RecvMsg has the status
			}
		}
		_ = stream.CloseSend()
	}()
	defer func() { <-sent }()
	time.Sleep(time.Duration(c.WaitMS) * time.Millisecond)
	size := 0
	for {
		if err := stream.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return size, nil
		} else if err != nil {
			return size, err
		}
		size += len(answer)
	}
}
