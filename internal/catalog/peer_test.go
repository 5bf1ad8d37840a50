// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// The reflection protocol by field numbers, as the source has them for itself.
const (
	// reflectionCloseWait is how long the source lets a server end the stream.
	reflectionCloseWait = 500 * time.Millisecond
	// maxPrefetch is how many questions the source asks before the first answer.
	maxPrefetch = 32

	reflectionV1      = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	reflectionV1Alpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

	askFileByName   = 3 // ServerReflectionRequest.file_by_filename
	askSymbol       = 4 // .file_containing_symbol
	askExtension    = 5 // .file_containing_extension
	askNumbers      = 6 // .all_extension_numbers_of_type
	askListServices = 7 // .list_services

	replyFiles    = 4 // ServerReflectionResponse.file_descriptor_response
	replyNumbers  = 5 // .all_extension_numbers_response
	replyServices = 6 // .list_services_response
	replyError    = 7 // .error_response

	filesFile     = 1 // FileDescriptorResponse.file_descriptor_proto
	servicesEntry = 1 // ListServiceResponse.service
	serviceName   = 1 // ServiceResponse.name
	errorCode     = 1 // ErrorResponse.error_code
	errorMessage  = 2 // .error_message
)

// frame is one message as bytes.
type frame struct{ body []byte }

// frameCodec passes frames through unchanged, under the name of the Protobuf codec. Statuses with error details are
// messages and are decoded as such.
type frameCodec struct{}

func (frameCodec) Name() string { return "proto" }

func (frameCodec) Marshal(v any) ([]byte, error) {
	switch m := v.(type) {
	case *frame:
		// What is returned goes to connect's pool, and a request may be sent again.
		return slices.Clone(m.body), nil
	case proto.Message:
		return proto.Marshal(m)
	}
	return nil, fmt.Errorf("cannot encode %T", v)
}

func (frameCodec) Unmarshal(data []byte, v any) error {
	switch m := v.(type) {
	case *frame:
		// The buffer belongs to connect's pool.
		m.body = slices.Clone(data)
		return nil
	case proto.Message:
		return proto.Unmarshal(data, m)
	}
	return fmt.Errorf("cannot decode into %T", v)
}

// serveH2C serves the handler on loopback over HTTP/2 without TLS and returns its URL.
func serveH2C(t testing.TB, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// dialTo is an endpoint over HTTP/2 without TLS, on its own connections, which end with the test. Without options it
// speaks gRPC.
func dialTo(t testing.TB, url string, options ...connect.ClientOption) source.Dial {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	if len(options) == 0 {
		options = []connect.ClientOption{connect.WithGRPC()}
	}
	return func(context.Context) (source.Endpoint, error) {
		return source.Endpoint{HTTPClient: &http.Client{Transport: transport}, BaseURL: url, Options: options}, nil
	}
}

// scripted is a reflection server that says what a test has it say, true or not.
type scripted struct {
	mu       sync.Mutex
	services []string
	symbols  map[string][]*descriptorpb.FileDescriptorProto
	files    map[string][]*descriptorpb.FileDescriptorProto
	// extensions are files by the messages that they extend, each with one extension of number 100.
	extensions map[string][]*descriptorpb.FileDescriptorProto
	// isSingle has the server end each stream after one answer.
	isSingle bool
	// reply, where set, replaces the reply to every request.
	reply []byte
	// stop, where set, breaks the stream with this error at the given question.
	stop map[string]error
	// hang, where set, is what to wait for before an answer to the given question.
	hang map[string]<-chan struct{}
	// lingers has the server keep the stream open when the client is done with it.
	lingers bool
	// seen are the questions, streams counts the streams, open those that are open.
	seen          []string
	streams, open int
}

func newScripted(services ...string) *scripted {
	return &scripted{
		services: services,
		symbols:  map[string][]*descriptorpb.FileDescriptorProto{}, files: map[string][]*descriptorpb.FileDescriptorProto{},
		stop: map[string]error{}, hang: map[string]<-chan struct{}{},
	}
}

// telling answers truthfully about the files, one file at a time, as some servers do.
func telling(files ...*descriptorpb.FileDescriptorProto) *scripted {
	s := newScripted()
	for _, f := range files {
		s.files[f.GetName()] = []*descriptorpb.FileDescriptorProto{f}
		for _, service := range f.GetService() {
			name := string(protoreflect.FullName(f.GetPackage()).Append(protoreflect.Name(service.GetName())))
			s.services = append(s.services, name)
			s.symbols[name] = []*descriptorpb.FileDescriptorProto{f}
		}
	}
	return s
}

// serve mounts the server at the path and returns its URL.
func (s *scripted) serve(t testing.TB, path string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(path, connect.NewBidiStreamHandler(path, s.converse, connect.WithCodec(frameCodec{})))
	return serveH2C(t, mux)
}

func (s *scripted) converse(ctx context.Context, stream *connect.BidiStream[frame, frame]) error {
	s.count(1)
	defer s.count(-1)
	for {
		request, err := stream.Receive()
		if err != nil {
			if s.lingers {
				<-ctx.Done()
			}
			return nil
		}
		reply, err := s.answer(ctx, request.body)
		if err != nil {
			return err
		}
		if err := stream.Send(&frame{reply}); err != nil || s.isSingle {
			return err
		}
	}
}

func (s *scripted) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
	s.streams += max(0, n)
}

func (s *scripted) answer(ctx context.Context, request []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	num, _, n := protowire.ConsumeTag(request)
	value, _ := protowire.ConsumeString(request[n:])
	question := map[protowire.Number]string{askListServices: "list", askSymbol: "symbol " + value, askFileByName: "file " + value, askNumbers: "extensions of " + value}[num]
	s.seen = append(s.seen, question)
	if wait := s.hang[question]; wait != nil {
		s.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
		}
		s.mu.Lock()
		// The deadline is the server's too, and may pass here first.
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if err := s.stop[question]; err != nil {
		return nil, err
	}
	if s.reply != nil {
		return s.reply, nil
	}
	switch num {
	case askListServices:
		var list []byte
		for _, name := range s.services {
			list = appendBytes(list, servicesEntry, appendBytes(nil, serviceName, []byte(name)))
		}
		return appendBytes(nil, replyServices, list), nil
	case askSymbol:
		return fileReply(s.symbols[value], value)
	case askFileByName:
		return fileReply(s.files[value], value)
	case askNumbers:
		if s.extensions[value] == nil {
			return fileReply(nil, value)
		}
		return appendBytes(nil, replyNumbers, appendBytes(nil, 2, protowire.AppendVarint(nil, 100))), nil
	case askExtension:
		for message, files := range s.extensions {
			if want := protowire.AppendVarint(protowire.AppendTag(appendBytes(nil, 1, []byte(message)), 2, protowire.VarintType), 100); string(want) == value {
				return fileReply(files, message)
			}
		}
		return fileReply(nil, "that extension")
	}
	return nil, fmt.Errorf("unknown question %d", num)
}

// fileReply is a file answer; nil files are "not found", an empty list is an answer without files.
func fileReply(files []*descriptorpb.FileDescriptorProto, what string) ([]byte, error) {
	if files == nil {
		refusal := protowire.AppendVarint(protowire.AppendTag(nil, errorCode, protowire.VarintType), uint64(connect.CodeNotFound))
		return appendBytes(nil, replyError, appendBytes(refusal, errorMessage, []byte("nothing known of "+what))), nil
	}
	var list []byte
	for _, f := range files {
		raw, err := proto.Marshal(f)
		if err != nil {
			return nil, err
		}
		list = appendBytes(list, filesFile, raw)
	}
	return appendBytes(nil, replyFiles, list), nil
}

func appendBytes(dst []byte, num protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, num, protowire.BytesType), value)
}
