// SPDX-License-Identifier: Apache-2.0

// Command image builds the container images of the sidecar, of the example tool
// service and of the injector, for linux/amd64 and linux/arm64, without a container engine:
//
//	image -root .. -version 0.1.0 -commit abc -time 2026-01-02T03:04:05Z -out ../dist
//
// It prints a line for each image, with its name, digest and archive. Wrong
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

	"github.com/outrigger-mcp/outrigger/deploy/image"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var options image.Options
	var root string
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&root, "root", ".", "`folder` of the repository")
	flags.StringVar(&options.Repository, "repository", "registry.example/outrigger", "`name` before the image's own")
	flags.StringVar(&options.Version, "version", "", "`version`, which is the tag")
	flags.StringVar(&options.Commit, "commit", "", "`commit` that it is built from")
	flags.StringVar(&options.Out, "out", "dist", "`folder` for archives and bills of materials")
	flags.Func("time", "`time` of the commit, RFC 3339", func(s string) (err error) {
		options.Time, err = time.Parse(time.RFC3339, s)
		return err
	})
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "image takes no arguments, only flags: %q\n", flags.Args())
		return 2
	}
	for _, program := range image.All(root, options.Version, options.Commit) {
		built, err := image.Build(ctx, program, options)
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		fmt.Fprintf(stdout, "%s@%s %s\n", built.Reference, built.Digest, built.Archive)
	}
	return 0
}
