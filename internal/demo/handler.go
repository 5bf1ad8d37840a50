// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"connectrpc.com/validate"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// compressFrom is the size from which answers are compressed. Over loopback, compressing small ones costs more time than
// sending them.
const compressFrom = 64 << 10

// Handler returns the service for mounting at the root of a server of the caller's own, without a listener and without the
// check for web pages. Reflection and streams in both directions need HTTP/2. Each handler has its own data.
func Handler(opts Options) (http.Handler, error) {
	return newHandler(opts.withDefaults(), nil)
}

// newHandler builds the handler. A closed stopping channel ends streams that would not end by themselves; nil never does.
func newHandler(opts Options, stopping <-chan struct{}) (http.Handler, error) {
	files, err := describedFiles()
	if err != nil {
		return nil, err
	}
	services := []string{demov1connect.FleetName, demov1connect.LabName}
	plain := []connect.HandlerOption{
		connect.WithReadMaxBytes(opts.MaxMessageBytes),
		connect.WithSendMaxBytes(opts.MaxMessageBytes),
		connect.WithCompressMinBytes(compressFrom),
		connect.WithRecover(recoverer(opts.Logger)),
	}
	checked := slices.Concat(plain, []connect.HandlerOption{connect.WithInterceptors(validate.NewInterceptor())})
	reflector := grpcreflect.NewReflector(
		grpcreflect.NamerFunc(func() []string { return services }),
		grpcreflect.WithDescriptorResolver(files),
	)

	mux := http.NewServeMux()
	mux.Handle(demov1connect.NewFleetHandler(newFleet(opts, stopping), checked...))
	mux.Handle(demov1connect.NewLabHandler(lab{}, checked...))
	mux.Handle(grpchealth.NewHandler(grpchealth.NewStaticChecker(services...), plain...))
	mux.Handle(grpcreflect.NewHandlerV1(reflector, plain...))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, plain...))
	return mux, nil
}

// recoverer turns a panic of one call into that call's error, and keeps the stack for the log.
func recoverer(logger *zap.Logger) func(context.Context, connect.Spec, http.Header, any) error {
	return func(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
		logger.Error("panic in the demo service",
			logkey.AppendPanic([]zap.Field{zap.String(logkey.RPCMethod, strings.TrimPrefix(spec.Procedure, "/"))}, cause, debug.Stack())...)
		return connect.NewError(connect.CodeInternal, errors.New("the service failed"))
	}
}
