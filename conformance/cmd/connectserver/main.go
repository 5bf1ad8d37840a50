// SPDX-License-Identifier: Apache-2.0

// Command connectserver is the server under test of Connect's conformance suite: a
// sidecar in front of the suite's reference server.
//
//	connectconformance --mode server ... -- connectserver -sidecar BIN -reference BIN -descriptors FILE
//
// It reads a ServerCompatRequest from standard input, starts a reference server that
// speaks -protocol and a sidecar as the request wants it, and answers with the
// sidecar's address. SIGTERM, which the suite sends, ends both.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outrigger-mcp/outrigger/conformance/connect"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "connectserver:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// options are the flags.
type options struct {
	sidecar, reference, descriptors string
	protocol                        uint64
}

func run(ctx context.Context) error {
	var o options
	flag.StringVar(&o.sidecar, "sidecar", "bin/sidecar", "the sidecar's `binary`")
	flag.StringVar(&o.reference, "reference", "referenceserver", "the reference server's `binary`")
	flag.StringVar(&o.descriptors, "descriptors", "", "`file` of the suite's descriptors")
	flag.Uint64Var(&o.protocol, "protocol", protocolGRPC, "`number` of the protocol between the two: 1 Connect, 2 gRPC, 3 gRPC-Web")
	flag.Parse()
	raw, err := connect.ReadMessage(os.Stdin)
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	req, err := parseRequest(raw)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	backend, wait, err := o.startReference(ctx)
	if err != nil {
		return err
	}
	defer wait()
	address, wait, err := o.startSidecar(ctx, req, backend)
	if err != nil {
		stop()
		return err
	}
	defer wait()
	if err := answer(os.Stdout, address, req.cert); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

const (
	protocolConnect = 1
	protocolGRPC    = 2
	protocolGRPCWeb = 3
	versionHTTP2    = 2
)

// request is what the suite asks for.
type request struct {
	useTLS    bool
	clientCA  []byte
	limit     uint64 // 0 for none
	cert, key []byte
}

// parseRequest reads a connectrpc.conformance.v1.ServerCompatRequest.
func parseRequest(raw []byte) (request, error) {
	var req request
	err := fields(raw, func(number protowire.Number, value []byte, n uint64) error {
		switch number {
		case 4:
			req.useTLS = n != 0
		case 5:
			req.clientCA = value
		case 6:
			req.limit = n
		case 7:
			return fields(value, func(number protowire.Number, value []byte, _ uint64) error {
				switch number {
				case 1:
					req.cert = value
				case 2:
					req.key = value
				}
				return nil
			})
		}
		return nil
	})
	if err == nil && req.useTLS && len(req.cert) == 0 {
		err = errors.New("TLS is wanted, and the request has no certificate")
	}
	return req, err
}

// fields calls each for the fields of a message.
func fields(raw []byte, each func(number protowire.Number, value []byte, n uint64) error) error {
	for len(raw) > 0 {
		number, kind, used := protowire.ConsumeTag(raw)
		if used < 0 {
			return protowire.ParseError(used)
		}
		raw = raw[used:]
		var value []byte
		var n uint64
		switch kind {
		case protowire.BytesType:
			value, used = protowire.ConsumeBytes(raw)
		case protowire.VarintType:
			n, used = protowire.ConsumeVarint(raw)
		default:
			used = protowire.ConsumeFieldValue(number, kind, raw)
		}
		if used < 0 {
			return protowire.ParseError(used)
		}
		raw = raw[used:]
		if err := each(number, value, n); err != nil {
			return err
		}
	}
	return nil
}

// startReference starts the reference server and returns its URL.
func (o *options) startReference(ctx context.Context) (url string, wait func(), err error) {
	cmd := exec.CommandContext(ctx, o.reference, "-port", "0") //nolint:gosec // the command that this program's user names
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start the reference server: %w", err)
	}
	wait = func() { _ = in.Close(); _ = cmd.Wait() }
	ask := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), o.protocol)
	ask = protowire.AppendVarint(protowire.AppendTag(ask, 2, protowire.VarintType), versionHTTP2)
	if err := connect.WriteMessage(in, ask); err != nil {
		return "", wait, err
	}
	raw, err := connect.ReadMessage(out)
	if err != nil {
		return "", wait, fmt.Errorf("the reference server's answer: %w", err)
	}
	var port uint64
	err = fields(raw, func(number protowire.Number, _ []byte, n uint64) error {
		if number == 2 {
			port = n
		}
		return nil
	})
	scheme := map[uint64]string{protocolConnect: "connect+http", protocolGRPC: "grpc", protocolGRPCWeb: "grpcweb+http"}[o.protocol]
	return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port), wait, err
}

// startSidecar starts the sidecar and waits until it is ready.
func (o *options) startSidecar(ctx context.Context, req request, backend string) (address string, wait func(), err error) {
	dir, err := os.MkdirTemp("", "connectserver")
	if err != nil {
		return "", nil, err
	}
	address, admin := freeAddress(), freeAddress()
	args := []string{
		"serve", "--backend", backend, "--descriptors", o.descriptors, "--listen", address, "--admin", admin,
		"--record-dir", "off", "--trust", "trusted", "--config", filepath.Join(dir, "config.yaml"),
	}
	files := map[string][]byte{"config.yaml": []byte("backend:\n  metadata:\n    inbound: [\"x-*\"]\n    outbound: [\"x-*\"]\n")}
	if req.limit > 0 {
		args = append(args, "--max-message-bytes", strconv.FormatUint(req.limit, 10))
	}
	if req.useTLS {
		files["cert.pem"], files["key.pem"] = req.cert, req.key
		args = append(args, "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	}
	if len(req.clientCA) > 0 {
		files["ca.pem"] = req.clientCA
		args = append(args, "--tls-client-ca", filepath.Join(dir, "ca.pem"))
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", nil, err
		}
	}
	log := new(bytes.Buffer)
	cmd := exec.CommandContext(ctx, o.sidecar, args...) //nolint:gosec // flags of the suite's user
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start the sidecar: %w", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	wait = func() { <-ended; _ = os.RemoveAll(dir) }
	for range 600 {
		if isReady(ctx, admin) {
			return address, wait, nil
		}
		select {
		case <-ended:
			return "", wait, fmt.Errorf("the sidecar ended:\n%s", log)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return "", wait, errors.New("the sidecar is not ready after a minute")
}

func isReady(ctx context.Context, admin string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode == http.StatusOK
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress() string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:0"
	}
	defer func() { _ = lis.Close() }()
	return lis.Addr().String()
}

// answer writes a connectrpc.conformance.v1.ServerCompatResponse.
func answer(w io.Writer, address string, cert []byte) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	out := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), host)
	out = protowire.AppendVarint(protowire.AppendTag(out, 2, protowire.VarintType), n)
	if len(cert) > 0 {
		out = protowire.AppendBytes(protowire.AppendTag(out, 3, protowire.BytesType), cert)
	}
	return connect.WriteMessage(w, out)
}
