// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/http"
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
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Defaults of Options, with reasons.
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

// NativeOptions configure a Client. The zero value is ready to use. A value that is not
// positive means the default of the same name.
type NativeOptions struct {
	MaxTools     int
	MaxPages     int
	MaxListBytes int
	StreamRetry  time.Duration
	EndGrace     time.Duration
}

// NativeClient calls a backend that implements outrigger.v1.ToolService. It is safe for
// concurrent use. It owns no connections: closing the backend's client is enough.
type NativeClient struct {
	backend   *Client
	opts      NativeOptions
	validator func() (protovalidate.Validator, error)
	unaryTill atomic.Pointer[time.Time] // CallToolStream is not tried before; nil: it may be
}

// NativeMetadata is the metadata of a response, without the protocol's own entries. A field is
// nil if there is none.
type NativeMetadata struct {
	Header, Trailer http.Header
}

// NewNative makes a client with default options. It makes no calls.
func NewNative(client *Client) *NativeClient { return newNativeWithOptions(client, NativeOptions{}) }

// newNativeWithOptions makes a client. It makes no calls. It builds the validator (about a
// megabyte and 30 ms) only when there is a response to check.
func newNativeWithOptions(client *Client, o NativeOptions) *NativeClient {
	defaults.Fill(&o.MaxTools, defaultMaxTools)
	defaults.Fill(&o.MaxPages, defaultMaxPages)
	defaults.Fill(&o.MaxListBytes, defaultMaxListBytes)
	defaults.Fill(&o.StreamRetry, defaultStreamRetry)
	defaults.Fill(&o.EndGrace, defaultEndGrace)
	return &NativeClient{
		backend: client, opts: o,
		validator: sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() }),
	}
}

// exchange makes a unary call and fills out with the checked answer, whose
// encoded size it returns. On an *InvalidAnswerError the metadata is there.
func (c *NativeClient) exchange(ctx context.Context, procedure string, in, out proto.Message, header http.Header) (int, NativeMetadata, error) {
	body, err := encode(in)
	if err != nil {
		return 0, NativeMetadata{}, err
	}
	answer, err := c.backend.Call(ctx, procedure, body, header)
	if err != nil {
		return 0, NativeMetadata{}, err
	}
	return len(answer.Body), nativeMetadataOf(answer), c.check(procedure, answer.Body, out)
}

// ask is exchange for an answer of a known type.
func ask[Out any, Message interface {
	*Out
	proto.Message
}](ctx context.Context, c *NativeClient, procedure string, in proto.Message, header http.Header) (*Out, NativeMetadata, error) {
	out := new(Out)
	_, md, err := c.exchange(ctx, procedure, in, Message(out), header)
	if err != nil {
		return nil, md, err
	}
	return out, md, nil
}

// encode fails where a string is not UTF-8, which cannot be sent.
func encode(in proto.Message) ([]byte, error) {
	body, err := proto.Marshal(in)
	if err != nil {
		return nil, &Error{
			Kind: KindRejected, Code: connect.CodeInvalidArgument,
			Message: fmt.Sprintf("the request cannot be encoded: %v", err),
		}
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
		settle(out)
		return nil
	case errors.As(err, &rules):
		return broken(procedure, rules.Violations)
	default:
		return fmt.Errorf("native: validate the response of %s: %w", procedure, err)
	}
}

// nativeMetadataOf takes the metadata of an answer, which may be nil.
func nativeMetadataOf(answer *Answer) NativeMetadata {
	if answer == nil {
		return NativeMetadata{}
	}
	return NativeMetadata{Header: answer.Header, Trailer: answer.Trailer}
}

// errOver ends a stream that goes on after its outcome.
var errOver = errors.New("the outcome was already received")

// CallTool runs a tool and returns its outcome. The outcome may be an error of the tool
// itself. If events is not nil, CallTool passes it progress, log, partial data and quiet
// events, in order, on the caller's goroutine, before it returns. CallTool reads no
// further event while events runs.
//
// With events the RPC is CallToolStream, without them CallTool. If the backend reports,
// before any event, that it does not implement CallToolStream, the client uses CallTool
// at once, and for StreamRetry afterwards.
//
// CallTool ignores everything after an outcome. It cuts a stream that does not end
// within EndGrace after the outcome, and then the metadata lacks the trailer. A stream
// that ends successfully without an outcome is an *InvalidAnswerError, like every event
// that breaks its rules. On errors after the response began, the metadata holds its
// header.
func (c *NativeClient) CallTool(ctx context.Context, call *outriggerv1.ToolCall, header http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, NativeMetadata, error) {
	unary := func() (*outriggerv1.ToolOutcome, NativeMetadata, error) {
		return ask[outriggerv1.ToolOutcome](ctx, c, outriggerv1connect.ToolServiceCallToolProcedure, call, header)
	}
	if till := c.unaryTill.Load(); events == nil || till != nil && time.Now().Before(*till) {
		return unary()
	}
	s := &toolStream{client: c, events: events}
	outcome, md, err := s.run(ctx, call, header)
	if s.began || !unimplemented(err) {
		return outcome, md, err
	}
	outcome, md, err = unary()
	if !unimplemented(err) { // else it is the tool that is not there, or nothing is
		till := time.Now().Add(c.opts.StreamRetry)
		c.unaryTill.Store(&till)
	}
	return outcome, md, err
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

func (s *toolStream) run(ctx context.Context, call *outriggerv1.ToolCall, header http.Header) (*outriggerv1.ToolOutcome, NativeMetadata, error) {
	const procedure = outriggerv1connect.ToolServiceCallToolStreamProcedure
	body, err := encode(call)
	if err != nil {
		return nil, NativeMetadata{}, err
	}
	ctx, s.cut = context.WithCancel(ctx)
	defer s.cut()
	answer, err := s.client.backend.Stream(ctx, procedure, body, header, s.take)
	if s.grace != nil {
		s.grace.Stop()
	}
	md := nativeMetadataOf(answer)
	switch {
	case s.outcome != nil:
		return s.outcome, md, nil
	case s.refused != nil:
		return nil, md, s.refused
	case err != nil:
		return nil, md, err
	default:
		return nil, md, invalid(procedure, keywordOutcome, "wanted an outcome as the last event")
	}
}

// take takes one event of the stream.
func (s *toolStream) take(message []byte) error {
	if s.outcome != nil {
		return errOver
	}
	s.began = true
	event := new(outriggerv1.ToolEvent)
	if s.refused = s.client.check(outriggerv1connect.ToolServiceCallToolStreamProcedure, message, event); s.refused != nil {
		return s.refused
	}
	if s.outcome = event.GetOutcome(); s.outcome != nil {
		s.grace = time.AfterFunc(s.client.opts.EndGrace, s.cut)
		return nil
	}
	s.events(event)
	return nil
}

// Describe returns the backend's description of itself and its features.
func (c *NativeClient) Describe(ctx context.Context) (*outriggerv1.ServerDescription, error) {
	out, _, err := ask[outriggerv1.ServerDescription](ctx, c, outriggerv1connect.ToolServiceDescribeProcedure, &outriggerv1.DescribeRequest{}, nil)
	return out, err
}

// ListResources returns one page of resources. Like the other methods with a header, it
// sends the header as metadata of the RPC and returns the metadata of the response. It
// also returns the metadata with an *InvalidAnswerError. Other errors hold their own
// metadata.
func (c *NativeClient) ListResources(ctx context.Context, in *outriggerv1.ListResourcesRequest, header http.Header) (*outriggerv1.ListResourcesResponse, NativeMetadata, error) {
	return ask[outriggerv1.ListResourcesResponse](ctx, c, outriggerv1connect.ToolServiceListResourcesProcedure, in, header)
}

// ListResourceTemplates returns one page of resource templates.
func (c *NativeClient) ListResourceTemplates(ctx context.Context, in *outriggerv1.ListResourceTemplatesRequest, header http.Header) (*outriggerv1.ListResourceTemplatesResponse, NativeMetadata, error) {
	return ask[outriggerv1.ListResourceTemplatesResponse](ctx, c, outriggerv1connect.ToolServiceListResourceTemplatesProcedure, in, header)
}

// ReadResource returns the contents of a resource.
func (c *NativeClient) ReadResource(ctx context.Context, in *outriggerv1.ReadResourceRequest, header http.Header) (*outriggerv1.ResourceOutcome, NativeMetadata, error) {
	return ask[outriggerv1.ResourceOutcome](ctx, c, outriggerv1connect.ToolServiceReadResourceProcedure, in, header)
}

// ListSkills returns one page of skills.
func (c *NativeClient) ListSkills(ctx context.Context, in *outriggerv1.ListSkillsRequest, header http.Header) (*outriggerv1.ListSkillsResponse, NativeMetadata, error) {
	return ask[outriggerv1.ListSkillsResponse](ctx, c, outriggerv1connect.ToolServiceListSkillsProcedure, in, header)
}

// GetSkill returns one skill.
func (c *NativeClient) GetSkill(ctx context.Context, in *outriggerv1.GetSkillRequest, header http.Header) (*outriggerv1.GetSkillResponse, NativeMetadata, error) {
	return ask[outriggerv1.GetSkillResponse](ctx, c, outriggerv1connect.ToolServiceGetSkillProcedure, in, header)
}

// ReadDirectory returns one page of what is in a directory.
func (c *NativeClient) ReadDirectory(ctx context.Context, in *outriggerv1.ReadDirectoryRequest, header http.Header) (*outriggerv1.ReadDirectoryResponse, NativeMetadata, error) {
	return ask[outriggerv1.ReadDirectoryResponse](ctx, c, outriggerv1connect.ToolServiceReadDirectoryProcedure, in, header)
}

// ListPrompts returns one page of prompts.
func (c *NativeClient) ListPrompts(ctx context.Context, in *outriggerv1.ListPromptsRequest, header http.Header) (*outriggerv1.ListPromptsResponse, NativeMetadata, error) {
	return ask[outriggerv1.ListPromptsResponse](ctx, c, outriggerv1connect.ToolServiceListPromptsProcedure, in, header)
}

// GetPrompt returns a prompt with its arguments filled in.
func (c *NativeClient) GetPrompt(ctx context.Context, in *outriggerv1.GetPromptRequest, header http.Header) (*outriggerv1.PromptOutcome, NativeMetadata, error) {
	return ask[outriggerv1.PromptOutcome](ctx, c, outriggerv1connect.ToolServiceGetPromptProcedure, in, header)
}

// Complete returns completions for an argument that a user fills in.
func (c *NativeClient) Complete(ctx context.Context, in *outriggerv1.CompleteRequest, header http.Header) (*outriggerv1.CompleteResponse, NativeMetadata, error) {
	return ask[outriggerv1.CompleteResponse](ctx, c, outriggerv1connect.ToolServiceCompleteProcedure, in, header)
}

// GetTask returns the state of a task.
func (c *NativeClient) GetTask(ctx context.Context, in *outriggerv1.GetTaskRequest, header http.Header) (*outriggerv1.Task, NativeMetadata, error) {
	return ask[outriggerv1.Task](ctx, c, outriggerv1connect.ToolServiceGetTaskProcedure, in, header)
}

// UpdateTask answers questions of a task.
func (c *NativeClient) UpdateTask(ctx context.Context, in *outriggerv1.UpdateTaskRequest, header http.Header) (*outriggerv1.UpdateTaskResponse, NativeMetadata, error) {
	return ask[outriggerv1.UpdateTaskResponse](ctx, c, outriggerv1connect.ToolServiceUpdateTaskProcedure, in, header)
}

// CancelTask asks the backend to end a task early.
func (c *NativeClient) CancelTask(ctx context.Context, in *outriggerv1.CancelTaskRequest, header http.Header) (*outriggerv1.CancelTaskResponse, NativeMetadata, error) {
	return ask[outriggerv1.CancelTaskResponse](ctx, c, outriggerv1connect.ToolServiceCancelTaskProcedure, in, header)
}

// Ask makes the unary RPC that belongs to the type of in, for callers that treat all of
// them alike: a ReadResourceRequest returns a ResourceOutcome, a ToolCall a ToolOutcome,
// and so on. The response has the type that the typed method returns. A type that
// belongs to no RPC here is a *Error of KindRejected.
func (c *NativeClient) Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, NativeMetadata, error) {
	procedure, out := rpcOf(in)
	if out == nil {
		return nil, NativeMetadata{}, &Error{
			Kind: KindRejected, Code: connect.CodeInvalidArgument,
			Message: fmt.Sprintf("no unary RPC takes a message of type %T", in),
		}
	}
	_, md, err := c.exchange(ctx, procedure, in, out, header)
	if err != nil {
		return nil, md, err
	}
	return out, md, nil
}

// rpcOf says which RPC takes a message of the type of in, and makes an empty
// answer of it.
func rpcOf(in proto.Message) (procedure string, out proto.Message) {
	switch in.(type) {
	case *outriggerv1.DescribeRequest:
		return outriggerv1connect.ToolServiceDescribeProcedure, new(outriggerv1.ServerDescription)
	case *outriggerv1.ToolCall:
		return outriggerv1connect.ToolServiceCallToolProcedure, new(outriggerv1.ToolOutcome)
	case *outriggerv1.ListToolsRequest:
		return outriggerv1connect.ToolServiceListToolsProcedure, new(outriggerv1.ListToolsResponse)
	case *outriggerv1.ListResourcesRequest:
		return outriggerv1connect.ToolServiceListResourcesProcedure, new(outriggerv1.ListResourcesResponse)
	case *outriggerv1.ListResourceTemplatesRequest:
		return outriggerv1connect.ToolServiceListResourceTemplatesProcedure, new(outriggerv1.ListResourceTemplatesResponse)
	case *outriggerv1.ReadResourceRequest:
		return outriggerv1connect.ToolServiceReadResourceProcedure, new(outriggerv1.ResourceOutcome)
	case *outriggerv1.ListSkillsRequest:
		return outriggerv1connect.ToolServiceListSkillsProcedure, new(outriggerv1.ListSkillsResponse)
	case *outriggerv1.GetSkillRequest:
		return outriggerv1connect.ToolServiceGetSkillProcedure, new(outriggerv1.GetSkillResponse)
	case *outriggerv1.ReadDirectoryRequest:
		return outriggerv1connect.ToolServiceReadDirectoryProcedure, new(outriggerv1.ReadDirectoryResponse)
	case *outriggerv1.ListPromptsRequest:
		return outriggerv1connect.ToolServiceListPromptsProcedure, new(outriggerv1.ListPromptsResponse)
	case *outriggerv1.GetPromptRequest:
		return outriggerv1connect.ToolServiceGetPromptProcedure, new(outriggerv1.PromptOutcome)
	case *outriggerv1.CompleteRequest:
		return outriggerv1connect.ToolServiceCompleteProcedure, new(outriggerv1.CompleteResponse)
	case *outriggerv1.GetTaskRequest:
		return outriggerv1connect.ToolServiceGetTaskProcedure, new(outriggerv1.Task)
	case *outriggerv1.UpdateTaskRequest:
		return outriggerv1connect.ToolServiceUpdateTaskProcedure, new(outriggerv1.UpdateTaskResponse)
	case *outriggerv1.CancelTaskRequest:
		return outriggerv1connect.ToolServiceCancelTaskProcedure, new(outriggerv1.CancelTaskResponse)
	default:
		return "", nil
	}
}

// Tools returns all tools, page by page, in the backend's order. If a list is longer
// than MaxTools, MaxPages or MaxListBytes, or a cursor repeats, the error is an
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
	for range c.opts.MaxPages {
		page := new(outriggerv1.ListToolsResponse)
		size, _, err := c.exchange(ctx, procedure, &in, page, nil)
		if err != nil {
			return nil, err
		}
		tools = append(tools, page.GetTools()...)
		bytes += size
		switch {
		case len(tools) > c.opts.MaxTools:
			return nil, invalid(procedure, keywordLimit, "wanted at most %d tools", c.opts.MaxTools)
		case bytes > c.opts.MaxListBytes:
			return nil, invalid(procedure, keywordLimit, "wanted at most %d bytes on all pages", c.opts.MaxListBytes)
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
	return nil, invalid(procedure, keywordLimit, "wanted at most %d pages", c.opts.MaxPages)
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

// unimplemented reports whether the backend said that it does not offer the RPC.
func unimplemented(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == KindStatus && e.Code == connect.CodeUnimplemented
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

// settle brings the values of an answer that JSON has no form for into the nearest one, so that they cost nothing else of it. The
// explanation of a tool's result names the first of them.
func settle(answer proto.Message) {
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
