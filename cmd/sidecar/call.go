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
	"github.com/outrigger-mcp/outrigger/internal/client"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
)

func newCallCommand(env environment) *cobra.Command {
	var at serverFlags
	var form resultFlags
	var asks questions
	var fields string
	var asTask, preview bool
	cmd := &cobra.Command{
		Use:   "call NAME [JSON or -]",
		Short: "Call one tool through the full pipeline, of a running sidecar or without a server",
		Long: `Call runs one tool as serve does, with the same validation, gate and errors. Pass
the arguments as a JSON object, or "-" to read them from standard input. Without
arguments the tool gets an empty object. The result goes to standard output; an
error, with its canonical code, goes to standard error.

With --server, or OUTRIGGER_SERVER, a running sidecar makes the call, with its
policy, rates and audit trail. A terminal shows progress and asks what the tool asks.
--task returns at once where the tool may run as a task: ` + "`sidecar task wait ID`" + `
fetches the result. --preview shows what the call would do, and changes nothing.

The trace context in TRACEPARENT and TRACESTATE goes to the backend.

Exit codes: 0 success, 1 the tool failed, 2 invalid usage or configuration,
3 the sidecar rejected the call or could not reach the backend. With --server each
canonical code has an exit code of 10 or more, such as 15 for TOOL_NOT_FOUND,
29 for PERMISSION_DENIED, 34 for TIMEOUT and 36 for UNAVAILABLE; docs/errors.md
has them all.`,
		Example: `  sidecar call fleet.get_vehicle '{"vehicleId": "101"}' --demo
  echo '{"nonce": "hello"}' | sidecar call lab.echo - --backend http://127.0.0.1:50051
  sidecar call fleet.get_vehicle '{"vehicleId": "101"}' --server http://127.0.0.1:8080 --fields id,status
  sidecar call fleet.watch_vehicles --server http://127.0.0.1:8080 --output lines
  sidecar call lab.sleep '{"duration": "60s"}' --server unix:///run/outrigger.sock --task`,
		Args: callUsage,
	}
	at.register(cmd, env)
	form.register(cmd)
	cmd.Flags().StringVar(&fields, "fields", "", "fields of the result that are wanted, such as orders.id,nextPageToken; unset: all")
	cmd.Flags().BoolVar(&preview, "preview", false, "show what the call would do, and change nothing; the tool needs a preview (docs/policy.md)")
	asks.register(cmd)
	cmd.Flags().BoolVar(&asTask, "task", false, "run the call as a task of the running sidecar, and print the task")
	at.note(cmd)
	at.completeWith(cmd, env)
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := form.check(); err != nil {
			return err
		}
		isRemote, err := at.isRemote(cmd)
		if err != nil {
			return err
		}
		if isRemote {
			arguments, err := env.callArguments(args[1:], jsonrpc.Limits{}.WithDefaults())
			if err != nil {
				return err
			}
			call := &client.Call{Tool: args[0], Arguments: arguments, Fields: fields, Preview: preview, AsTask: asTask, Header: env.traceContext()}
			if at.ask, err = asks.asker(env); err != nil {
				return err
			}
			return at.withServer(cmd, env, serverTimeout, func(ctx context.Context, c client.Client) error {
				return asks.hint(env, env.callServer(ctx, c, call, form, at.pasted(cmd), &asks))
			})
		}
		if err := onlyRemote(cmd, append([]string{"task", "answer"}, remoteFlags()...)...); err != nil {
			return err
		}
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
			return env.callOnce(cmd.Context(), a, args[0], arguments, content.Wanted{Fields: fields, Preview: preview, Place: "_meta"}, form)
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
func (env environment) callOnce(ctx context.Context, a *server.App, name string, arguments json.RawMessage, wanted content.Wanted, form resultFlags) error {
	resp := a.Call(ctx, "cli", "call", name, arguments, env.traceContext(), wanted)
	if resp.Err == nil {
		return form.data(env.stdout, json.RawMessage(resp.JSON()))
	}
	fmt.Fprintln(env.stderr, harmless(resp.Err.ModelText(resp.About(nil))))
	if err := printJSON(env.stderr, resp.Err.Data(resp.About(nil))); err != nil {
		return err
	}
	if resp.Err.Code == errmap.ToolExecutionFailed {
		return exitWith(exitToolFailed)
	}
	return exitWith(exitRefused)
}

// callServer has a running sidecar make the call, and prints what came of it. server is how to name it again.
func (env environment) callServer(ctx context.Context, c client.Client, call *client.Call, form resultFlags, server string, asks *questions) error {
	line := progressLine{out: env.stderr, isOn: isTerminal(env.stderr)}
	if line.isOn {
		call.Progress = line.show
	}
	asks.clear = line.clear
	items := 0
	if form.format == formatLines {
		call.Item = func(item json.RawMessage) {
			items++
			line.clear()
			_ = form.line(env.stdout, item) // a reader that has gone ends the process by SIGPIPE
		}
	}
	out, err := c.Call(ctx, call)
	line.clear()
	if err != nil {
		return err
	}
	if out.Task != nil {
		if isTerminal(env.stderr) {
			fmt.Fprintf(env.stderr, "It runs on as a task: sidecar task wait %s%s\n", harmless(quoted(out.Task.ID)), server)
		}
		return form.document(env.stdout, out.Task.JSON)
	}
	return form.outcome(env, out, items)
}
