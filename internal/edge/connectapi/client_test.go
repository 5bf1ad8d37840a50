// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"errors"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

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

// mount serves the whole edge as the main listener does.
func mount(t *testing.T, b *dialect.Handler, o connectapi.Options) string {
	t.Helper()
	s := connectapi.New(b, o)
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
