// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Defaults of nativeLimits, with reasons.
const (
	// defaultMaxTools bounds the list of tools. It is the contract's limit of one page.
	defaultMaxTools = 10_000
	// defaultMaxPages bounds the pages of the list of tools, including empty ones. It
	// admits a full list at ten tools per page.
	defaultMaxPages = 1_000
	// defaultMaxListBytes bounds the total encoded size of the pages of the list of
	// tools. It admits 10,000 tools of 6 KiB, each with a long description and a rich
	// schema.
	defaultMaxListBytes = 64 << 20
	// defaultStreamRetry is how long the client does not try CallToolStream after the
	// backend reported that it does not implement it. The client detects a new version of
	// the backend behind the same address within that time.
	defaultStreamRetry = 5 * time.Minute
	// defaultEndGrace is how long a stream may continue after the outcome of its call
	// before the client cuts it. The end carries the trailers and follows at once. One
	// second covers a busy machine, and costs only callers of a faulty backend.
	defaultEndGrace = time.Second
)

// nativeLimits bound the answers of a backend. The defaults say what each is for.
type nativeLimits struct {
	tools, pages, listBytes int
	streamRetry, endGrace   time.Duration
}

// NativeClient calls a backend that implements outrigger.v1.ToolService. It is safe for
// concurrent use. It owns no connections: closing the backend's client is enough.
type NativeClient struct {
	backend   *Client
	limits    nativeLimits
	rpcs      map[reflect.Type]unaryRPC // by the type of the request
	validator func() (protovalidate.Validator, error)
	unaryTill atomic.Pointer[time.Time] // CallToolStream is not tried before; nil: it may be
}

// NewNative makes a client. It makes no calls. It builds the validator (about a
// megabyte and 30 ms) only when there is a response to check.
func NewNative(client *Client) *NativeClient {
	return &NativeClient{
		backend: client, limits: nativeLimits{defaultMaxTools, defaultMaxPages, defaultMaxListBytes, defaultStreamRetry, defaultEndGrace},
		rpcs:      unaryRPCs(),
		validator: sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() }),
	}
}

// exchange makes a unary call and fills out with the checked body of the answer. On an
// *InvalidAnswerError the answer is there, too.
func (c *NativeClient) exchange(ctx context.Context, procedure string, in, out proto.Message, header http.Header) (*Answer, error) {
	body, err := encode(in)
	if err != nil {
		return nil, err
	}
	answer, err := c.backend.Call(ctx, procedure, body, header)
	if err != nil {
		return nil, err
	}
	return answer, c.check(procedure, answer.Body, out)
}

// encode fails where a string is not UTF-8, which cannot be sent.
func encode(in proto.Message) ([]byte, error) {
	body, err := proto.Marshal(in)
	if err != nil {
		return nil, newError(KindRejected, fmt.Sprintf("the request cannot be encoded: %v", err), nil)
	}
	return body, nil
}

// check decodes a message of the backend, applies the rules of its type, and settles it.
func (c *NativeClient) check(procedure string, body []byte, out proto.Message) error {
	if err := proto.Unmarshal(body, out); err != nil {
		return invalid(procedure, keywordEncoding, "wanted an encoded %s", out.ProtoReflect().Descriptor().FullName())
	}
	validator, err := c.validator()
	if err != nil {
		return fmt.Errorf("native: new validator: %w", err)
	}
	err = validator.Validate(out)
	var rules *protovalidate.ValidationError
	switch {
	case err == nil:
		makeRepresentable(out)
		return nil
	case errors.As(err, &rules):
		return broken(procedure, rules.Violations)
	default:
		return fmt.Errorf("native: validate the response of %s: %w", procedure, err)
	}
}

// errOver ends a stream that goes on after its outcome.
var errOver = errors.New("the outcome was already received")

// callTool runs a tool and returns its outcome. The outcome may be an error of the tool
// itself. If events is not nil, callTool passes it progress, log, partial data and quiet
// events, in order, on the caller's goroutine, before it returns. callTool reads no
// further event while events runs.
//
// With events the RPC is CallToolStream, without them CallTool. If the backend reports,
// before any event, that it does not implement CallToolStream, the client uses CallTool
// at once, and for StreamRetry afterwards.
//
// callTool ignores everything after an outcome. It cuts a stream that does not end
// within EndGrace after the outcome, and then the metadata lacks the trailer. A stream
// that ends successfully without an outcome is an *InvalidAnswerError, like every event
// that breaks its rules. On errors after the response began, the metadata holds its
// header.
func (c *NativeClient) callTool(ctx context.Context, call *outriggerv1.ToolCall, header http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *Answer, error) {
	unary := func() (*outriggerv1.ToolOutcome, *Answer, error) {
		outcome := new(outriggerv1.ToolOutcome)
		answer, err := c.exchange(ctx, outriggerv1connect.ToolServiceCallToolProcedure, call, outcome, header)
		if err != nil {
			return nil, answer, err
		}
		answer.Body = nil
		return outcome, answer, nil
	}
	if till := c.unaryTill.Load(); events == nil || till != nil && time.Now().Before(*till) {
		return unary()
	}
	s := &toolStream{client: c, events: events}
	outcome, answer, err := s.run(ctx, call, header)
	if s.began || !isUnimplemented(err) {
		return outcome, answer, err
	}
	outcome, answer, err = unary()
	if !isUnimplemented(err) { // else it is the tool that is not there, or nothing is
		till := time.Now().Add(c.limits.streamRetry)
		c.unaryTill.Store(&till)
	}
	return outcome, answer, err
}

// toolStream is one call of CallToolStream.
type toolStream struct {
	client  *NativeClient
	events  func(*outriggerv1.ToolEvent)
	began   bool // an event arrived
	outcome *outriggerv1.ToolOutcome
	refused error       // what was wrong with an event
	cut     func()      // ends the call
	grace   *time.Timer // calls cut
}

func (s *toolStream) run(ctx context.Context, call *outriggerv1.ToolCall, header http.Header) (*outriggerv1.ToolOutcome, *Answer, error) {
	const procedure = outriggerv1connect.ToolServiceCallToolStreamProcedure
	body, err := encode(call)
	if err != nil {
		return nil, nil, err
	}
	ctx, s.cut = context.WithCancel(ctx)
	defer s.cut()
	answer, err := s.client.backend.Stream(ctx, procedure, body, header, s.addEvent)
	if s.grace != nil {
		s.grace.Stop()
	}
	switch {
	case s.outcome != nil:
		return s.outcome, answer, nil
	case s.refused != nil:
		return nil, answer, s.refused
	case err != nil:
		return nil, answer, err
	default:
		return nil, answer, invalid(procedure, keywordOutcome, "wanted an outcome as the last event")
	}
}

// addEvent takes one event of the stream.
func (s *toolStream) addEvent(message []byte) error {
	if s.outcome != nil {
		return errOver
	}
	s.began = true
	event := new(outriggerv1.ToolEvent)
	if s.refused = s.client.check(outriggerv1connect.ToolServiceCallToolStreamProcedure, message, event); s.refused != nil {
		return s.refused
	}
	if s.outcome = event.GetOutcome(); s.outcome != nil {
		s.grace = time.AfterFunc(s.client.limits.endGrace, s.cut)
		return nil
	}
	s.events(event)
	return nil
}

// Describe returns the backend's description of itself and its features.
func (c *NativeClient) Describe(ctx context.Context) (*outriggerv1.ServerDescription, error) {
	out := new(outriggerv1.ServerDescription)
	if _, err := c.exchange(ctx, outriggerv1connect.ToolServiceDescribeProcedure, &outriggerv1.DescribeRequest{}, out, nil); err != nil {
		return nil, err
	}
	return out, nil
}

// ask makes the unary RPC that belongs to the type of in: a ReadResourceRequest returns a ResourceOutcome, a ToolCall a
// ToolOutcome, and so on. It sends header as metadata of the RPC. The Answer has the metadata of the response, also beside an
// *InvalidAnswerError; other errors hold their own. A type that belongs to no RPC is a *Error of KindRejected.
func (c *NativeClient) ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *Answer, error) {
	rpc, ok := c.rpcs[reflect.TypeOf(in)]
	if !ok {
		return nil, nil, newError(KindRejected, fmt.Sprintf("no unary RPC takes a message of type %T", in), nil)
	}
	out := rpc.answer.New().Interface()
	answer, err := c.exchange(ctx, rpc.procedure, in, out, header)
	if err != nil {
		return nil, answer, err
	}
	answer.Body = nil
	return out, answer, nil
}

// unaryRPC is a unary RPC of outrigger.v1.ToolService.
type unaryRPC struct {
	procedure string
	answer    protoreflect.MessageType
}

// unaryRPCs are the RPCs that may be asked, by the types of their requests.
func unaryRPCs() map[reflect.Type]unaryRPC {
	service := outriggerv1.File_outrigger_v1_tool_service_proto.Services().ByName("ToolService")
	out := map[reflect.Type]unaryRPC{}
	for _, name := range [...]protoreflect.Name{
		"Describe", "CallTool", "ListTools", "ListResources", "ListResourceTemplates", "ReadResource", "ListSkills", "GetSkill",
		"ReadDirectory", "ListPrompts", "GetPrompt", "Complete", "GetTask", "UpdateTask", "CancelTask",
	} {
		m := service.Methods().ByName(name)
		request, _ := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName()) // both are linked in with the service
		answer, _ := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
		out[reflect.TypeOf(request.Zero().Interface())] = unaryRPC{fmt.Sprintf("/%s/%s", service.FullName(), name), answer}
	}
	return out
}

// Tools returns all tools, page by page, in the backend's order. If a list is longer
// than the limits, or a cursor repeats, the error is an
// *InvalidAnswerError and there is no list. Tools checks each name by itself. The
// catalog checks for name collisions.
func (c *NativeClient) Tools(ctx context.Context) ([]*outriggerv1.Tool, error) {
	const procedure = outriggerv1connect.ToolServiceListToolsProcedure
	var (
		tools []*outriggerv1.Tool
		bytes int
		seen  = map[[sha256.Size]byte]struct{}{} // cursors may be long, and there may be many
		in    outriggerv1.ListToolsRequest
	)
	for range c.limits.pages {
		page := new(outriggerv1.ListToolsResponse)
		answer, err := c.exchange(ctx, procedure, &in, page, nil)
		if err != nil {
			return nil, err
		}
		tools = append(tools, page.GetTools()...)
		bytes += len(answer.Body)
		switch {
		case len(tools) > c.limits.tools:
			return nil, invalid(procedure, keywordLimit, "wanted at most %d tools", c.limits.tools)
		case bytes > c.limits.listBytes:
			return nil, invalid(procedure, keywordLimit, "wanted at most %d bytes on all pages", c.limits.listBytes)
		case page.NextCursor == nil: // the empty string is a cursor like any other
			return tools, nil
		}
		cursor := sha256.Sum256([]byte(page.GetNextCursor()))
		if _, again := seen[cursor]; again {
			return nil, invalid(procedure, keywordCursor, "wanted a cursor that no earlier page had")
		}
		seen[cursor] = struct{}{}
		in.Cursor = page.NextCursor
	}
	return nil, invalid(procedure, keywordLimit, "wanted at most %d pages", c.limits.pages)
}

// maxViolations is how many breaches an error names. A page may hold thousands of
// tools with the same one; a few show what to mend.
const maxViolations = 16

// InvalidAnswerError means that the backend's response breaks the contract. It is for
// operators and the backend's developers: the response is lost, whatever it contained,
// and the same request may fail again.
type InvalidAnswerError struct {
	// Procedure is the RPC ("/outrigger.v1.ToolService/ListTools").
	Procedure string
	// Violations are the first 16 violations at most, and never empty. They name rules
	// and locations. Map keys are the only contents of the response that they hold.
	Violations []Violation
	// More is the number of violations left out.
	More int
}

// Violation is one violation of the contract.
type Violation struct {
	// Path is the JSON Pointer (RFC 6901) of the field, with the contract's snake_case
	// names. "" means the message, or the sequence of messages, as a whole.
	Path string
	// Keyword is the rule's id ("string.pattern"), or one of the Keyword constants.
	Keyword string
	// Message says briefly what was expected.
	Message string
}

// Keywords of violations that no rule of a single message can express.
const (
	// keywordEncoding means that the bytes are not a message of the expected type.
	keywordEncoding = "encoding"
	// keywordOutcome means that a stream of events ended without an outcome.
	keywordOutcome = "outcome.missing"
	// keywordAcknowledged means that a change feed did not begin with its
	// acknowledgement, or had another one later.
	keywordAcknowledged = "acknowledged.first"
	// keywordCursor means that a page has the same cursor as an earlier page.
	keywordCursor = "cursor.repeated"
	// keywordLimit means that a list is longer than allowed.
	keywordLimit = "list.limit"
)

// Error implements error.
func (e *InvalidAnswerError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "native: the response of %s violates the contract", e.Procedure)
	for i, v := range e.Violations {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		if v.Path != "" {
			b.WriteString(v.Path + ": ")
		}
		fmt.Fprintf(&b, "%s [%s]", v.Message, v.Keyword)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "; and %d more", e.More)
	}
	return b.String()
}

// Unwrap returns a matching *Error for code that knows only the backend's
// errors: a response came and violates the protocol.
func (e *InvalidAnswerError) Unwrap() error {
	return &Error{
		Kind: KindGarbage, Code: connect.CodeInternal, Sent: true,
		Message: "the backend's response violates the contract",
	}
}

// invalid makes an error of one breach.
func invalid(procedure, keyword, format string, args ...any) *InvalidAnswerError {
	return &InvalidAnswerError{Procedure: procedure, Violations: []Violation{{Keyword: keyword, Message: fmt.Sprintf(format, args...)}}}
}

// broken makes an error of broken rules.
func broken(procedure string, found []*protovalidate.Violation) *InvalidAnswerError {
	named := min(len(found), maxViolations)
	e := &InvalidAnswerError{Procedure: procedure, More: len(found) - named}
	for _, v := range found[:named] {
		message := v.Proto.GetMessage()
		if message == "" {
			message = "the rule is violated"
		}
		e.Violations = append(e.Violations, Violation{
			Path: pointer(v.Proto.GetField()), Keyword: v.Proto.GetRuleId(), Message: message,
		})
	}
	return e
}

// pointer writes a field's path as a JSON Pointer. The JSON names of the contract
// are its Protobuf names.
func pointer(path *validate.FieldPath) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, element := range path.GetElements() {
		b.WriteString("/" + escape.Replace(element.GetFieldName()))
		switch at := element.GetSubscript().(type) {
		case *validate.FieldPathElement_Index:
			b.WriteString("/" + strconv.FormatUint(at.Index, 10))
		case *validate.FieldPathElement_StringKey:
			b.WriteString("/" + escape.Replace(at.StringKey)) // the contract has no maps with other keys
		}
	}
	return b.String()
}

// makeRepresentable brings the values of an answer that JSON has no form for into the nearest one, so that they cost nothing else of it. The
// explanation of a tool's result names the first of them.
func makeRepresentable(answer proto.Message) {
	var result *outriggerv1.ToolResult
	switch a := answer.(type) {
	case *outriggerv1.ToolOutcome:
		result = a.GetResult()
	case *outriggerv1.ToolEvent:
		result = a.GetOutcome().GetResult()
	}
	if result != nil {
		for i, path := range mend(result) {
			text := path + " is a value that JSON does not have, shown as a word."
			if i == maxNamed {
				text = "More values like these follow."
			}
			if i <= maxNamed {
				result.Explanation = strings.TrimSpace(result.GetExplanation() + " " + text)
			}
		}
	}
	mend(answer)
}

// mend replaces the values that JSON has no form for in every google.protobuf.Value below a message: a number that is infinite or
// not a number by its name, and a Value without a kind by null. It returns the JSON Pointers of the first of them, in no order.
func mend(m proto.Message) (odd []string) {
	mender{&odd}.message(m.ProtoReflect(), "", 0)
	slices.Sort(odd)
	return odd
}

const (
	// maxNamed is how many values an explanation names.
	maxNamed = 4
	// maxMended bounds the pointers that mend returns.
	maxMended = 16
	// maxMendDepth bounds the messages in one another that mend looks into: more than a payload that can be passed on has, with
	// three for each level of JSON.
	maxMendDepth = 4 * defaults.MaxJSONDepth
)

type mender struct{ odd *[]string }

// message mends a message and all below it.
func (w mender) message(m protoreflect.Message, path string, depth int) {
	if depth > maxMendDepth {
		return
	}
	if v, ok := m.Interface().(*structpb.Value); ok {
		w.value(v, path)
	}
	var isJSON bool // its fields are no members
	switch m.Interface().(type) {
	case *structpb.Value, *structpb.ListValue, *structpb.Struct:
		isJSON = true
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := path
		if !isJSON {
			at += "/" + fd.JSONName()
		}
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
					w.message(v.Message(), at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k.String()), depth+1)
					return true
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				w.message(v.List().Get(i).Message(), at+"/"+strconv.Itoa(i), depth+1)
			}
		default:
			w.message(v.Message(), at, depth+1)
		}
		return true
	})
}

func (w mender) value(v *structpb.Value, path string) {
	switch kind := v.GetKind().(type) {
	case nil:
		v.Kind = &structpb.Value_NullValue{}
	case *structpb.Value_NumberValue:
		switch {
		case math.IsNaN(kind.NumberValue):
			v.Kind = &structpb.Value_StringValue{StringValue: "NaN"}
		case math.IsInf(kind.NumberValue, 1):
			v.Kind = &structpb.Value_StringValue{StringValue: "Infinity"}
		case math.IsInf(kind.NumberValue, -1):
			v.Kind = &structpb.Value_StringValue{StringValue: "-Infinity"}
		default:
			return
		}
	default:
		return
	}
	if len(*w.odd) < maxMended {
		*w.odd = append(*w.odd, path)
	}
}
