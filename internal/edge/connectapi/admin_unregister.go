// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"strings"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/audit"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/httpspan"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// UnregisterTool removes a registered tool. Every attempt is logged.
func (a *admin) UnregisterTool(ctx context.Context, req *connect.Request[outriggerv1.UnregisterToolRequest]) (*connect.Response[outriggerv1.UnregisterToolResponse], error) {
	name := req.Msg.GetName()
	version, err := a.unregister(ctx, req.Msg)
	from := []zap.Field{zap.String(logkey.CanonicalTool, clip(name)), zap.String(logkey.Caller, a.operator(ctx, req)), zap.String(logkey.RPCSystem, httpspan.RPCSystem(req.Peer().Protocol))}
	if err != nil {
		failed := registrationError(name, err)
		a.changed(audit.Change{Kind: "registration", Who: audit.OfOperator(a.operator(ctx, req)), Tool: clip(name), Code: string(failed.Code)})
		a.log.Warn("unregistration refused", append(from, zap.String(logkey.ErrorCode, string(failed.Code)), logkey.Error(failed))...)
		return nil, errmap.ToConnect(failed, errmap.About{})
	}
	a.log.Info("tool unregistered", append(from, zap.String("version", version))...)
	a.changed(audit.Change{Kind: "registration", Who: audit.OfOperator(a.operator(ctx, req)), Tool: clip(name), Before: version})
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
	ctx, cancel := context.WithTimeout(ctx, a.wait)
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
