// SPDX-License-Identifier: Apache-2.0

// Command toolservice is the example tool service of the manifests: the demo
// fleet as its own process, on loopback or on a Unix socket.
//
//	toolservice -listen 127.0.0.1:50051
//	toolservice -listen unix:///run/outrigger/app.sock
//
// It writes a JSON line to standard output for every call that it begins and
// ends, with the caller's x-request-id, so that executions can be counted. It
// ends with code 0 on SIGTERM or an interrupt, after the calls in flight. Wrong
// flags end it with code 2, anything else that goes wrong with code 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var opts options
	flags := flag.NewFlagSet("toolservice", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.listen, "listen", "127.0.0.1:50051", "loopback `address`, or unix:///path")
	flags.DurationVar(&opts.delay, "delay", 0, "`time` to wait before listening, like a service that is slow to start")
	flags.DurationVar(&opts.grace, "grace", 25*time.Second, "`time` that calls in flight get to end")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "toolservice takes no arguments, only flags: %q\n", flags.Args())
		return 2
	}
	if err := serve(ctx, opts, newJournal(stdout)); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
