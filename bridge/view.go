// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// views knows what callers see of the answers of backends. All that a backend answers to a call comes in through a [seen], before
// anything else reads it: so whatever is made of it, or kept, has no more than its caller may see.
type views struct {
	rules   Rules
	typesOf func(c *toolCall) *catalog.Catalog
}

// kept is what the caller in ctx sees of a tool's results, as what is kept of them has it; empty where that is all.
func (p *rulebook) kept(ctx context.Context, tool *catalog.Tool) string {
	if p.rules == nil {
		return ""
	}
	return p.rules.View(identity.FromContext(ctx), tool).Kept()
}

// mayRead is the error of a caller in ctx who asks for a result of a tool that was made for what was seen of it then, if the caller
// sees something else of it now. A nil tool is gone.
func (p *rulebook) mayRead(ctx context.Context, tool *catalog.Tool, name, then string) *errmap.Error {
	if tool != nil && p.kept(ctx, tool) == then || tool == nil && then == "" && (p.rules == nil || !p.rules.TreatsResults()) {
		return nil
	}
	return errmap.New(errmap.PermissionDenied, errmap.Tool(name),
		errmap.Message("Permission denied: the policy or the classes of the caller have changed since this result was made, so that it is not shown. Make the call again if it may have its effect twice"))
}

// mayReadAll is mayRead for what was made of the results of several tools, by their names.
func (p *rulebook) mayReadAll(ctx context.Context, cat *catalog.Catalog, views map[string]string) *errmap.Error {
	for name, then := range views {
		tool, _ := cat.Lookup(name)
		if failed := p.mayRead(ctx, tool, name, then); failed != nil {
			return failed
		}
	}
	return nil
}

// upstream is the RPC backend of a call, as the caller in ctx may see it.
func (s *sender) upstream(ctx context.Context, at *Backend, c *toolCall) Upstream {
	if s.views == nil {
		return at.Upstream
	}
	if v := s.views.of(ctx, at, c); v != nil {
		return v
	}
	return at.Upstream
}

// seenBy is what the caller in ctx may see of what the backend of a call answers; nil where that is all.
func (s *sender) seenBy(ctx context.Context, c *toolCall) *seen {
	if s.views == nil {
		return nil
	}
	return s.views.of(ctx, s.of(c), c)
}

// everything is the RPC backend with all that it answers, for what is not shown to a caller as it is.
func (b *Backend) everything() Upstream { return b.Upstream }

// treats reports whether there may be callers who do not see everything.
func (s *sender) treats() bool { return s.views != nil && s.views.rules.TreatsResults() }

func (w *views) of(ctx context.Context, at *Backend, c *toolCall) *seen {
	view := w.rules.View(identity.FromContext(ctx), c.tool)
	if view == nil {
		return nil
	}
	c.view, c.isSeen = view, view.TreatsResult()
	return &seen{at: at, view: view, call: c, typesOf: w.typesOf}
}

// seen is the backend of a call, as the caller of the call may see it.
//
// Answers are checked before fields are taken out of them: what is left may rightly break rules. An error of these checks says
// which rule was broken and nothing of the value.
type seen struct {
	at      *Backend
	view    *policy.View
	call    *toolCall
	typesOf func(c *toolCall) *catalog.Catalog
	// whole gathers a stream as it came, for what a declared output schema says of all of it; nil for none.
	whole *catalog.Items
}

// Call implements [Upstream].
func (v *seen) Call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*Answer, *errmap.Error) {
	answer, failed := v.at.Upstream.Call(ctx, m, in, header)
	out := v.answer(answer)
	if failed != nil {
		return out, v.failed(failed)
	}
	if out.Body, failed = v.message(ctx, m, answer.Body); failed != nil {
		return out, failed
	}
	return out, nil
}

// Stream implements [Upstream].
func (v *seen) Stream(ctx context.Context, m *catalog.Method, in []byte, header http.Header, each func(message []byte) error) (*Answer, *errmap.Error) {
	var refused *errmap.Error
	v.gather()
	answer, failed := v.at.Upstream.Stream(ctx, m, in, header, func(message []byte) error {
		var shown []byte
		if shown, refused = v.message(ctx, m, message); refused != nil {
			return refused
		}
		return each(shown)
	})
	if refused == nil && failed == nil {
		refused = v.checkedWhole(ctx)
	}
	if refused != nil {
		return v.answer(answer), refused
	}
	return v.answer(answer), v.failed(failed)
}

// maxWhole bounds what is gathered of a stream to be checked as a whole: eight times the default size of a result, of which a caller may see a
// part. Of more, each item is checked and the whole is not.
const maxWhole = 64 << 20

// gather begins to gather a stream, if its tool says something about all of it.
func (v *seen) gather() {
	t := v.call.tool.Whole()
	if v.whole = nil; v.call.isSeen && v.call.req.Exchange == nil && t.Streams() && !t.IsDocument() && t.Declared != nil && t.Declared.Output != nil {
		v.whole = catalog.NewItems()
	}
}

// gathered adds an item.
func (v *seen) gathered(text []byte) {
	if v.whole == nil {
		return
	}
	if next := append(v.whole.Next(), text...); len(next) <= maxWhole {
		v.whole.Keep(next)
		return
	}
	v.whole = nil
}

// checkedWhole checks a stream that came to its end. Of one that was cut, the sidecar has not seen all.
func (v *seen) checkedWhole(ctx context.Context) *errmap.Error {
	if v.whole == nil {
		return nil
	}
	text := v.whole.Close(false)
	v.whole = nil
	return unvalued(checkResult(ctx, v.call.tool.Whole(), text, false))
}

// Open implements [Upstream].
func (v *seen) Open(ctx context.Context, m *catalog.Method, header http.Header) (BackendStream, *errmap.Error) {
	v.gather()
	stream, failed := v.at.Upstream.Open(ctx, m, header)
	if failed != nil {
		return nil, v.failed(failed)
	}
	return &seenStream{BackendStream: stream, ctx: ctx, method: m, by: v}, nil
}

// seenStream is an open RPC of the backend, as the caller may see it.
type seenStream struct {
	BackendStream

	ctx    context.Context //nolint:containedctx // that of the RPC
	method *catalog.Method
	by     *seen
}

// Receive returns the next message.
func (s *seenStream) Receive() ([]byte, error) {
	message, err := s.BackendStream.Receive()
	var failed *errmap.Error
	switch {
	case errors.As(err, &failed):
		return nil, s.by.failed(failed)
	case errors.Is(err, io.EOF):
		if failed = s.by.checkedWhole(s.ctx); failed != nil {
			return nil, failed
		}
		return nil, err //nolint:wrapcheck // the end of the stream
	case err != nil:
		return nil, err //nolint:wrapcheck // the end of its context
	}
	if message, failed = s.by.message(s.ctx, s.method, message); failed != nil {
		return nil, failed
	}
	return message, nil
}

// Header returns the header.
func (s *seenStream) Header() (http.Header, bool) {
	header, ok := s.BackendStream.Header()
	return s.by.metadata(header), ok
}

// Trailer returns the trailer.
func (s *seenStream) Trailer() http.Header { return s.by.metadata(s.BackendStream.Trailer()) }

// answer is an answer without its body. It is nil for nil with an error alone.
func (v *seen) answer(a *Answer) *Answer {
	if a == nil {
		return nil
	}
	return &Answer{Header: v.metadata(a.Header), Trailer: v.metadata(a.Trailer)}
}

// metadata is what of the metadata of an answer the caller may see: it has no type, so what a value says is not known. What the
// configuration names in full may cross.
func (v *seen) metadata(h http.Header) http.Header {
	if !v.view.TreatsResult() {
		return h
	}
	return v.at.Metadata.Named(h)
}

// message is a message of the backend without what the caller may not see.
func (v *seen) message(ctx context.Context, m *catalog.Method, wire []byte) ([]byte, *errmap.Error) {
	md, t := m.Descriptor.Output(), v.call.tool.Whole()
	if md.FullName() == longrunning.OperationMessage {
		return v.operation(ctx, wire)
	}
	if failed := v.checked(ctx, t.Out, wire, !t.Streams()); failed != nil {
		return nil, failed
	}
	return v.view.Apply(md, wire)
}

// checked checks a message as it came. isResult is set where it is the whole result of the tool.
func (v *seen) checked(ctx context.Context, m *transcode.Message, wire []byte, isResult bool) *errmap.Error {
	if !v.call.isSeen || m == nil {
		return nil // it is checked when it is translated
	}
	if m.Loose() != m {
		if err := m.CheckWire(ctx, wire); err != nil {
			return unvalued(outputError(err))
		}
	}
	t := v.call.tool.Whole()
	if t.Declared == nil || t.Declared.Output == nil || !isResult && !t.Streams() {
		return nil
	}
	text, err := m.ToJSON(nil, wire)
	if err != nil {
		return unvalued(outputError(err))
	}
	if isResult {
		return unvalued(checkResult(ctx, t, text, true))
	}
	if v.call.req.Exchange != nil {
		return nil // which is the service's own affair
	}
	v.gathered(text)
	return unvalued(resultError(t.CheckItem(ctx, text)))
}

// unvalued is an error of a check without what it says of values, which the caller may not see.
func unvalued(failed *errmap.Error) *errmap.Error {
	if failed == nil {
		return nil
	}
	out := errmap.New(failed.Code)
	for _, found := range failed.Violations {
		out.Violations = append(out.Violations, errmap.Violation{Keyword: found.Keyword, Message: "the result of the tool breaks this rule"})
	}
	return out
}

// wellKnown is the package of types whose fields have no class, such as Struct and StringValue: the field that holds one has it.
const wellKnown = "google.protobuf"

// operation is message for a long-running operation. What it holds, it holds as an Any; where the type of that is not known it is
// left out.
func (v *seen) operation(ctx context.Context, wire []byte) ([]byte, *errmap.Error) {
	op, err := longrunning.Parse(wire)
	if err != nil {
		return nil, errmap.Wrap(errmap.SerializationError, err)
	}
	var failed *errmap.Error
	if op.Response, failed = v.held(ctx, op.Response, true); failed != nil {
		return nil, failed
	}
	if op.Metadata, failed = v.held(ctx, op.Metadata, false); failed != nil {
		return nil, failed
	}
	if op.Error != nil {
		op.Error.Message, op.Error.Details = v.said(connect.Code(op.Error.GetCode()).String(), op.Error.GetMessage(), op.Error.GetDetails())
	}
	out, err := op.Append(nil)
	if err != nil {
		return nil, errmap.Wrap(errmap.SerializationError, err)
	}
	return out, nil
}

// held is what an operation holds, without what the caller may not see.
func (v *seen) held(ctx context.Context, a *anypb.Any, isResponse bool) (*anypb.Any, *errmap.Error) {
	md := v.typeOf(a)
	if md == nil {
		return nil, nil //nolint:nilnil // said of operation
	}
	var declared *catalog.OperationValue
	if op := v.call.tool.Whole().Operation; op != nil && isResponse {
		declared = op.Response
	} else if op != nil {
		declared = op.Metadata
	}
	switch isDeclared := declared != nil && declared.Name == md.FullName(); {
	case isDeclared && isResponse:
		md = declared.Out.Descriptor() // by which the view knows the result
		if failed := v.checked(ctx, declared.Out, a.GetValue(), v.call.isJSON()); failed != nil {
			return nil, failed
		}
	case !isDeclared && v.view.TreatsResult() && md.Parent().FullName() == wellKnown && md.Fields().Len() > 0:
		return nil, nil //nolint:nilnil // it may have any value, and no field that holds it has a class
	}
	shown, failed := v.view.Apply(md, a.GetValue())
	if failed != nil {
		return nil, failed
	}
	return &anypb.Any{TypeUrl: a.GetTypeUrl(), Value: shown}, nil
}

// typeOf is the type of what an Any holds; nil where it is not known.
func (v *seen) typeOf(a *anypb.Any) protoreflect.MessageDescriptor {
	if a == nil {
		return nil
	}
	cat := v.typesOf(v.call)
	if cat == nil {
		return nil
	}
	mt, err := cat.Types().FindMessageByURL(a.GetTypeUrl())
	if err != nil {
		return nil
	}
	return mt.Descriptor()
}

// failed is an error of the backend without what the caller may not see.
func (v *seen) failed(err *errmap.Error) *errmap.Error { return backend.Reworded(err, v.said) }

// said is what the backend said of a failure: its message is free text, which may have any value in it, so that a text of the
// sidecar's own is in its place. Details are of types that say what is in them.
func (v *seen) said(code, message string, details []*anypb.Any) (string, []*anypb.Any) {
	isTreated := v.view.TreatsResult()
	if isTreated {
		message = withheld(code)
	}
	var kept []*anypb.Any
	for _, d := range details {
		if isTreated && isOfErrors(d) {
			d = withoutText(d)
		} else {
			d = v.detail(d)
		}
		if d != nil {
			kept = append(kept, d)
		}
	}
	return message, kept
}

// withheld is in the place of a text of the backend.
func withheld(code string) string {
	return strings.TrimSpace("the service answered "+code) + "; what it said may have values that this caller does not see"
}

// detail is a detail of an error without what the caller may not see; nil where its type is not known, or the caller sees none of it.
func (v *seen) detail(d *anypb.Any) *anypb.Any {
	md := v.typeOf(d)
	if md == nil {
		return nil
	}
	shown, failed := v.view.Apply(md, d.GetValue())
	if failed != nil {
		return nil
	}
	return &anypb.Any{TypeUrl: d.GetTypeUrl(), Value: shown}
}

// isOfErrors reports whether a detail is of a type that is made for any error, whose texts may be about any value.
func isOfErrors(d *anypb.Any) bool {
	switch d.MessageName().Parent() {
	case "google.rpc", "outrigger.v1", "buf.validate", wellKnown:
		return true
	}
	return false
}

// withoutText is such a detail without free text; nil where nothing is left.
func withoutText(d *anypb.Any) *anypb.Any {
	m, err := d.UnmarshalNew()
	if err != nil {
		return nil
	}
	switch m := m.(type) {
	case *errdetails.RetryInfo, *outriggerv1.MissingCapabilities:
	case *errdetails.ErrorInfo:
		m.Metadata = nil
	case *errdetails.BadRequest:
		for _, f := range m.GetFieldViolations() {
			f.Description, f.LocalizedMessage = "", nil
		}
	default:
		return nil
	}
	m.ProtoReflect().SetUnknown(nil)
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil
	}
	return &anypb.Any{TypeUrl: d.GetTypeUrl(), Value: value}
}

// events passes on what of the events of a native tool its caller may see: numbers, and no texts and no data, whose form is not known.
func (v *seen) events(pass func(*outriggerv1.ToolEvent)) func(*outriggerv1.ToolEvent) {
	if v == nil || pass == nil || !v.view.TreatsResult() {
		return pass
	}
	return func(e *outriggerv1.ToolEvent) {
		switch is := e.GetEvent().(type) {
		case *outriggerv1.ToolEvent_Progress:
			pass(&outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Progress{
				Progress: &outriggerv1.Progress{Progress: is.Progress.GetProgress(), Total: is.Progress.Total},
			}})
		case *outriggerv1.ToolEvent_Quiet:
			pass(e)
		}
	}
}

// result checks the result of a native tool, and takes out of it what its caller may not see. Content and texts cannot be read: the
// data stays, of which a text is made as for any result.
func (v *seen) result(ctx context.Context, r *outriggerv1.ToolResult) *errmap.Error {
	if !v.view.TreatsResult() {
		return nil
	}
	if failed := declaredData(ctx, v.call.tool.Whole(), r); failed != nil {
		return unvalued(failed)
	}
	data, err := content.FreeForm(r.GetDataJson(), r.GetData())
	if err != nil {
		return unvalued(errmap.Unwritable(err))
	}
	r.DataForm = nil
	if len(data) > 0 {
		shown, failed := v.view.ApplyJSON(data)
		if failed != nil {
			return failed
		}
		r.DataForm = &outriggerv1.ToolResult_DataJson{DataJson: shown}
	}
	if len(r.GetContent()) > 0 && len(data) == 0 {
		r.Explanation = "The tool answered with content, which may have values that this caller does not see."
	} else {
		r.Explanation = ""
	}
	r.Content, r.MetaForm = nil, nil
	if e := r.GetError(); e != nil {
		r.Error = &outriggerv1.ErrorDetail{ErrorType: errmap.TypeToolError, ErrorMessage: withheld("")}
	}
	return nil
}

// withholdTask takes out of a task what its caller may not see, where its tool is gone and so is not known to show anything.
func withholdTask(t *outriggerv1.Task) {
	t.StatusMessage = ""
	if e := t.GetError(); e != nil {
		e.Message, e.DataForm = withheld(""), nil
	}
	if t.GetResult() != nil {
		task.Fail(t, errmap.New(errmap.PermissionDenied, errmap.Message("Permission denied: the tool of this task is gone, so that it is not known what of its result this caller may see")))
	}
}

// task is result for a task of a native tool, which may have ended or not.
func (v *seen) task(ctx context.Context, t *outriggerv1.Task) *errmap.Error {
	if !v.view.TreatsResult() {
		return nil
	}
	t.StatusMessage = ""
	if e := t.GetError(); e != nil {
		e.Message, e.DataForm = withheld(""), nil
	}
	if r := t.GetResult(); r != nil {
		return v.result(ctx, r)
	}
	return nil
}
