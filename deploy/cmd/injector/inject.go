// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/outrigger-mcp/outrigger/deploy/inject"
)

// manifests is `injector inject`.
func manifests(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var o inject.Options
	var m inject.Manifest
	var check bool
	flags := flag.NewFlagSet("injector inject", flag.ContinueOnError)
	flags.BoolVar(&check, "check", false, "write no manifest, list what would change, and end with code 1 if anything would")
	flags.BoolVar(&m.Remove, "uninject", false, "take the sidecar out again")
	flags.BoolVar(&m.All, "all", false, "inject into workloads without a label too; outrigger.dev/inject: disabled wins")
	flags.StringVar(&o.Image, "image", "", "default `image` of the sidecar; empty: that of the manifests")
	if code := parse(flags, args, stderr, 1); code >= 0 {
		return code
	}
	name := flags.Arg(0)
	text, err := read(name, stdin)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	i, err := inject.New(o)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	out, results, err := i.Documents(text, m)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	code := 0
	for _, r := range results {
		at := fmt.Sprintf("%s: document %d: %s %s", name, r.Document, r.Kind, r.Name)
		switch {
		case r.Decision.Outcome == inject.Refused:
			fmt.Fprintf(stderr, "%s: starts without the sidecar: %s\n", at, r.Decision.Message)
			code = 1
		case r.Decision.Outcome == inject.Skipped && !check:
			fmt.Fprintf(stderr, "%s: not injected: %s\n", at, r.Decision.Message)
		}
		for _, kept := range r.Kept {
			fmt.Fprintf(stderr, "%s: stays as it is: %s\n", at, kept)
		}
		if check && r.Changed() {
			code = 1
			fmt.Fprintf(stdout, "%s differs\n", at)
			for _, d := range r.Differences {
				fmt.Fprintf(stdout, "  %s\n", d)
			}
		}
	}
	if check {
		return code
	}
	if _, err := stdout.Write(out); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return code
}

// read reads a manifest, from standard input for "-".
func read(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, inject.MaxManifestBytes+1))
	}
	return os.ReadFile(name)
}
