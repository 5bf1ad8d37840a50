// SPDX-License-Identifier: Apache-2.0

// Command release builds a release into a folder, and publishes what is in one:
//
//	release build -root ../.. -version 0.1.0 -out ../../dist
//	release check -root ../.. -version 0.1.0 -out ../../dist
//	release publish -version 0.1.0 -out ../../dist
//	release tag -root ../.. -version 0.1.0 -out ../../dist
//	release github -root ../.. -version 0.1.0 -out ../../dist
//
// Check sends nothing. Publish, tag and github can be repeated: they leave what is there as it is.
// Wrong flags end it with code 2, anything else that goes wrong with code 1.
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

	"github.com/outrigger-mcp/outrigger/deploy/release"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if len(args) == 0 {
		args = []string{""}
	}
	names, err := release.LoadNames()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	o := release.Options{Names: names}
	p := release.Publication{Image: names.Image, Output: stdout}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Root, "root", ".", "`folder` of the repository")
	flags.StringVar(&o.Out, "out", "dist", "`folder` of the release")
	flags.StringVar(&o.Version, "version", "", "`version`, such as 0.1.0")
	registries := func() {
		flags.StringVar(&p.Registry, "npm-registry", "https://registry.npmjs.org/", "`URL` of npm's registry")
		flags.StringVar(&p.Image, "image", p.Image, "`repository` of the image")
	}
	var command func() error
	switch args[0] {
	case "build":
		command = func() error { return release.Build(ctx, o) }
		flags.BoolVar(&o.Dirty, "dirty", false, "build a working tree with changes, to try it")
		flags.StringVar(&o.Key, "key", "", "`file` with the private key that signs the provenance; default: a new key, thrown away")
		flags.Func("platforms", "`list` such as linux/amd64,darwin/arm64; default: all", func(s string) (err error) {
			o.Platforms, err = release.ParsePlatforms(s)
			return err
		})
	case "check":
		command = func() error { return release.Check(ctx, o, p) }
		registries()
		flags.StringVar(&p.Remote, "remote", "origin", "`remote` of git that gets the tags")
	case "github":
		command = func() error { return release.GitHub(ctx, o, p) }
	case "tag":
		command = func() error { return release.Tag(ctx, o) }
	case "publish":
		command = func() error { return release.Publish(ctx, o, p) }
		registries()
	default:
		fmt.Fprintf(stderr, "release %q is unknown; want build, check, publish, tag or github\n", args[0])
		return 2
	}
	switch err := flags.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "release %s takes no arguments, only flags: %q\n", args[0], flags.Args())
		return 2
	}
	if err := command(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
