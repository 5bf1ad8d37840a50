// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/wire"
)

// The reflection protocol (grpc/reflection/v1/reflection.proto) by field numbers; v1alpha has the same ones. It is
// spoken in bytes, because the files have to be decoded without this process's own extensions: a ready-made client
// decodes them with all that are linked in, and then fails on a foreign extension that has the number of one of ours.
const (
	reflectionV1      = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	reflectionV1Alpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

	askFileByName   = 3 // ServerReflectionRequest.file_by_filename
	askSymbol       = 4 // .file_containing_symbol
	askListServices = 7 // .list_services

	replyFiles    = 4 // ServerReflectionResponse.file_descriptor_response
	replyServices = 6 // .list_services_response
	replyError    = 7 // .error_response

	filesFile     = 1 // FileDescriptorResponse.file_descriptor_proto
	servicesEntry = 1 // ListServiceResponse.service
	serviceName   = 1 // ServiceResponse.name
	errorCode     = 1 // ErrorResponse.error_code
	errorMessage  = 2 // .error_message
)

// ErrRefused means that a reachable server answered that it cannot serve the request. Retrying does not help.
var ErrRefused = errors.New("the server rejects the request")

// refusalError is a server's answer that it cannot do what was asked; the stream goes on.
type refusalError struct {
	code    connect.Code
	message string
}

// Error returns the server's code and message.
func (e *refusalError) Error() string {
	return fmt.Sprintf("the server answered %v: %s", e.code, shown.Clip(e.message))
}

// Is reports that every refusal is an ErrRefused.
func (e *refusalError) Is(target error) bool { return target == ErrRefused }

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

// reflectionStream is one conversation with a reflection service. Not safe for concurrent use.
type reflectionStream struct {
	ctx      context.Context
	endpoint Endpoint
	most     int // bytes of one message
	stream   *connect.BidiStreamForClient[frame, frame]
	isAlpha  bool
}

// openReflection starts a v1 conversation. It falls back to v1alpha by itself when the first request is answered that
// there is no v1. The context's end breaks the stream.
func openReflection(ctx context.Context, endpoint Endpoint, most int) *reflectionStream {
	s := &reflectionStream{ctx: ctx, endpoint: endpoint, most: most}
	s.open(reflectionV1)
	return s
}

func (s *reflectionStream) open(procedure string) {
	options := append(slices.Clone(s.endpoint.Options), connect.WithCodec(frameCodec{}), connect.WithReadMaxBytes(s.most))
	client := connect.NewClient[frame, frame](s.endpoint.HTTPClient, strings.TrimSuffix(s.endpoint.BaseURL, "/")+procedure, options...)
	s.stream = client.CallBidiStream(s.ctx)
}

// end half-closes the stream and waits for the server to do the same; callers bound the context.
func (s *reflectionStream) end() {
	_ = s.stream.CloseRequest()
	_, _ = s.stream.Receive()
	_ = s.stream.CloseResponse()
}

// services are the names that the server lists.
func (s *reflectionStream) services() ([]string, error) {
	reply, err := s.ask(question(askListServices, "*"))
	if err != nil {
		return nil, err
	}
	listed, err := answerOf(reply, replyServices)
	if err != nil {
		return nil, err
	}
	var names []string
	err = wire.EachBytes(listed, servicesEntry, func(entry []byte) error {
		name := ""
		err := wire.EachBytes(entry, serviceName, func(b []byte) error { name = string(b); return nil })
		names = append(names, name)
		return err
	})
	return names, err
}

// Requests sent before the first response. Together they are far smaller than the initial HTTP/2 window
// (65,535 bytes, RFC 9113, section 6.9.2), so that sending never blocks, even if the server reads nothing.
const (
	maxPrefetch      = 32
	maxPrefetchBytes = 16 << 10
)

// symbols requests the file that defines each name, and passes the files to take in the order of the names, each with the
// imports that the server sends, or with its error. It prefetches: requests do not wait for earlier responses. It stops at
// the first error of take.
func (s *reflectionStream) symbols(names []string, take func(name string, files [][]byte, err error) error) error {
	sent, prefetched := 0, 0
	var unsent error
	for i := 0; i < len(names); {
		for unsent == nil && sent < len(names) && (sent == i || sent-i < maxPrefetch && prefetched+len(names[sent]) <= maxPrefetchBytes) {
			if unsent = s.send(question(askSymbol, names[sent])); unsent == nil {
				prefetched += len(names[sent])
				sent++
			}
		}
		if sent == i {
			return take(names[i], nil, unsent) // what was asked before has been answered
		}
		reply, err := s.receive()
		if s.isUnknown(err) {
			s.fallBack()
			sent, prefetched, unsent = i, 0, nil
			continue
		}
		prefetched -= len(names[i])
		var files [][]byte
		if err == nil {
			files, err = sentFiles(reply)
		}
		if err := take(names[i], files, err); err != nil {
			return err
		}
		i++
	}
	return nil
}

// file returns the file with this path, with as many of its imports as the server likes to send.
func (s *reflectionStream) file(path string) ([][]byte, error) {
	reply, err := s.ask(question(askFileByName, path))
	if err != nil {
		return nil, err
	}
	return sentFiles(reply)
}

// sentFiles are the files of a reply.
func sentFiles(reply []byte) ([][]byte, error) {
	answer, err := answerOf(reply, replyFiles)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	err = wire.EachBytes(answer, filesFile, func(b []byte) error { out = append(out, b); return nil })
	return out, err
}

// question is a request with one member.
func question(field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), value)
}

// ask sends one request and returns its reply.
func (s *reflectionStream) ask(request []byte) ([]byte, error) {
	reply, err := s.roundTrip(request)
	if s.isUnknown(err) {
		s.fallBack()
		return s.roundTrip(request)
	}
	return reply, err
}

// isUnknown reports whether the server does not know the service, and may know the older one.
func (s *reflectionStream) isUnknown(err error) bool {
	return !s.isAlpha && connect.CodeOf(err) == connect.CodeUnimplemented
}

// fallBack goes on with the older service. What was asked and not answered has to be asked again.
func (s *reflectionStream) fallBack() {
	_ = s.stream.CloseRequest()
	_ = s.stream.CloseResponse()
	s.isAlpha = true
	s.open(reflectionV1Alpha)
}

// answerOf returns the member of a reply that answers the request, or a *refusalError.
func answerOf(reply []byte, want protowire.Number) ([]byte, error) {
	var answer []byte
	var refusal *refusalError
	found := false
	err := wire.EachField(reply, func(num protowire.Number, body []byte) error {
		switch num {
		case want:
			answer, found = body, true
		case replyError:
			refusal = &refusalError{code: connect.CodeUnknown}
			if code, ok := wire.LastVarint(body, errorCode); ok && code <= uint64(connect.CodeUnauthenticated) {
				refusal.code = connect.Code(code)
			}
			return wire.EachBytes(body, errorMessage, func(b []byte) error { refusal.message = string(b); return nil })
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("the reply is not a reflection response: %w", err)
	case refusal != nil:
		return nil, refusal
	case !found:
		return nil, errors.New("the reply does not match the request")
	}
	return answer, nil
}

func (s *reflectionStream) roundTrip(request []byte) ([]byte, error) {
	if err := s.send(request); err != nil {
		return nil, err
	}
	return s.receive()
}

func (s *reflectionStream) send(request []byte) error {
	// A send that meets a closed stream says io.EOF; what closed it comes from receive.
	if err := s.stream.Send(&frame{request}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (s *reflectionStream) receive() ([]byte, error) {
	reply, err := s.stream.Receive()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the server ended the stream without a response")
	case err != nil:
		return nil, err
	}
	return reply.body, nil
}
