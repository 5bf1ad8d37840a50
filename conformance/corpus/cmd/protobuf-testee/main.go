// SPDX-License-Identifier: Apache-2.0

// Command protobuf-testee lets protobuf's conformance test runner drive our transcoder. The runner starts it and speaks
// over standard input and output: each message is a conformance.ConformanceRequest or ConformanceResponse after its
// length in four bytes, little-endian.
//
// What the transcoder does is JSON to wire and wire to JSON. Everything else (text format, wire to wire, ignoring
// unknown fields) is answered with "skipped". JSON to JSON goes through wire bytes, as a call does.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// maxRequest bounds one message of the runner. Its largest payloads are far below.
const maxRequest = 64 << 20

func main() {
	protos := flag.String("protos", os.Getenv("CONFORMANCE_PROTOS"), "folder with conformance/conformance.proto and the test messages (default $CONFORMANCE_PROTOS)")
	flag.Parse()
	if err := run(context.Background(), *protos, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "protobuf-testee:", err)
		os.Exit(1)
	}
}

// run answers requests until the runner closes its end.
func run(ctx context.Context, protos string, in io.Reader, out io.Writer) error {
	if protos == "" {
		return errors.New("name the folder of the .proto files with -protos or CONFORMANCE_PROTOS")
	}
	t, err := newTestee(ctx, protos)
	if err != nil {
		return err
	}
	r := bufio.NewReader(in)
	for {
		request, err := readFrame(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		response, err := t.answer(request)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(response))), response...)); err != nil {
			return err
		}
	}
}

// readFrame returns io.EOF only between messages.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > maxRequest {
		return nil, fmt.Errorf("a request of %d bytes is over %d", size, maxRequest)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("read request: %w", errors.Join(io.ErrUnexpectedEOF, err))
	}
	return body, nil
}
