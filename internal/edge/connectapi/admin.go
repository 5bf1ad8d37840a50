// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// Registrar registers tools in the catalog, replaces them, and unregisters them. [*catalog.Live] implements it.
type Registrar interface {
	Put(ctx context.Context, r catalog.Registration) (catalog.Placement, error)
	Unregister(ctx context.Context, name, version string) (registered string, err error)
}

// AdminOptions configure the operators' part of the tool API.
type AdminOptions struct {
	// Wait bounds how long RegisterTool and UnregisterTool wait for the first
	// catalog; zero means defaults.CatalogWait.
	Wait time.Duration
	// Log receives one line for each RegisterTool and UnregisterTool; nil discards them.
	Log *zap.Logger
	// MayChange reports whether the operator of a request may register tools; nil permits
	// every operator.
	MayChange func(context.Context) bool
	// Who returns the operator of a request, for the log, from its context and the address of
	// its peer; nil returns the address.
	Who func(ctx context.Context, peer string) string
	// Changed learns of each RegisterTool and UnregisterTool, for the audit trail; nil is
	// not.
	Changed func(trail.Change)
}

// admin is the tool API as operators get it: registration, and what is needed to
// see its outcome.
type admin struct {
	*Service
	registrar Registrar
	opts      AdminOptions
}

// AdminHandler returns the path prefix and the handler of the operators' part of
// the tool API: RegisterTool, UnregisterTool, GetTool and ListTools. Use it only on
// a listener that operators alone can reach, since it does not authenticate itself.
func (s *Service) AdminHandler(to Registrar, o AdminOptions) (string, http.Handler) {
	o.Wait, o.Log = cmp.Or(o.Wait, defaults.CatalogWait), cmp.Or(o.Log, zap.NewNop())
	if o.Changed == nil {
		o.Changed = func(trail.Change) {}
	}
	if o.Who == nil {
		o.Who = func(_ context.Context, peer string) string { return peer }
	}
	a := &admin{Service: s, registrar: to, opts: o}
	prefix, handler := outriggerv1connect.NewToolServiceHandler(a, s.handlerOptions(interceptor{service: s})...)
	all := s.front(false, false, handler)
	writer := connect.NewErrorWriter()
	return prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case outriggerv1connect.ToolServiceRegisterToolProcedure,
			outriggerv1connect.ToolServiceUnregisterToolProcedure,
			outriggerv1connect.ToolServiceGetToolProcedure,
			outriggerv1connect.ToolServiceListToolsProcedure:
			all.ServeHTTP(w, r)
			return
		}
		const text = "Method not found: the admin listener serves RegisterTool, UnregisterTool, GetTool and ListTools; the rest of the tool API is on the main listener"
		if writer.IsSupported(r) {
			_ = writer.Write(w, r, errmap.ToConnect(errmap.New(errmap.MethodNotFound, errmap.Message(text)), errmap.About{}))
			return
		}
		http.Error(w, text, http.StatusNotFound)
	})
}

// RegisterTool adds a tool to the catalog or replaces a lower version of it.
// Every attempt is logged.
func (a *admin) RegisterTool(ctx context.Context, req *connect.Request[outriggerv1.RegisterToolRequest]) (*connect.Response[outriggerv1.RegisterToolResponse], error) {
	placed, err := a.register(ctx, req.Msg)
	from := []zap.Field{
		zap.String(logkey.CanonicalTool, clip(req.Msg.GetName())), zap.String("binding", clip(req.Msg.GetBinding().GetService()+"/"+req.Msg.GetBinding().GetMethod())),
		zap.String(logkey.Caller, a.operator(ctx, req)), zap.String(logkey.RPCSystem, telemetry.RPCSystem(req.Peer().Protocol)),
	}
	if err != nil {
		failed := registrationError(req.Msg.GetName(), err)
		a.opts.Changed(trail.Change{Kind: "registration", Who: trail.OfOperator(a.operator(ctx, req)), Tool: clip(req.Msg.GetName()), Code: string(failed.Code)})
		a.opts.Log.Warn("registration refused", append(from, zap.String(logkey.ErrorCode, string(failed.Code)), logkey.Error(failed))...)
		return nil, errmap.ToConnect(failed, errmap.About{})
	}
	tool := placed.Tool
	a.opts.Changed(trail.Change{
		Kind: "registration", Who: trail.OfOperator(a.operator(ctx, req)), Tool: tool.Name, Before: placed.Replaced, After: tool.Version,
		Detail: tool.Fingerprint(),
	})
	a.opts.Log.Info("tool registered", append(from, zap.Bool("created", placed.Created), zap.String("version", tool.Version),
		zap.String("replaced_version", placed.Replaced), zap.Bool("destructive", tool.Metadata.Destructive),
		zap.String("fingerprint", tool.Fingerprint()))...)
	return connect.NewResponse(&outriggerv1.RegisterToolResponse{
		Tool: toolMessage(tool, true), Created: placed.Created, ReplacedVersion: placed.Replaced,
	}), nil
}

// operator is who sent a request.
func (a *admin) operator(ctx context.Context, req connect.AnyRequest) string {
	return a.opts.Who(ctx, req.Peer().Addr)
}

// mayChange returns PERMISSION_DENIED for an operator that may only read.
func (a *admin) mayChange(ctx context.Context) error {
	if a.opts.MayChange == nil || a.opts.MayChange(ctx) {
		return nil
	}
	return errmap.New(errmap.PermissionDenied, errmap.Message(
		"Permission denied: registrations need the role operate; an operator can allow it in the operators file (--admin-tokens)"))
}

func (a *admin) register(ctx context.Context, req *outriggerv1.RegisterToolRequest) (catalog.Placement, error) {
	if err := a.mayChange(ctx); err != nil {
		return catalog.Placement{}, err
	}
	registration, err := registrationFrom(req)
	if err != nil {
		return catalog.Placement{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.opts.Wait)
	defer cancel()
	return a.registrar.Put(ctx, registration)
}

// registrationFrom is the neutral form of a request. What is missing or wrong
// is for the catalog to say, except for a schema that has no JSON form.
func registrationFrom(req *outriggerv1.RegisterToolRequest) (catalog.Registration, error) {
	metadata, hints := req.GetMetadata(), req.GetAnnotations()
	out := catalog.Registration{
		Name: req.GetName(), Title: cmp.Or(req.GetTitle(), hints.GetTitle()), Description: req.GetDescription(),
		Binding: catalog.Binding{Service: req.GetBinding().GetService(), Method: req.GetBinding().GetMethod()},
		Metadata: catalog.RegisteredMetadata{
			Module: metadata.GetModule(), Destructive: metadata.GetDestructive(), DeprecatedIn: metadata.GetDeprecatedIn(),
		},
		Version: req.GetVersion(), Timeout: req.GetExecution().GetTimeout().AsDuration(), TaskSupport: req.GetExecution().GetTaskSupport(),
	}
	if hints != nil {
		// The pointers tell a declared false from nothing, which the getters do not.
		out.Annotations = catalog.Annotations{
			ReadOnly: hints.ReadOnlyHint, Destructive: hints.DestructiveHint, //nolint:protogetter // See above.
			Idempotent: hints.IdempotentHint, OpenWorld: hints.OpenWorldHint, //nolint:protogetter // See above.
		}
	}
	if ttl := metadata.GetCacheTtl(); ttl != nil {
		d := ttl.AsDuration()
		out.Metadata.CacheTTL = &d
	}
	for _, e := range req.GetExamples() {
		example := catalog.Example{Name: e.GetName(), Description: e.GetDescription(), Arguments: json.RawMessage(e.GetArgumentsJson()), Status: e.GetStatus()}
		if data := e.GetDataJson(); data != "" {
			example.Data = json.RawMessage(data)
		}
		out.Examples = append(out.Examples, example)
	}
	var err error
	switch form := req.GetInputSchemaForm().(type) {
	case *outriggerv1.RegisterToolRequest_InputSchemaJson:
		out.InputSchema = append(json.RawMessage{}, form.InputSchemaJson...)
	case *outriggerv1.RegisterToolRequest_InputSchema:
		out.InputSchema, err = structJSON("/input_schema", form.InputSchema)
	}
	if err != nil {
		return out, err
	}
	switch form := req.GetOutputSchemaForm().(type) {
	case *outriggerv1.RegisterToolRequest_OutputSchemaJson:
		out.OutputSchema = append(json.RawMessage{}, form.OutputSchemaJson...)
	case *outriggerv1.RegisterToolRequest_OutputSchema:
		out.OutputSchema, err = structJSON("/output_schema", form.OutputSchema)
	}
	return out, err
}

// structJSON is the JSON text of a Struct, which may hold numbers that JSON has
// no form for.
func structJSON(path string, people *structpb.Struct) (json.RawMessage, error) {
	raw, err := protojson.Marshal(people)
	if err != nil {
		return nil, errmap.New(errmap.RegistrationInvalid, errmap.WithViolations(errmap.Violation{
			Path: path, Keyword: "json", Message: "the Struct contains a value that JSON cannot represent",
		}))
	}
	return raw, nil
}

// registrationError puts a refusal into the canonical vocabulary. What differs
// or is wrong is in the message as well as among the violations, because it is
// the message that operators see first.
func registrationError(name string, err error) *errmap.Error {
	var canonical *errmap.Error
	var refused *catalog.RegistrationError
	var notTaken *catalog.UnregistrationError
	var notReady *catalog.NotReadyError
	switch {
	case errors.As(err, &canonical):
		return canonical
	case errors.As(err, &refused):
		return refusal(refused)
	case errors.As(err, &notTaken):
		return unregistrationRefusal(notTaken)
	case errors.Is(err, context.Canceled):
		return errmap.Wrap(errmap.Cancelled, err)
	case errors.As(err, &notReady):
		return errmap.Wrap(errmap.Unavailable, err, errmap.Tool(clip(name)), errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: the tool catalog has not been loaded yet; /readyz?verbose says why"))
	case errors.Is(err, context.DeadlineExceeded): // that of the caller
		return errmap.Wrap(errmap.Timeout, err)
	}
	return errmap.Wrap(errmap.InternalError, err)
}

func refusal(refused *catalog.RegistrationError) *errmap.Error {
	code, text := errmap.RegistrationInvalid, "Invalid tool registration"
	switch refused.Reason {
	case catalog.Invalid:
	case catalog.Conflict:
		code, text = errmap.RegistrationConflict, "Tool already registered"
		if slices.ContainsFunc(refused.Faults, isAboutSchema) {
			text += " with a different schema"
		}
	case catalog.TooMany:
		code, text = errmap.ResourceExhausted, "Too many registered tools"
	case catalog.Unknown: // of unregistrations only
	}
	var reasons []string
	out := errmap.New(code, errmap.Tool(refused.Name))
	for _, f := range refused.Faults {
		out.Violations = append(out.Violations, errmap.Violation(f))
		if len(reasons) < shownReasons {
			reasons = append(reasons, strings.TrimPrefix(f.Path+": "+f.Message, ": "))
		}
	}
	if refused.Remedy != "" {
		reasons = append(reasons, refused.Remedy)
	}
	out.Message = text + ": " + strings.Join(reasons, "; ")
	return out
}

func isAboutSchema(v schema.Violation) bool {
	return v.Path == "/input_schema" || v.Path == "/output_schema"
}

// shownReasons is how many faults a message spells out; all are violations.
const shownReasons = 5

// UnregisterTool removes a registered tool. Every attempt is logged.
func (a *admin) UnregisterTool(ctx context.Context, req *connect.Request[outriggerv1.UnregisterToolRequest]) (*connect.Response[outriggerv1.UnregisterToolResponse], error) {
	name := req.Msg.GetName()
	version, err := a.unregister(ctx, req.Msg)
	from := []zap.Field{zap.String(logkey.CanonicalTool, clip(name)), zap.String(logkey.Caller, a.operator(ctx, req)), zap.String(logkey.RPCSystem, telemetry.RPCSystem(req.Peer().Protocol))}
	if err != nil {
		failed := registrationError(name, err)
		a.opts.Changed(trail.Change{Kind: "registration", Who: trail.OfOperator(a.operator(ctx, req)), Tool: clip(name), Code: string(failed.Code)})
		a.opts.Log.Warn("unregistration refused", append(from, zap.String(logkey.ErrorCode, string(failed.Code)), logkey.Error(failed))...)
		return nil, errmap.ToConnect(failed, errmap.About{})
	}
	a.opts.Log.Info("tool unregistered", append(from, zap.String("version", version))...)
	a.opts.Changed(trail.Change{Kind: "registration", Who: trail.OfOperator(a.operator(ctx, req)), Tool: clip(name), Before: version})
	return connect.NewResponse(&outriggerv1.UnregisterToolResponse{Name: name, Version: version}), nil
}

func (a *admin) unregister(ctx context.Context, req *outriggerv1.UnregisterToolRequest) (string, error) {
	if err := a.mayChange(ctx); err != nil {
		return "", err
	}
	// The interceptor leaves the rules to this method: the main listener refuses the method before it looks at the request.
	if err := protovalidate.Validate(req); err != nil {
		return "", ruleError(err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.opts.Wait)
	defer cancel()
	return a.registrar.Unregister(ctx, req.GetName(), req.GetVersion())
}

// unregistrationRefusal puts a refusal into the canonical vocabulary.
func unregistrationRefusal(refused *catalog.UnregistrationError) *errmap.Error {
	path, keyword, message := "/name", "tool", refused.Text
	var out *errmap.Error
	switch refused.Reason {
	case catalog.Unknown:
		out = errmap.UnknownTool(refused.Name, refused.Nearest...)
		if len(refused.Nearest) > 0 {
			message += "; the nearest names are " + strings.Join(refused.Nearest, ", ")
		}
	case catalog.Conflict:
		path, keyword = "/version", "version"
		out = errmap.New(errmap.RegistrationConflict, errmap.Tool(refused.Name), errmap.Message("The tool cannot be unregistered: "+message))
	case catalog.Invalid, catalog.TooMany:
		out = errmap.New(errmap.RegistrationInvalid, errmap.Tool(refused.Name), errmap.Message("The tool cannot be unregistered: "+message))
	}
	out.Violations = []errmap.Violation{{Path: path, Keyword: keyword, Message: message}}
	return out
}

// UnregisterTool is for operators only, like RegisterTool.
func (s *Service) UnregisterTool(context.Context, *connect.Request[outriggerv1.UnregisterToolRequest]) (*connect.Response[outriggerv1.UnregisterToolResponse], error) {
	return nil, adminOnly("UnregisterTool")
}

// adminOnly refuses a method of operators on the main listener.
func adminOnly(method string) error {
	return errmap.ToConnect(errmap.New(errmap.MethodNotFound, errmap.Message(
		"Method not found: "+method+" is served on the admin listener only (--admin)")), errmap.About{})
}

// RegisterTool is for operators only. Callers of the main listener have no identity
// that could make them operators.
func (s *Service) RegisterTool(context.Context, *connect.Request[outriggerv1.RegisterToolRequest]) (*connect.Response[outriggerv1.RegisterToolResponse], error) {
	return nil, adminOnly("RegisterTool")
}
