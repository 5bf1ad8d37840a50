// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// Upstream is a [bridge.Upstream] that is a function.
type Upstream func(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*bridge.Answer, *errmap.Error)

// Call implements [bridge.Upstream].
func (c Upstream) Call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*bridge.Answer, *errmap.Error) {
	return c(ctx, m, in, header)
}

// Stream implements [bridge.Upstream]: the one answer is all of the stream.
func (c Upstream) Stream(ctx context.Context, m *catalog.Method, in []byte, header http.Header, each func([]byte) error) (*bridge.Answer, *errmap.Error) {
	answer, failed := c(ctx, m, in, header)
	if failed != nil {
		return answer, failed
	}
	if err := each(answer.Body); err != nil {
		return answer, errmap.Wrap(errmap.InternalError, err)
	}
	return answer, nil
}

// Open implements [bridge.Upstream]: each message has its answer. An RPC that answers with one message answers with
// that to the last.
func (c Upstream) Open(ctx context.Context, m *catalog.Method, header http.Header) (bridge.BackendStream, *errmap.Error) {
	s := &upstreamStream{call: c, method: m, header: header, messages: make(chan []byte)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s, nil
}

// upstreamStream is an open stream of an Upstream.
type upstreamStream struct {
	ctx      context.Context //nolint:containedctx // that of the RPC
	cancel   context.CancelFunc
	call     Upstream
	method   *catalog.Method
	header   http.Header
	messages chan []byte
	once     sync.Once
	last     []byte
}

// Send implements [bridge.BackendStream].
func (s *upstreamStream) Send(message []byte) error {
	select {
	case s.messages <- bytes.Clone(message):
		return nil
	case <-s.ctx.Done():
		return io.EOF
	}
}

// CloseSend implements [bridge.BackendStream].
func (s *upstreamStream) CloseSend() { s.once.Do(func() { close(s.messages) }) }

// Receive implements [bridge.BackendStream].
func (s *upstreamStream) Receive() ([]byte, error) {
	for {
		select {
		case message, ok := <-s.messages:
			if !ok && (s.method.ServerStreaming || s.last == nil) {
				return nil, io.EOF
			}
			if ok && !s.method.ServerStreaming {
				s.last = message
				continue
			}
			if !ok {
				message = s.last
			}
			answer, err := s.call(s.ctx, s.method, message, s.header)
			if err != nil {
				return nil, err
			}
			return answer.Body, nil
		case <-s.ctx.Done():
			return nil, errmap.Wrap(errmap.Cancelled, s.ctx.Err())
		}
	}
}

// Header implements [bridge.BackendStream].
func (s *upstreamStream) Header() (http.Header, bool) { return nil, true }

// Trailer implements [bridge.BackendStream].
func (s *upstreamStream) Trailer() http.Header { return nil }

// Close implements [bridge.BackendStream].
func (s *upstreamStream) Close() { s.cancel() }

// Echo is an Upstream that answers with the bytes it was sent, which the response
// of lab.echo reads like its request.
func Echo(_ context.Context, _ *catalog.Method, in []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	return &bridge.Answer{Body: bytes.Clone(in)}, nil
}

// Source brings the demo service's descriptors without a demo service. The
// methods named lose what their tool option declares, as most services' methods
// have none.
func Source(undeclared ...string) source.Source {
	set := Descriptors(demov1.File_outrigger_demo_v1_fleet_proto, demov1.File_outrigger_demo_v1_lab_proto)
	for _, file := range set.GetFile() {
		for _, service := range file.GetService() {
			for _, method := range service.GetMethod() {
				if slices.Contains(undeclared, method.GetName()) {
					proto.ClearExtension(method.GetOptions(), optionsv1.E_Tool)
				}
			}
		}
	}
	return source.NewDescriptors("memory", set, "outrigger.demo.v1.Fleet", "outrigger.demo.v1.Lab")
}

// Descriptors are those of files with all that they import, each behind what it imports.
// They have no comments.
func Descriptors(files ...protoreflect.FileDescriptor) *descriptorpb.FileDescriptorSet {
	set, seen := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	for _, file := range files {
		add(file)
	}
	return set
}

// Memory returns a loaded catalog of the demo service's tools that needs no
// demo service. Nothing runs behind it. All tests of a process share it, because
// it takes a while to build: it must not be refreshed, and [Register] refuses it. A test that
// changes its catalog has [OwnMemory].
func Memory(t testing.TB) *catalog.Live {
	t.Helper()
	live, err := memory()
	if err != nil {
		t.Fatalf("load the catalog: %v", err)
	}
	return live
}

// OwnMemory is [Memory] for one test alone, which may change it.
func OwnMemory(t testing.TB) *catalog.Live {
	t.Helper()
	live, err := newMemory()
	if err != nil {
		t.Fatalf("load the catalog: %v", err)
	}
	return live
}

// memory builds the catalog on first use. Its tools have refused something by then, so that no bubble of synctest is the first to have
// their validators made: what waits for one would be of that bubble, and end the process in another.
var memory = sync.OnceValues(func() (*catalog.Live, error) {
	live, err := newMemory()
	if err == nil {
		for _, tool := range live.Current().Tools() {
			if tool.In != nil {
				_, _ = tool.In.ToWire(nil, []byte(`{"no such field":1}`))
			}
		}
	}
	return live, err
})

func newMemory() (*catalog.Live, error) {
	live := catalog.NewLive([]source.Source{Source()}, catalog.LiveOptions{Build: catalog.BuildOptions{Programs: true}})
	return live, live.Refresh(context.Background())
}
