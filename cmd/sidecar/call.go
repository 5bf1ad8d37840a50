// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
)

func newCallCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "call NAME [JSON or -]",
		Short: "Call one tool through the full pipeline, without starting a server",
		Long: `Call runs one tool as serve does, with the same validation, gate and errors. Pass
the arguments as a JSON object, or "-" to read them from standard input. Without
arguments the tool gets an empty object. The result goes to standard output; an
error, with its canonical code, goes to standard error.

The trace context in TRACEPARENT and TRACESTATE goes to the backend.

Exit codes: 0 success, 1 the tool failed, 2 invalid usage or configuration,
3 the sidecar rejected the call or could not reach the backend.`,
		Example: `  sidecar call fleet.get_vehicle '{"vehicleId": "101"}' --demo
  echo '{"nonce": "hello"}' | sidecar call lab.echo - --backend http://127.0.0.1:50051`,
		Args: callUsage,
	}
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return env.withApp(cmd, func(ctx context.Context, a *server.App) error {
			// Of several backends, one that is away takes nothing from the tools of the others.
			if cat, err := a.Load(ctx); cat == nil {
				return notLoaded(err)
			} else if err != nil {
				fmt.Fprintln(env.stderr, "warning: "+err.Error())
			}
			arguments, err := env.callArguments(args[1:], front.JSONLimits(a.Config()))
			if err != nil {
				return err
			}
			return env.callOnce(cmd.Context(), a, args[0], arguments)
		})
	}
	return cmd
}

// callArguments reads and checks the arguments: strict JSON and an object, like
// on every edge.
func (env environment) callArguments(args []string, limits jsonrpc.Limits) (json.RawMessage, error) {
	if len(args) == 0 {
		return nil, nil
	}
	raw := []byte(args[0])
	if args[0] == "-" {
		var err error
		if raw, err = io.ReadAll(io.LimitReader(env.stdin, int64(limits.MaxBytes)+1)); err != nil {
			return nil, fmt.Errorf("read arguments: %w", err)
		}
	}
	if args[0] == "-" && len(bytes.TrimSpace(raw)) == 0 {
		return nil, usageError("arguments: standard input ended without a JSON object; for no arguments, omit the -")
	}
	if fault := jsonrpc.Check(raw, limits); fault != nil {
		return nil, usageError("arguments" + fault.Path + ": " + fault.Reason)
	}
	raw = bytes.TrimSpace(raw)
	if !jsontext.IsObject(raw) {
		return nil, usageError("arguments: want a JSON object, such as '{\"id\": \"101\"}'")
	}
	return raw, nil
}

// traceContext is the trace context that the process was started with, as OpenTelemetry
// passes it in environment variables; nil for none. One that is no valid header value counts as none.
func (env environment) traceContext() http.Header {
	var out http.Header
	for _, entry := range env.environ {
		name, value, _ := strings.Cut(entry, "=")
		if (name == "TRACEPARENT" || name == "TRACESTATE") && value != "" && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			if out == nil {
				out = http.Header{}
			}
			out.Set(name, value)
		}
	}
	return out
}

// callOnce makes the call and prints what came of it.
func (env environment) callOnce(ctx context.Context, a *server.App, name string, arguments json.RawMessage) error {
	resp := a.Call(ctx, "cli", "call", name, arguments, env.traceContext())
	if resp.Err == nil {
		return printJSON(env.stdout, json.RawMessage(resp.JSON()))
	}
	fmt.Fprintln(env.stderr, resp.Err.ModelText(resp.About(nil)))
	if err := printJSON(env.stderr, resp.Err.Data(resp.About(nil))); err != nil {
		return err
	}
	if resp.Err.Code == errmap.ToolExecutionFailed {
		return exitWith(exitToolFailed)
	}
	return exitWith(exitRefused)
}
