// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
	"github.com/outrigger-mcp/outrigger/internal/source/wire"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

const (
	// defaultVersion is the version of a tool that names none, as the contract says.
	defaultVersion = "1.0.0"
	// defaultCacheTTL is how long a client may rely on a tool's description, as the contract says.
	defaultCacheTTL = 300 * time.Second
	// unknownVersion is when a tool was deprecated whose descriptor says only that it was.
	unknownVersion = "unknown"
)

// Tool is a callable method, with everything that callers and the pipeline need to know about it. It is immutable.
type Tool struct {
	// Name is the canonical name ("route_guide.get_feature"). MCPName is the name that MCP callers see.
	Name, MCPName string
	// Alias is the alternative canonical name, with or without the service's Service suffix. Callers, policies and globs may
	// use it too, also in its MCP form. It is empty if there is none or another tool has that name.
	Alias string
	// Native means that a backend that implements the tool API declared the tool and runs it itself, under NativeName. In
	// and Out are then nil: arguments and results stay JSON.
	Native     bool
	NativeName string
	// Title is for people. Description helps a model choose the tool. Neither is ever empty.
	Title, Description string
	// Undescribed means that nothing describes the method: Description was generated from its name and its messages.
	Undescribed bool
	// Method is the RPC behind the tool; never nil. For native tools, it is CallTool of the tool API.
	Method *Method
	// Input and Output are the schemas of request and response; never nil. If the tool has no output schema (see HasOutput),
	// both forms of Output are nil. A method that answers with a stream has the schema of {"items": [...], "truncated": ...},
	// where each item is one response as Out writes it. A method that takes a stream has the input {"items": [...]}, where each
	// item is one request as In reads it; if the options name a stream header, also "header".
	Input, Output *schema.Lazy
	// In turns arguments into the bytes of the request. Out turns the bytes of the response into JSON. For a method that takes
	// a stream, they are of one message of it.
	In, Out *transcode.Message
	// Stream reads the arguments of a method that takes a stream of requests, {"items": [...]}, with In for each message. It
	// is nil for all other tools.
	Stream *transcode.Stream
	// OutputNotObject is set if the response's ProtoJSON form is not an object (a Timestamp, a StringValue, a ListValue).
	// Callers that accept only objects must get it wrapped as {"value": ...}. If the request is such a message, Input and In
	// already accept the wrapped form. It is not set for a stream, because its responses are items.
	OutputNotObject bool
	// Words are the descriptions of arguments that the overlay has, by full names of fields. Do not modify them.
	Words map[protoreflect.FullName]string
	// Classes are the classes of fields of the result that the overlay has, by their paths in it, names with dots between them. Do
	// not modify them.
	Classes map[string]string
	// Preview is how to preview a call; nil where that is not known.
	Preview *Preview
	// RequestID is the field of the request that has the same value in all attempts of a call; nil where there is none.
	RequestID protoreflect.FieldDescriptor
	// HTTPBody is set for a method that responds with google.api.HttpBody, or a stream of them. Its result is a document
	// with a media type, and has no output schema.
	HTTPBody bool
	// BytesField is the number of the only field of the responses of a server-streaming method, if that is of type bytes,
	// else 0. Its result is the document that they are the parts of, and has no output schema.
	BytesField protowire.Number
	// HeaderParams are the arguments that an MCP client repeats in headers, sorted by pointer. Only declared schemas can
	// ask for them.
	HeaderParams []HeaderParam
	// Declared holds the validators of schemas declared by an overlay entry, a registration or a native backend. Input and
	// Output are then the declared schemas. It is nil if all schemas are derived.
	Declared *Declared
	// CheckedBehind is set for a native tool of another sidecar. That one checks the arguments itself, in every spelling that
	// its tool accepts; Input is the one form of them that it shows.
	CheckedBehind bool
	// Registered means that the tool comes from a registration: a second name for an RPC that already has a tool.
	Registered bool
	// Base is the RPC's own tool, for a registered one, and for one that previews in the name of another: what a policy says of it
	// applies under every name. Else nil.
	Base        *Tool
	Annotations Annotations
	// Version is a semantic version.
	Version  string
	Metadata Metadata
	// Timeout bounds one call; 0 means the sidecar's setting.
	Timeout time.Duration
	// Verb is the verb of its name for which the tool is shown as destructive; empty if that is declared, or not so.
	Verb string
	// Hidden tools are not offered. Lookup and ByProcedure do not find them, and Tools does not list them.
	Hidden bool
	// Examples are sample calls whose arguments the input schema accepts.
	Examples []Example
	// Errors are the statuses that the tool declares, in declaration order.
	Errors []ToolError
	// Tags are words for grouping.
	Tags []string
	// Scopes are the OAuth scopes that the tool's options ask for; nil if they say nothing.
	Scopes []string
	// Icons are images for a user interface. Do not modify them.
	Icons []*outriggerv1.Icon
	// Meta is MCP's _meta of the tool as a native backend declared it, a compact JSON object; nil if there is none.
	Meta json.RawMessage
	// TaskSupport is "forbidden", "optional" or "required". TaskAfter is the time after which a call becomes a task.
	TaskSupport string
	// TaskUnsaid means that task support is unset: the sidecar's own setting may let calls become tasks.
	TaskUnsaid bool
	TaskAfter  time.Duration
	// Operation is set for a method that starts a long-running operation; else nil. Out is then of the RPC's own response, the
	// operation, and Output of what the operation ends with.
	Operation *Operation
	// Paging is set for a method that lists in pages (AIP-158); else nil.
	Paging *Paging
	// Continues is set for a tool of the sidecar's own by which callers go on with operations. Native is then set too, but
	// no backend runs the tool.
	Continues Continuation
	// Compact is set for the tools that stand for a whole catalog. Native is then set too, but no backend runs the tool.
	Compact Compact
	// StreamTime is how long a call of a streaming RPC collects messages; 0 means the default, which follows the deadline.
	StreamTime time.Duration
	// ResultBudget is the size of a result for a model above which it is cut, in bytes; 0 cuts none. Nil means the sidecar's
	// setting.
	ResultBudget *int
	// Watch is the URI template of the resource that has the newest message of the stream; empty if there is none.
	Watch string

	// whole is the tool of which this one is what a caller sees; nil for a whole one.
	whole *Tool
	print *fingerprint
	// isPlain tells that the tool was made of its method alone: no overlay entry, no declared name, nothing that is odd. The
	// next catalog may take it over. alias is Alias as it was derived.
	isPlain bool
	alias   string
	// isNamed tells that an option or the overlay declares the name.
	isNamed bool
	// isUnmarked tools are hidden because they lack the annotation of a rival that makes a method a tool.
	isUnmarked bool
	// isTyped tells that the tool is for typed callers alone.
	isTyped bool
	// id is "service/name" of a native tool, by which globs choose it and errors name it.
	id string
	// behind is the procedure that a sidecar runs for a native tool; empty where it is not said.
	behind string
	// sealed is the SHA-256 over all that callers can see of the tool, kept because every new tool of a catalog needs
	// those of all others. Digest, which clients can compute too, covers less.
	sealed [sha256.Size]byte
}

// Whole returns the tool with all of its results, of which t may be what one caller sees. What is decided about a tool is decided about
// that one.
func (t *Tool) Whole() *Tool {
	if t == nil || t.whole == nil {
		return t
	}
	return t.whole
}

// HasOutput reports whether the tool has an output schema to show or check.
func (t *Tool) HasOutput() bool { return t.Output.IsSet() }

// IsDocument reports whether a result is a document with a media type, and no data in JSON.
func (t *Tool) IsDocument() bool { return t.HTTPBody || t.BytesField != 0 }

// Streams reports whether the method answers with a stream, so that a result collects many messages as items.
func (t *Tool) Streams() bool { return t.Method.ServerStreaming }

// TakesStream reports whether the method takes a stream of requests, so that the arguments hold many messages as items.
func (t *Tool) TakesStream() bool { return t.Stream != nil }

// Subject names the tool to people and globs: "pkg.Service/Method", or "service/name" of a native tool.
func (t *Tool) Subject() string {
	if t.Native {
		return t.id
	}
	return strings.TrimPrefix(t.Method.Procedure, "/")
}

// Method is the RPC behind a tool. It is immutable.
type Method struct {
	// Procedure is the path of the RPC, "/pkg.Service/Method".
	Procedure string
	// Service is the full name of the service.
	Service string
	// Source is the name of the source that offers the service.
	Source string
	// Backend is the name of the backend that has the service, where there are several; else empty.
	Backend                          string
	Descriptor                       protoreflect.MethodDescriptor
	ClientStreaming, ServerStreaming bool
	Idempotency                      Idempotency
}

// Idempotency is the effect of repeating a call of a method.
type Idempotency uint8

const (
	// IdempotencyUnknown is the level of a method that declares none.
	IdempotencyUnknown Idempotency = iota
	// NoSideEffects is the level of methods that change nothing.
	NoSideEffects
	// Idempotent is the level of methods where a repeated call has no further effect.
	Idempotent
)

// Annotations are MCP's hints. A nil hint is unset and has MCP's default.
type Annotations struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// Metadata is information about a tool for operators.
type Metadata struct {
	// Module is the part of the system that the tool belongs to; the default is the service's full name.
	Module string `json:"module"`
	// Destructive is set if the tool is marked as destructive (by an option, the overlay, a DELETE verb, a native backend's
	// hint, or the verb of its name). Callers see the mark, and the gate holds the tool back.
	Destructive bool `json:"destructive"`
	// DeprecatedIn is the version in which the tool was deprecated, "unknown" if the version is unknown, and empty if the
	// tool is not deprecated.
	DeprecatedIn string `json:"deprecated_in"`
	// CacheTTL is how long a client may cache the description.
	CacheTTL time.Duration `json:"cache_ttl"`
}

// Example is a sample call.
type Example struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Arguments   json.RawMessage `json:"arguments"`
	Data        json.RawMessage `json:"data,omitempty"`
	// Status is the status that the call fails with, such as "NOT_FOUND"; empty if it succeeds.
	Status string `json:"status,omitempty"`
}

// ToolError is a status that a tool declares.
type ToolError struct {
	// Status is the name of a google.rpc.Code, such as "NOT_FOUND".
	Status string
	// When explains in a sentence when the tool returns the status.
	When string
}

func inOrder(a, b *Tool) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Method.Procedure, b.Method.Procedure), cmp.Compare(a.id, b.id))
}

// deprecation is the sentence that a deprecated tool's description begins with, where a cut cannot lose it.
func deprecation(since string) string {
	switch since {
	case "":
		return ""
	case unknownVersion:
		return "Deprecated.\n\n"
	}
	return "Deprecated since " + since + ".\n\n"
}

// over is the hints with those of base where nothing is said.
func (a Annotations) over(base Annotations) Annotations {
	return Annotations{
		ReadOnly:    cmp.Or(a.ReadOnly, base.ReadOnly),
		Destructive: cmp.Or(a.Destructive, base.Destructive),
		Idempotent:  cmp.Or(a.Idempotent, base.Idempotent),
		OpenWorld:   cmp.Or(a.OpenWorld, base.OpenWorld),
	}
}

// names are all names that the tool is found by.
func (t *Tool) names() []string {
	out := []string{t.Name, t.MCPName}
	if t.Alias != "" {
		out = append(out, t.Alias, MCPName(t.Alias))
	}
	return out
}

// IsIdempotent reports whether a second run changes nothing more. A tool that only reads is, unless it says otherwise; nil
// is not.
func (t *Tool) IsIdempotent() bool {
	if t == nil {
		return false
	}
	if hint := t.Annotations.Idempotent; hint != nil {
		return *hint
	}
	return t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
}

// declare puts declared schemas in the place of the derived ones, and takes a fingerprint of what is there now. The zero
// declaration leaves a schema as it is.
func (t *Tool) declare(input, output declaration, types *Types) error {
	declared := Declared{types: types}
	if t.Declared != nil {
		declared = *t.Declared
	}
	if input.validator != nil {
		declared.Input, t.HeaderParams = input.validator, input.headers
		t.Input = schema.Fixed(&schema.Schema{Canonical: input.text, Advertised: input.text, Wrapped: t.Input.Wrapped})
	}
	if output.validator != nil {
		declared.Output = output.validator
		if t.Streams() {
			declared.item = output.validator.Items()
		}
		t.Output = schema.Fixed(&schema.Schema{Canonical: output.text, Advertised: output.text, Wrapped: t.Output.Wrapped})
	}
	if declared.Input == nil && declared.Output == nil {
		return nil
	}
	t.Declared, t.print = &declared, newFingerprint(t.Input, t.Output)
	return nil
}

// CheckArguments validates the JSON arguments of a call against the declared input schema. It returns nil if they are
// valid or no schema was declared. An error means that the check itself failed; it wraps the context's if that ended.
func (t *Tool) CheckArguments(ctx context.Context, arguments []byte) ([]schema.Violation, error) {
	if t.Declared == nil || t.Declared.Input == nil {
		return nil, nil
	}
	if t.Input.Wrapped && !isWrappedValue(arguments) {
		arguments = wrapValue(arguments)
	}
	return t.Declared.Input.ValidateContext(ctx, arguments)
}

// CheckResult validates a result against the declared output schema. It returns nil if the result is valid or no schema
// was declared. The schema describes results as callers of the tool get them. Set isBare if the result still lacks the
// wrapper object that a message gets whose ProtoJSON is not an object. An error means that the check itself failed.
func (t *Tool) CheckResult(ctx context.Context, result []byte, isBare bool) ([]schema.Violation, error) {
	if t.Declared == nil || t.Declared.Output == nil {
		return nil, nil
	}
	if t.OutputNotObject && isBare {
		result = wrapValue(result)
	}
	return t.Declared.Output.ValidateContext(ctx, result)
}

// CheckItem validates one item of the result of a stream against what the declared output schema says of items. It returns nil if the item
// is valid or nothing was declared. An error means that the check itself failed.
func (t *Tool) CheckItem(ctx context.Context, item []byte) ([]schema.Violation, error) {
	if t.Declared == nil || t.Declared.item == nil {
		return nil, nil
	}
	return t.Declared.item.ValidateContext(ctx, item)
}

// CheckRequest validates the request of a typed caller, in wire bytes that the transcoder has checked, against the
// declared input schema. It accepts the request if the schema accepts any of its JSON spellings, because a JSON caller
// could have sent that one. Otherwise the violations are those of the plain form. An error means that the check itself
// failed.
func (t *Tool) CheckRequest(ctx context.Context, wire []byte) ([]schema.Violation, error) {
	if t.Declared == nil || t.Declared.Input == nil {
		return nil, nil
	}
	if t.Native {
		return nil, errors.New("a native tool takes no request but the arguments")
	}
	message := dynamicpb.NewMessage(t.Method.Descriptor.Input())
	if err := (proto.UnmarshalOptions{Resolver: t.Declared.types}).Unmarshal(wire, message); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	var plain []schema.Violation
	for i, s := range spellings() {
		text, err := s.write(message, t.Declared.types)
		if err != nil {
			return nil, err
		}
		if t.Input.Wrapped {
			text = wrapValue(text)
		}
		found, err := t.Declared.Input.ValidateContext(ctx, text)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		if i == 0 {
			plain = found
		}
	}
	return plain, nil
}

// checkExample says why the tool would refuse an example's arguments.
func (t *Tool) checkExample(arguments []byte) error {
	found, err := t.CheckArguments(context.Background(), arguments)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return errors.New(found[0].Path + ": " + found[0].Message)
	}
	if t.Native {
		return nil
	}
	if t.TakesStream() {
		return t.Stream.Check(arguments, defaults.MaxInputItems)
	}
	_, err = t.In.ToWire(nil, arguments)
	return err
}

// Paging is how a method lists in pages (AIP-158). It is immutable. Nil is that of all other methods.
type Paging struct {
	// Token is the name of the field of the request, in JSON, that says which page is wanted; Next that of the response with
	// the token of the page after it.
	Token, Next string
	// Size is the name of the field of the request, in JSON, that says how many items a page may have; empty if there is none.
	Size string
	// Items is the name of the field of the response, in JSON, that has the items of a page.
	Items string
	// All: a call fetches all pages.
	All bool

	token, next, items, size protowire.Number
}

// pagingOf recognises a method that lists in pages by the fields page_token and next_page_token, and one repeated field of the
// response.
func pagingOf(t *Tool, declared *configv1.ToolOptions) *Paging {
	md := t.Method.Descriptor
	if t.Native || md.IsStreamingClient() || md.IsStreamingServer() {
		return nil
	}
	token, next := textField(md.Input(), "page_token"), textField(md.Output(), "next_page_token")
	items := firstList(md.Output())
	if token == nil || next == nil || items == nil {
		return nil
	}
	p := &Paging{Token: token.JSONName(), Next: next.JSONName(), Items: items.JSONName(), All: declared.GetAllPages(), token: token.Number(), next: next.Number(), items: items.Number()}
	if size := sizeField(md.Input()); size != nil {
		p.Size, p.size = size.JSONName(), size.Number()
	}
	return p
}

// sizeField is the field page_size of a request; nil where there is none that a number can be put into.
func sizeField(md protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	fd := md.Fields().ByName("page_size")
	if fd == nil || fd.IsList() {
		return nil
	}
	switch fd.Kind() { //nolint:exhaustive // those whose wire form is a plain varint
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return fd
	}
	return nil
}

// textField is a singular string field of a message; nil where there is none of the name.
func textField(md protoreflect.MessageDescriptor, name protoreflect.Name) protoreflect.FieldDescriptor {
	fd := md.Fields().ByName(name)
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return nil
	}
	return fd
}

// firstList is the repeated field of the lowest number, which AIP-158 has the resources in.
func firstList(md protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	var first protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		if fd := md.Fields().Get(i); fd.IsList() && (first == nil || fd.Number() < first.Number()) {
			first = fd
		}
	}
	return first
}

// describe adds to a description how to go on, unless it says so itself.
func (p *Paging) describe(text string) string {
	switch {
	case p == nil, strings.Contains(text, p.Token), strings.Contains(text, "page_token"):
		return text
	case p.All:
		return text + fmt.Sprintf("\n\nReturns all pages at once, as far as one result holds them. If %[2]s is not empty there are more: call again with %[1]s set to it.", p.Token, p.Next)
	}
	return text + fmt.Sprintf("\n\nReturns one page. If %[2]s is not empty there are more: call again with the same arguments and %[1]s set to it.", p.Token, p.Next)
}

// FetchesAll reports whether a call fetches all pages.
func (p *Paging) FetchesAll() bool { return p != nil && p.All }

// Page is what there is to know of the wire bytes of a response.
type Page struct {
	// Next is the token of the page after it, empty for the last one. Items counts what is on it.
	Next  string
	Items int
}

// Read looks at the fields of a response.
func (p *Paging) Read(response []byte) Page {
	var page Page
	eachField(response, func(f wire.Field) {
		switch {
		case f.Number == p.items:
			page.Items++ // packed numbers count as one
		case f.Number == p.next && f.Type == protowire.BytesType:
			page.Next = string(f.Bytes())
		}
	})
	return page
}

// Append appends a response to those before it: by the rules of Protobuf, the bytes of two messages one after the other are both
// merged, so that lists grow and other fields are those of the last. The token is left out.
func (p *Paging) Append(dst, response []byte) []byte {
	eachField(response, func(f wire.Field) {
		if f.Number != p.next {
			dst = append(dst, f.All...)
		}
	})
	return dst
}

// AppendNext appends the token of the page that is not there.
func (p *Paging) AppendNext(dst []byte, token string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, p.next, protowire.BytesType), token)
}

// Request returns the request for another page: the token that comes last counts.
func (p *Paging) Request(request []byte, token string) []byte {
	out := protowire.AppendTag(append(make([]byte, 0, len(request)+len(token)+2*protowire.SizeTag(p.token)), request...), p.token, protowire.BytesType)
	return protowire.AppendString(out, token)
}

// HasSize reports whether a request says how many items a page may have.
func (p *Paging) HasSize(request []byte) bool {
	found := false
	eachField(request, func(f wire.Field) { found = found || f.Number == p.size })
	return found
}

// WithSize returns the request for a page of at most n items. The method must have a Size.
func (p *Paging) WithSize(request []byte, n int) []byte {
	out := append(make([]byte, 0, len(request)+protowire.SizeTag(p.size)+protowire.SizeVarint(uint64(n))), request...)
	return protowire.AppendVarint(protowire.AppendTag(out, p.size, protowire.VarintType), uint64(n))
}

// eachField calls fn with the fields of a message, as far as they can be read.
func eachField(message []byte, fn func(wire.Field)) {
	_ = wire.Each(message, func(f wire.Field) error { fn(f); return nil })
}

// Items collects the responses of a stream into the JSON that the tool's output schema describes: {"items": [...],
// "truncated": ...}. Create it with NewItems.
type Items struct {
	text  []byte
	count int
}

// The two ends of the JSON around the items.
const (
	itemsHead     = `{"items":[`
	wholeTail     = `],"truncated":false}`
	truncatedTail = `],"truncated":true}`
)

// NewItems returns an empty Items.
func NewItems() *Items { return &Items{text: []byte(itemsHead)} }

// Len returns the number of items.
func (i *Items) Len() int { return i.count }

// Next returns the text to which the next item is to be appended.
func (i *Items) Next() []byte {
	if i.count > 0 {
		return append(i.text, ',')
	}
	return i.text
}

// Size returns the size of the whole JSON if the items ended with text.
func (i *Items) Size(text []byte) int { return len(text) + len(wholeTail) }

// Keep stores text, the result of Next with an item appended.
func (i *Items) Keep(text []byte) { i.text, i.count = text, i.count+1 }

// Close returns the whole JSON. Do not add items afterwards.
func (i *Items) Close(truncated bool) []byte {
	if truncated {
		return append(i.text, truncatedTail...)
	}
	return append(i.text, wholeTail...)
}

// MarkTruncated says in the JSON that Items makes that there were more of them. It may change the bytes.
func MarkTruncated(items []byte) []byte {
	if head, ok := bytes.CutSuffix(items, []byte(wholeTail)); ok {
		return append(head, truncatedTail...)
	}
	return items
}

// streamHeader is the field that the option stream_header names: a member of a oneof of the request of a method that takes a
// stream. It is nil for no name.
func streamHeader(md protoreflect.MethodDescriptor, name string) (protoreflect.FieldDescriptor, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no name is no header
	}
	if !md.IsStreamingClient() {
		return nil, errors.New("the RPC does not take a stream of requests")
	}
	in := md.Input()
	field := in.Fields().ByName(protoreflect.Name(name))
	if field == nil {
		field = in.Fields().ByJSONName(name)
	}
	if field == nil || field.ContainingOneof() == nil || field.ContainingOneof().IsSynthetic() {
		return nil, fmt.Errorf("%s has no field %s in a oneof", in.FullName(), name)
	}
	return field, nil
}

// gathered is the schema of what a stream's answers are gathered to: {"items": [...], "truncated": ...}, where each item
// is one answer, in the form that the transcoder writes.
func gathered(answer *schema.Lazy, md protoreflect.MessageDescriptor, digest [sha256.Size]byte, room *schema.Room) *schema.Lazy {
	return schema.DeferAs(func(part schema.Part, sight *schema.Sight) *schema.Schema {
		answer := answer.Seen(sight, "", nil)
		if part == schema.PartAdvertised && !answer.Wrapped {
			return &schema.Schema{Advertised: gatheredSchema(answer.Advertised(), md.FullName())}
		}
		if part == schema.PartShared {
			if answer.Wrapped {
				return &schema.Schema{}
			}
			return &schema.Schema{Shared: gatheredSchema(answer.Shared(), md.FullName())}
		}
		canonical := answer.Canonical()
		advertised := canonical // Items need not be objects, so none is wrapped.
		if !answer.Wrapped {
			advertised = answer.Advertised()
		}
		return &schema.Schema{
			Canonical:  gatheredSchema(canonical, md.FullName()),
			Advertised: gatheredSchema(advertised, md.FullName()),
			Warnings:   answer.Warnings(),
		}
	}, false, digest, room)
}

// rootReference is how a derived schema refers to itself as a whole. Derived schemas are compact, and inside of a string
// the quotes are escaped, so the text means nothing else.
const rootReference = `"$ref":"#"`

// gatheredSchema moves a derived schema below the root of another one. References count from the root, so definitions
// move up, and a message that contains itself becomes one of them.
func gatheredSchema(answer []byte, name protoreflect.FullName) []byte {
	own := `"#/$defs/` + string(name) + `"` // full names need no escape
	isRecursive := bytes.Contains(answer, []byte(rootReference))
	answer = bytes.ReplaceAll(answer, []byte(rootReference), []byte(`"$ref":`+own))
	var item, defs []byte
	for keyword, value := range jsontext.Members(answer) {
		if keyword == "$defs" {
			for message, definition := range jsontext.Members(value) {
				defs = appendMember(defs, message, definition)
			}
			continue
		}
		item = appendMember(item, keyword, value)
	}
	item = append(append([]byte{'{'}, item...), '}')
	if isRecursive {
		defs = appendMember(defs, string(name), item)
		item = []byte(`{"$ref":` + own + `}`)
	}
	out := []byte(`{"type":"object","properties":{"items":{"type":"array","items":`)
	out = append(out, item...)
	out = append(out, `},"truncated":{"type":"boolean"}},"required":["items","truncated"]`...)
	if len(defs) > 0 {
		out = append(append(append(out, `,"$defs":{`...), defs...), '}')
	}
	return append(out, '}')
}

// appendMember appends a member of an object, after a comma where it is not the first.
func appendMember(dst []byte, name string, value []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(append(jsontext.AppendString(dst, name), ':'), value...)
}

// resourceFault begins the text of a problem with resources.
const resourceFault = "option (outrigger.v1.resource) or overlay: "

// ResourceTool returns the tool of the RPC behind a method of Resources. Its In and Out do the transcoding. The tool may
// be hidden. The method must belong to this catalog.
func (c *Catalog) ResourceTool(m *resource.Method) *Tool { return c.derived[m.Procedure()] }

// asResource is what resources are made of.
func (t *Tool) asResource() resource.RPC {
	return resource.RPC{
		Procedure: t.Method.Procedure, Descriptor: t.Method.Descriptor,
		Name: t.Name, Title: t.Title, Description: t.Description, Icons: t.Icons,
		Destructive: t.Metadata.Destructive, HTTPBody: t.HTTPBody,
	}
}

// resource makes a source of resources of a tool's method, where its option or the overlay asks for that. What is wrong
// is a problem.
func (b *builder) resource(t *Tool, options []byte, overlaid *configv1.ResourceOptions) {
	problem := func(err error) {
		b.problems = append(b.problems, Problem{t.Subject(), resourceFault + err.Error()})
	}
	var o *configv1.ResourceOptions
	if b.world.hasResourceOption {
		var err error
		if o, err = resource.ReadOption(options); err != nil {
			problem(err)
			return
		}
	}
	if o == nil {
		var err error
		if o, err = b.rivalResource(t.Method.Descriptor); err != nil || o != nil && overlaid == nil {
			// A fault of a service that the operator cannot change: it costs the resource alone.
			problem = func(err error) { b.warn(t.Subject(), "its resources by protomcp.v1 are omitted: "+oneLine(err)) }
		}
		if err != nil {
			problem(err)
			return
		}
	}
	if o = override(o, overlaid); o == nil {
		return
	}
	if err := b.rules.check(o); err != nil {
		problem(err)
		return
	}
	m, err := resource.New(t.asResource(), o)
	if err != nil {
		problem(err)
		return
	}
	// The rules of URIs in the contract are those that clients apply.
	if err := b.rules.check(&outriggerv1.Resource{Uri: m.Sample(), Name: t.Name}); err != nil {
		problem(fmt.Errorf("uri_template: %q, which it can make: %w", shown.Clip(m.Sample()), err))
		return
	}
	b.resources = append(b.resources, m)
}

// watch makes a resource of the newest message of a tool's stream, where its option or the overlay asks for that.
func (b *builder) watch(t *Tool, isAsked bool) {
	if !isAsked {
		return
	}
	rpc := t.asResource()
	rpc.HTTPBody = t.IsDocument()
	m, err := resource.NewWatch(rpc, t.checkExample)
	if err != nil {
		b.problems = append(b.problems, Problem{t.Subject(), "option (outrigger.v1.tool) or overlay: watch: " + err.Error()})
		return
	}
	t.Watch = m.URITemplate()
	if more := "\n\nThe newest message is also a resource that can be subscribed to: " + t.Watch; len(t.Description)+len(more) <= b.limits.MaxDescriptionBytes {
		t.Description += more
	}
	b.resources = append(b.resources, m)
}

// readable orders the methods that resources come from. Two that could both read one URI are a problem.
func (b *builder) readable() *resource.Set {
	set, ambiguous := resource.NewSet(b.resources)
	for _, a := range ambiguous {
		b.problems = append(b.problems, Problem{rpcName(a.Two), fmt.Sprintf(
			resourceFault+"%q can be the same URI as %q of %s, and neither is more specific; change one of them",
			a.Two.URITemplate(), a.One.URITemplate(), rpcName(a.One))})
	}
	if b.description.GetCapabilities().GetResources() == nil {
		for _, m := range set.Unreadable() {
			b.warn(rpcName(m), fmt.Sprintf("it lists resources %s, but no method reads them; set that uri_template on one", m.URITemplate()))
		}
	}
	return set
}

// rpcName is "pkg.Service/Method" of a method that resources come from.
func rpcName(m *resource.Method) string { return strings.TrimPrefix(m.Procedure(), "/") }

// ArgumentsJSON returns the JSON of a request that came as Protobuf, for records, also where
// it breaks the rules of its message. It is nil for nil, and if the bytes are no encoding of
// the message.
func (t *Tool) ArgumentsJSON(wire []byte) []byte {
	if t == nil || t.Native {
		return nil
	}
	return recordedJSON(t.In, t.Method.Descriptor.Input(), wire)
}

// ResultJSON is ArgumentsJSON for a response.
func (t *Tool) ResultJSON(wire []byte) []byte {
	if t == nil || t.Native {
		return nil
	}
	return recordedJSON(t.Out, t.Method.Descriptor.Output(), wire)
}

func recordedJSON(m *transcode.Message, md protoreflect.MessageDescriptor, wire []byte) []byte {
	if m != nil {
		if text, err := m.ToJSON(nil, wire); err == nil {
			return text
		}
	}
	message := dynamicpb.NewMessage(md)
	if err := proto.Unmarshal(wire, message); err != nil {
		return nil
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil
	}
	return text
}

// Values of [Tool.TaskSupport] with which calls may become tasks.
const (
	TaskOptional = "optional"
	TaskRequired = "required"
)

// RunsOn returns after how long a call of the tool goes on as a task, and false if none does. What the tool says takes precedence
// over unsaid, the time of tools that say nothing, which is never if it is zero.
func (t *Tool) RunsOn(unsaid time.Duration) (after time.Duration, ok bool) {
	switch {
	case t.TaskSupport == TaskOptional, t.TaskSupport == TaskRequired:
		return t.TaskAfter, true
	case t.TaskUnsaid && unsaid > 0:
		return unsaid, true
	}
	return 0, false
}

const (
	validateOnly = "validate_only" // AIP-163
	requestID    = "request_id"    // AIP-155
)

// Preview is a call without an effect that says what a call would do. One of its fields is set.
type Preview struct {
	// Field is the field of the request, of type bool, that makes a call a preview.
	Field protoreflect.FieldDescriptor
	// Tool is of the method that previews, with the same request message and the names of the tool that it previews. It is not in
	// the catalog.
	Tool *Tool
}

// PreviewedBy is the tool whose result a preview of a tool is: the tool itself where no other method previews.
func (t *Tool) PreviewedBy() *Tool {
	if t.Preview == nil || t.Preview.Tool == nil {
		return t
	}
	return t.Preview.Tool
}

// Is reports whether the wire bytes of a request make its call a preview.
func (p *Preview) Is(request []byte) bool {
	if p == nil || p.Field == nil {
		return false
	}
	set := false
	for len(request) > 0 {
		num, typ, n := protowire.ConsumeTag(request)
		if n < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(num, typ, request[n:])
		if size < 0 {
			return false
		}
		if num == p.Field.Number() && typ == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(request[n:])
			set = v != 0 // the last one counts
		}
		request = request[n+size:]
	}
	return set
}

// Request appends to dst the wire bytes of the request that previews another one.
func (p *Preview) Request(dst, request []byte) []byte {
	if p.Field == nil {
		return append(dst, request...)
	}
	dst = appendWithout(dst, request, p.Field.Number())
	return protowire.AppendVarint(protowire.AppendTag(dst, p.Field.Number(), protowire.VarintType), 1)
}

// WithRequestID appends to dst the wire bytes of a request with another value of the tool's RequestID.
func (t *Tool) WithRequestID(dst, request []byte, id string) []byte {
	dst = appendWithout(dst, request, t.RequestID.Number())
	return protowire.AppendString(protowire.AppendTag(dst, t.RequestID.Number(), protowire.BytesType), id)
}

// RequestIDOf is the value of the tool's RequestID in the wire bytes of a request; empty where it is not set.
func (t *Tool) RequestIDOf(request []byte) string {
	value := ""
	for len(request) > 0 {
		num, typ, n := protowire.ConsumeTag(request)
		if n < 0 {
			return value
		}
		size := protowire.ConsumeFieldValue(num, typ, request[n:])
		if size < 0 {
			return value
		}
		if num == t.RequestID.Number() && typ == protowire.BytesType {
			text, _ := protowire.ConsumeBytes(request[n:])
			value = string(text)
		}
		request = request[n+size:]
	}
	return value
}

// appendWithout appends the bytes of a message without one of its fields. What cannot be read stays as it is.
func appendWithout(dst, message []byte, field protowire.Number) []byte {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return append(dst, message...)
		}
		size := protowire.ConsumeFieldValue(num, typ, message[n:])
		if size < 0 {
			return append(dst, message...)
		}
		if num != field {
			dst = append(dst, message[:n+size]...)
		}
		message = message[n+size:]
	}
	return dst
}

// IsRepeatable reports whether a call may be made again with the same request: the tool is idempotent, or the backend knows the
// request by its id.
func (t *Tool) IsRepeatable() bool { return t.IsIdempotent() || t != nil && t.RequestID != nil }
