// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// wire is one way for a generated client to call.
type wire struct {
	name    string
	options []connect.ClientOption
}

func wires() []wire {
	return []wire{
		{"connect", nil},
		{"connect JSON", []connect.ClientOption{connect.WithProtoJSON()}},
		{"connect zipped", []connect.ClientOption{connect.WithSendGzip()}},
		{"gRPC", []connect.ClientOption{connect.WithGRPC()}},
		{"gRPC-Web", []connect.ClientOption{connect.WithGRPCWeb()}},
		{"connect zstd", withZstd()},
		{"gRPC zstd", append(withZstd(), connect.WithGRPC())},
	}
}

// Paths of unary calls.
const (
	callPath = "/outrigger.v1.ToolService/CallTool"
	echoPath = "/outrigger.demo.v1.Lab/Echo"
)

// prefixed is a message of gRPC.
func prefixed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...)
}

func zipped(raw []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(raw)
	_ = w.Close()
	return out.Bytes()
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// echoing is a service in front of a backend that answers with what it got.
func echoing(t testing.TB) *connectapi.Service {
	t.Helper()
	b := inFront(bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}))
	return connectapi.New(b.bridge, b.rpc, connectapi.Options{})
}

// front is a bridge, and what takes JSON-RPC in front of it.
type front struct {
	bridge *bridge.Bridge
	rpc    *dialect.Handler
}

func inFront(b *bridge.Bridge) front { return front{b, dialect.New(b, dialect.Options{})} }

func ofRig(r *mcptest.Rig) front { return front{r.App().Bridge(), r.Bridge} }

// mount serves the whole edge as the main listener does.
func mount(t *testing.T, b front, o connectapi.Options) string {
	t.Helper()
	s := connectapi.New(b.bridge, b.rpc, o)
	mux := http.NewServeMux()
	s.Mount(mux)
	mux.Handle("/", s.PassThrough(s.NotFound()))
	return mcptest.Serve(t, mux)
}

// reason is the canonical code that an error carries in its details.
func reason(t *testing.T, err error) errmap.Code {
	t.Helper()
	info := detail[*errdetails.ErrorInfo](t, err)
	if info == nil || info.GetDomain() != errmap.Domain {
		return ""
	}
	return errmap.Code(info.GetReason())
}

// detail is the first detail of a type, nil where there is none.
func detail[T any](t *testing.T, err error) (found T) {
	t.Helper()
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return found
	}
	for _, d := range failed.Details() {
		value, err := d.Value()
		if err != nil {
			t.Errorf("detail %s: %v", d.Type(), err)
			continue
		}
		if match, ok := value.(T); ok {
			return match
		}
	}
	return found
}
