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
	askExtension    = 5 // .file_containing_extension
	askNumbers      = 6 // .all_extension_numbers_of_type
	askListServices = 7 // .list_services

	replyFiles    = 4 // ServerReflectionResponse.file_descriptor_response
	replyNumbers  = 5 // .all_extension_numbers_response
	replyServices = 6 // .list_services_response
	replyError    = 7 // .error_response

	extensionType   = 1 // ExtensionRequest.containing_type
	extensionNumber = 2 // .extension_number
	numbersEntry    = 2 // ExtensionNumberResponse.extension_number

	filesFile     = 1 // FileDescriptorResponse.file_descriptor_proto
	servicesEntry = 1 // ListServiceResponse.service
	serviceName   = 1 // ServiceResponse.name
	errorCode     = 1 // ErrorResponse.error_code
	errorMessage  = 2 // .error_message
)

// ErrRefused means that a reachable server answered that it cannot serve the request. Retrying does not help.
var ErrRefused = errors.New("the server rejects the request")

// errEnded means that the server ended the stream where an answer was due.
var errEnded = errors.New("the server ended the stream without a response")

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
	// answered counts the replies on the stream that is open. isSingle tells that the server ends each one after one reply.
	answered int
	isSingle bool
}

// openReflection starts a v1 conversation. It falls back to v1alpha by itself when the first request is answered that
// there is no v1. The context's end breaks the stream.
func openReflection(ctx context.Context, endpoint Endpoint, most int) *reflectionStream {
	s := &reflectionStream{ctx: ctx, endpoint: endpoint, most: most}
	s.open()
	return s
}

func (s *reflectionStream) open() {
	procedure := reflectionV1
	if s.isAlpha {
		procedure = reflectionV1Alpha
	}
	options := append(slices.Clone(s.endpoint.Options), connect.WithCodec(frameCodec{}), connect.WithReadMaxBytes(s.most))
	client := connect.NewClient[frame, frame](s.endpoint.HTTPClient, strings.TrimSuffix(s.endpoint.BaseURL, "/")+procedure, options...)
	s.stream, s.answered = client.CallBidiStream(s.ctx), 0
}

// reopen replaces the stream. Requests without a response have to be sent again.
func (s *reflectionStream) reopen() {
	_ = s.stream.CloseRequest()
	_ = s.stream.CloseResponse()
	s.open()
}

// makeReady replaces a stream on which no further question can be asked.
func (s *reflectionStream) makeReady() {
	if s.isSingle && s.answered > 0 {
		s.reopen()
	}
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
		if sent == i {
			s.makeReady()
		}
		for unsent == nil && sent < len(names) &&
			(sent == i || !s.isSingle && sent-i < maxPrefetch && prefetched+len(names[sent]) <= maxPrefetchBytes) {
			if unsent = s.send(question(askSymbol, names[sent])); unsent == nil {
				prefetched += len(names[sent])
				sent++
			}
		}
		if sent == i {
			return take(names[i], nil, unsent) // what was asked before has been answered
		}
		reply, err := s.receive()
		if s.again(err) {
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

// numbers are those of all extensions of a message that the server knows.
func (s *reflectionStream) numbers(message string) ([]uint64, error) {
	reply, err := s.ask(question(askNumbers, message))
	if err != nil {
		return nil, err
	}
	answer, err := answerOf(reply, replyNumbers)
	if err != nil {
		return nil, err
	}
	return wire.Varints(answer, numbersEntry)
}

// extension returns the file with an extension of a message, as file does.
func (s *reflectionStream) extension(message string, number uint64) ([][]byte, error) {
	body := question(extensionType, message)
	body = protowire.AppendVarint(protowire.AppendTag(body, extensionNumber, protowire.VarintType), number)
	reply, err := s.ask(question(askExtension, string(body)))
	if err != nil {
		return nil, err
	}
	return sentFiles(reply)
}

// ask sends one request and returns its reply.
func (s *reflectionStream) ask(request []byte) ([]byte, error) {
	for {
		s.makeReady()
		reply, err := s.roundTrip(request)
		if !s.again(err) {
			return reply, err
		}
	}
}

// again reports whether the last question has to be asked again, on the stream that is open now: the server does not know
// the service and may know the older one, or it has ended the stream after the answer before.
func (s *reflectionStream) again(err error) bool {
	switch {
	case !s.isAlpha && s.answered == 0 && !s.isSingle && connect.CodeOf(err) == connect.CodeUnimplemented:
		s.isAlpha = true
	case errors.Is(err, errEnded) && s.answered > 0:
		s.isSingle = true
	default:
		return false
	}
	s.reopen()
	return true
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
	if errors.Is(err, io.EOF) {
		err = errEnded
	}
	if err != nil {
		return nil, err
	}
	s.answered++
	return reply.body, nil
}
