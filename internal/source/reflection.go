// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/source/shown"
	"github.com/outrigger-mcp/outrigger/internal/source/wire"
)

// closeWait is how long a reflecting server may take to end the stream after we did. It has nothing left to say, so a
// healthy one needs one round trip; after that the stream is cut off.
const closeWait = 500 * time.Millisecond

// ErrNoServices means that a server supports reflection but lists no callable services.
var ErrNoServices = errors.New("the server lists no callable services")

// ErrNoneSelected means that a server lists services and the selection takes none of them.
var ErrNoneSelected = errors.New("the server lists no callable services")

// Endpoint holds what is needed to call a server.
type Endpoint struct {
	// HTTPClient speaks HTTP/2 to the server, because reflection is a bidirectional stream.
	HTTPClient connect.HTTPClient
	// BaseURL is the server's URL without a path.
	BaseURL string
	// Options choose the protocol, as in connect.WithGRPC(). A codec and a message size limit are added.
	Options []connect.ClientOption
}

// Dial finds the endpoint to reflect on. It is called once per load, so the result of a probe need not be final.
type Dial func(ctx context.Context) (Endpoint, error)

// ReflectionOptions configure NewReflection. The zero value means the defaults.
type ReflectionOptions struct {
	// Selection skips services that are excluded as a whole. Nil asks for all except infrastructure.
	// *catalog.Selection implements it.
	Selection Selection
	Limits    Limits
	// Mask hides secrets in server errors. Nil changes nothing.
	Mask func(error) error
}

// Selection tells which services are certainly unwanted, so that their descriptors need not be requested.
type Selection interface {
	Skips(service string) bool
}

// Reflection is a server's reflection service: a source of tools, and of types that occur only in responses.
type Reflection interface {
	Conditional
	// FindType requests the files that define a message. The error wraps ErrRefused if the server answered that it has none.
	FindType(ctx context.Context, name protoreflect.FullName) ([]*descriptorpb.FileDescriptorProto, error)
	// Lists reports whether the server lists a service, also one that is infrastructure. A server without reflection lists none.
	Lists(ctx context.Context, service string) (bool, error)
}

const (
	// maxAnswerBytes and maxAnswerFiles bound the descriptors of one type that is asked for.
	maxAnswerBytes = 4 << 20
	maxAnswerFiles = 500
)

// serverReflection is a Source that asks a running server.
type serverReflection struct {
	name      string
	dial      Dial
	selection Selection
	limits    Limits
	mask      func(error) error
}

// NewReflection returns a source that asks the server at the target for its services and all files they need. It tries
// grpc.reflection.v1 first, then v1alpha if the server does not implement v1. It uses one stream and closes it before Load
// returns. Comments are available only if the server's descriptors contain them. The target is for display only; a
// password in it is not shown.
//
// Services that the server lists but cannot describe, and services whose files are incomplete and cannot be completed, are
// omitted, each with a warning. Extensions of the messages are requested too.
//
// Errors are *Error and not permanent: another server may answer the next time. It is an error if a server lists nothing
// callable and does not implement the tool API, if it describes none of its services, or if the connection fails.
func NewReflection(target string, dial Dial, o ReflectionOptions) Reflection {
	return &serverReflection{
		name: "reflection at " + redactedURL(target), dial: dial, selection: o.Selection, limits: o.Limits.withDefaults(), mask: o.Mask,
	}
}

// redactedURL is the URL without its password.
func redactedURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an unreadable URL"
	}
	return u.Redacted()
}

func (r *serverReflection) Name() string { return r.name }

func (r *serverReflection) Load(ctx context.Context) (*Loaded, error) { return r.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional. It always requests everything.
func (r *serverReflection) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	ctx, cancel := r.limits.load(ctx)
	defer cancel()
	endpoint, err := r.dial(ctx)
	if err != nil {
		return nil, &Error{Source: r.name, Step: "connect", Cause: cmp.Or(context.Cause(ctx), err)}
	}
	w := newReflectionWalk(r.name, openReflection(ctx, endpoint, r.limits.MaxBytes), r.limits)
	w.selection, w.before, w.known = r.selection, before, knownFiles(before)
	out, err := w.run()
	cause := whyEnded(ctx, err)
	w.stream.halfClose(cancel, err)
	var failed *Error
	if cause != nil && errors.As(err, &failed) {
		failed.Cause = cause
	}
	if r.mask != nil && errors.As(err, &failed) {
		failed.Cause = r.mask(failed.Cause)
	}
	return out, err
}

// Lists implements Reflection.
func (r *serverReflection) Lists(ctx context.Context, service string) (bool, error) {
	ctx, cancel := r.limits.load(ctx)
	defer cancel()
	endpoint, err := r.dial(ctx)
	if err != nil {
		return false, cmp.Or(context.Cause(ctx), err)
	}
	stream := openReflection(ctx, endpoint, r.limits.MaxBytes)
	names, err := stream.services()
	if cause := whyEnded(ctx, err); cause != nil && err != nil {
		err = cause
	}
	stream.halfClose(cancel, err)
	switch {
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		return false, nil
	case err != nil && r.mask != nil:
		return false, r.mask(err)
	}
	return slices.Contains(names, service), err
}

// FindType implements Reflection: it requests the file that defines a message, and the files that it imports.
func (r *serverReflection) FindType(ctx context.Context, name protoreflect.FullName) ([]*descriptorpb.FileDescriptorProto, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	endpoint, err := r.dial(ctx)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	limits := Limits{MaxBytes: maxAnswerBytes, MaxFiles: maxAnswerFiles}.withDefaults()
	w := newReflectionWalk(r.name, openReflection(ctx, endpoint, limits.MaxBytes), limits)
	err = w.stream.symbols([]string{string(name)}, func(_ string, got [][]byte, err error) error {
		if err == nil {
			_, err = w.keep(got)
		}
		return err
	})
	if err == nil {
		err = w.complete()
	}
	w.stream.halfClose(cancel, err)
	if err != nil {
		return nil, err
	}
	out := make([]*descriptorpb.FileDescriptorProto, 0, len(w.files))
	for _, path := range shown.SortedKeys(w.files) {
		if err := w.files[path].decode(); err != nil {
			return nil, w.fail("decode "+shown.Clip(path), err)
		}
		out = append(out, w.files[path].file)
	}
	return out, nil
}

// deadlineSkew is how far apart the two ends of one machine or one network may see the same deadline pass.
const deadlineSkew = 100 * time.Millisecond

// whyEnded is what ended the context, nil where nothing did. The server gets our deadline and may be the first to see
// it pass; then ours is waited for, which says more.
func whyEnded(ctx context.Context, err error) error {
	deadline, ok := ctx.Deadline()
	if err != nil && ok && connect.CodeOf(err) == connect.CodeDeadlineExceeded && time.Until(deadline) < deadlineSkew {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

// What is asked for extensions at most, for one source: enough for the proto2 APIs in use, and bounded by a server that
// invents numbers.
const (
	maxExtended   = 256
	maxExtensions = 1_000
)

// extensions asks for the extensions of all messages that can be extended, in files that no service has to import. What the
// server does not answer is left out, because reflection without these questions is common.
func (w *reflectionWalk) extensions() error {
	numbers := 0
	for i := 0; i < len(w.open); i++ { // what comes may have more of them
		message := w.open[i]
		if i == maxExtended || numbers > maxExtensions {
			w.warnings = append(w.warnings, Warning{w.source, fmt.Sprintf(
				"only the extensions of %d messages, or %d extensions, are asked for; --descriptors has all", maxExtended, maxExtensions)})
			return nil
		}
		known, err := w.stream.numbers(message)
		if errors.Is(err, ErrRefused) {
			continue
		}
		for _, number := range known[:min(len(known), maxExtensions)] {
			var got [][]byte
			if numbers++; numbers > maxExtensions {
				break
			}
			if got, err = w.stream.extension(message, number); err == nil {
				_, err = w.keep(got)
			}
			if err != nil && !errors.Is(err, ErrRefused) {
				break
			}
			err = nil
		}
		switch over := (*limitError)(nil); {
		case errors.As(err, &over):
			return w.fail("find extensions of "+message, err)
		case err != nil:
			w.warnings = append(w.warnings, Warning{w.source, fmt.Sprintf("extensions of %s are unknown: %v; --descriptors has them", shown.Clip(message), err)})
			return nil // the server does not know the question, and may have ended the stream
		}
		if err := w.complete(); err != nil {
			return err
		}
	}
	return nil
}

// openMessages are the full names of the messages of a file that can be extended, but for options: a service imports the
// files of those that it uses.
func openMessages(f *descriptorpb.FileDescriptorProto) []string {
	var out []string
	eachMessage(f, func(name string, m *descriptorpb.DescriptorProto) {
		if len(m.GetExtensionRange()) > 0 && !strings.HasPrefix(name, "google.protobuf.") {
			out = append(out, name)
		}
	})
	return out
}

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

// halfClose half-closes the stream and waits for the server to do the same: some serve no other call while it is open. How it ends
// cannot take back what was received, and after a failure there is nothing to wait for. cancel ends its context.
func (s *reflectionStream) halfClose(cancel func(), err error) {
	wait := closeWait
	if err != nil {
		wait = 0
	}
	defer time.AfterFunc(wait, cancel).Stop()
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
