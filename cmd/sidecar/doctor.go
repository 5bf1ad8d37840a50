// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
)

func newDoctorCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why a backend has no tools, and what would fix it",
		Long: `Doctor goes the way that serve goes, step by step, and says how far it gets: is
the configuration right, can the backend be reached and which protocol does it
speak, does it reflect, which tools would appear, which names collide. What is
wrong comes with the fix. It exits with 0 where everything is well and with 1
where something is not.`,
		Example: `  sidecar doctor --demo
  sidecar doctor --backend http://127.0.0.1:50051`,
		Args: cobra.NoArgs,
	}
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := env.load(cmd, config.Once)
		if err != nil {
			return err
		}
		a, err := newApp(cmd.Context(), cfg, zap.NewNop())
		if err != nil {
			return err
		}
		defer func() { _ = a.close(cmd.Context()) }()
		ctx, cancel := context.WithTimeout(cmd.Context(), clientTimeout)
		defer cancel()
		d := &doctor{app: a, out: env.stdout}
		d.examine(ctx)
		if d.sick {
			return exitWith(exitToolFailed)
		}
		return nil
	}
	return cmd
}

// doctor prints one line a finding.
type doctor struct {
	app  *app
	out  io.Writer
	sick bool
}

func (d *doctor) ok(format string, args ...any) {
	fmt.Fprintf(d.out, "ok    "+format+"\n", args...)
}

func (d *doctor) warn(format string, args ...any) {
	fmt.Fprintf(d.out, "warn  "+format+"\n", args...)
}

func (d *doctor) fail(fix, format string, args ...any) {
	d.sick = true
	fmt.Fprintf(d.out, "FAIL  "+format+"\n", args...)
	if fix != "" {
		fmt.Fprintf(d.out, "      fix: %s\n", fix)
	}
}

func (d *doctor) examine(ctx context.Context) {
	d.ok("configuration")
	if d.app.client == nil {
		d.fail("name it with --backend", "there is no backend, only descriptors")
		return
	}
	target := d.app.client.Target()
	reached := true
	if err := d.app.client.Ping(ctx); err != nil {
		reached = false
		d.fail("start the backend, or correct --backend; a service that answers no probe can be named with its protocol, as in grpc://host:port",
			"backend %s: %v", target, err)
	} else {
		d.ok("backend %s answers over %s", target, d.app.client.Protocol())
	}
	if !reached && len(d.app.cfg.GetCatalog().GetDescriptors()) == 0 {
		d.warn("the tools cannot be looked at before the backend answers, because its reflection is where they come from")
		return
	}
	start := time.Now()
	cat, err := d.app.load(ctx)
	if err != nil {
		d.catalogFailure(err)
		return
	}
	for _, source := range d.app.live.Status().Sources {
		switch {
		case source.Tools > 0:
			d.ok("%s: %d tools of its own", source.Name, source.Tools)
		case source.Files == 0:
			d.ok("%s: nothing", source.Name)
		default:
			d.ok("%s: %d services in %d files", source.Name, source.Services, source.Files)
		}
	}
	for _, w := range cat.Warnings() {
		d.warn("%s", w)
	}
	streaming, destructive := 0, 0
	for _, t := range cat.Tools() {
		if t.Method.ClientStreaming {
			streaming++
		}
		if t.Metadata.Destructive {
			destructive++
		}
	}
	d.ok("%d tools in %v: %d that take a stream (listed, not callable), %d destructive (blocked unless --trust trusted)",
		len(cat.Tools()), time.Since(start).Round(time.Millisecond), streaming, destructive)
	d.ok("no two tools have the same name")
}

// catalogFailure tells the ways apart in which a catalog cannot be had.
func (d *doctor) catalogFailure(err error) {
	var build *catalog.BuildError
	var source *catalog.SourceError
	switch {
	case errors.As(err, &build):
		for _, p := range build.Problems {
			d.fail("correct the option or the overlay entry", "%s", p)
		}
		for _, c := range build.Collisions {
			d.fail(`set (outrigger.v1.tool).name on one of them, name it in the overlay, or leave it out with --exclude `+c.Methods[len(c.Methods)-1],
				"the %s name %q belongs to %s", c.Form, c.Name, strings.Join(c.Methods, " and "))
		}
	case errors.As(err, &source):
		d.fail("turn on server reflection in the backend, or give its descriptors: buf build -o api.binpb, then --descriptors api.binpb",
			"%v", err)
	case errors.Is(err, catalog.ErrEmpty):
		d.fail("loosen --include and --exclude; `sidecar tools` without them shows every name", "%v", err)
	default:
		d.fail("", "%v", err)
	}
}
