// SPDX-License-Identifier: Apache-2.0

// Command sidecar makes every RPC of a Protobuf service callable as a tool.
//
// main and root.go are the process: signals, streams, exit codes and the list of
// commands. Each command has its own file. What they run is assembled in
// internal/server. Wrong flags, arguments and configurations are refused before a
// port opens. Nothing here is called concurrently.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/outrigger-mcp/outrigger/internal/server/lastresort"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains. From then on they have their usual effect, so
	// that a second one ends a drain that takes too long.
	context.AfterFunc(ctx, stop)
	resort := lastresort.New(os.Stderr, os.Exit)
	os.Exit(runWith(ctx, resort, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// runWith is the whole process, with everything that it has of the outside as an
// argument. It returns the exit code; ctx ends it as a signal would.
func runWith(ctx context.Context, resort *lastresort.Timer, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	env := environment{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ, resort: resort}
	defer env.resort.Disarm()
	defer context.AfterFunc(ctx, env.resort.Begin)()
	root := newRootCommand(env)
	root.SetArgs(append([]string{}, args...)) // nil would be those of the process
	err := unknownCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err != nil {
		printError(stderr, err)
	}
	return exitCode(err)
}
