// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// sidecar is a bridge over the demo's tools whose backend is a function.
func sidecar(live *catalog.Live, call mcptest.Upstream) *dialect.Handler {
	return dialect.New(bridge.New(live, call, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
}

// held is a backend that echoes when it is let go.
type held struct{ entered, release chan struct{} }

func newHeld() *held { return &held{entered: make(chan struct{}, 2048), release: make(chan struct{})} }

func (h *held) call(ctx context.Context, _ *catalog.Method, in []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	h.entered <- struct{}{}
	select {
	case <-h.release:
		return &bridge.Answer{Body: bytes.Clone(in)}, nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
		}
		return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
	}
}

// peer is the other end of a conversation.
type peer struct {
	t     *testing.T
	in    *io.PipeWriter
	out   *io.PipeReader
	lines *bufio.Scanner
	ended chan error
}

// talk begins a conversation over two pipes.
func talk(ctx context.Context, t *testing.T, b *dialect.Handler, o stdio.Options) *peer {
	t.Helper()
	inReader, inWriter := io.Pipe()
	outReader, outWriter := io.Pipe()
	p := &peer{t: t, in: inWriter, out: outReader, lines: bufio.NewScanner(outReader), ended: make(chan error, 1)}
	p.lines.Buffer(nil, 16<<20)
	go func() {
		err := stdio.Serve(ctx, b, inReader, outWriter, o)
		_ = outWriter.Close()
		_ = inReader.Close()
		p.ended <- err
	}()
	return p
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(p.in, l+"\n"); err != nil {
			p.t.Fatalf("send: %v", err)
		}
	}
}

// line is one line that the sidecar wrote.
func (p *peer) line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("no line: %v", p.lines.Err())
	}
	return p.lines.Text()
}

func (p *peer) reply() reply {
	p.t.Helper()
	return decode(p.t, p.line())
}

// end closes the input and returns what was still written.
func (p *peer) end() []string {
	p.t.Helper()
	if err := p.in.Close(); err != nil {
		p.t.Fatal(err)
	}
	var rest []string
	for p.lines.Scan() {
		rest = append(rest, p.lines.Text())
	}
	if err := <-p.ended; err != nil {
		p.t.Errorf("Serve: %v", err)
	}
	return rest
}

// reply is a line in the members that tests look at.
type reply struct {
	raw    string
	ID     json.RawMessage `json:"id"`
	Result *struct {
		IsError           bool            `json:"isError"`
		ResultType        string          `json:"resultType"`
		ProtocolVersion   string          `json:"protocolVersion"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		Tools             []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Meta struct {
			Error struct {
				Code errmap.Code `json:"code"`
			} `json:"dev.outrigger/error"`
		} `json:"_meta"`
	} `json:"result"`
	Error *struct {
		Data struct {
			Code errmap.Code `json:"code"`
		} `json:"data"`
	} `json:"error"`
}

func (r reply) code() errmap.Code {
	switch {
	case r.Error != nil:
		return r.Error.Data.Code
	case r.Result != nil:
		return r.Result.Meta.Error.Code
	}
	return "NO_REPLY"
}

// nullID reports whether the reply has an id, and it is null: the canonical way
// to say that none could be read.
func (r reply) nullID() bool { return strings.Contains(r.raw, `"id":null`) }

func decode(t *testing.T, line string) reply {
	t.Helper()
	r := reply{raw: line}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatalf("the line is not JSON: %v: %q", err, line)
	}
	return r
}

func call(id, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"lab.echo","arguments":` + arguments + `}}`
}

func ping(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping","params":{}}` }
