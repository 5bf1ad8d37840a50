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

	"github.com/outrigger-mcp/outrigger/bridge/backend"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/policy"
	"github.com/outrigger-mcp/outrigger/internal/config"
)

func newDoctorCommand(env environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose a backend: what works, what does not, and how to fix it",
		Long: `Doctor runs the steps that serve runs at startup and reports each one: whether the
configuration is valid, the backend is reachable, which protocol it speaks, whether
it supports reflection, which tools it has and which names collide. Each problem
comes with its fix. It exits with 0 if all checks pass, else with 1.

With --json it prints {"ok", "findings": [{"level", "text", "fix", "cause"}]};
levels are ok, warn and fail.`,
		Example: `  sidecar doctor --demo
  sidecar doctor --backend http://127.0.0.1:50051
  sidecar doctor --backend http://127.0.0.1:50051 --json`,
		Args: noArguments,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
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
		if asJSON {
			d.out = nil
		}
		d.examine(ctx)
		if asJSON {
			if err := printJSON(env.stdout, findings{OK: !d.sick, Findings: d.found}); err != nil {
				return err
			}
		}
		if d.sick {
			return exitWith(exitToolFailed)
		}
		return nil
	}
	return cmd
}

// doctor gathers findings; finding.go prints them.
type doctor struct {
	app *app
	// out gets each finding as it comes; nil where all of them are printed at the end.
	out   io.Writer
	found []finding
	sick  bool
}

func (d *doctor) examine(ctx context.Context) {
	d.ok("configuration valid")
	if d.app.client == nil {
		d.fail("set --backend", "no backend configured, only descriptors")
		return
	}
	if !d.connection(ctx) && len(d.app.cfg.GetCatalog().GetDescriptors()) == 0 {
		d.warn("tools not checked: they come from reflection, and the backend does not answer")
		return
	}
	start := time.Now()
	cat, err := d.app.load(ctx)
	if err != nil {
		d.catalogFailure(ctx, err)
		return
	}
	for _, source := range d.app.live.Status().Sources {
		switch {
		case source.Tools > 0:
			d.ok("%s: %d tools", source.Name, source.Tools)
		case source.Files == 0:
			d.ok("%s: not offered", source.Name)
		default:
			d.ok("%s: %d services in %d files", source.Name, source.Services, source.Files)
		}
	}
	for _, w := range cat.Warnings() {
		d.warn("%s", w)
	}
	d.comments(cat.Tools())
	scope, err := policy.ParseScope(orElse(d.app.cfg.GetGate(), policy.Marked.String()))
	if err != nil {
		d.fail("", "%v", err)
	}
	uncallable, held := 0, 0
	for _, t := range cat.All() {
		if !t.Hidden && !t.IsCallable() {
			uncallable++
		}
	}
	for _, t := range cat.Tools() {
		if scope.Holds(t) {
			held++
		}
	}
	blocked := fmt.Sprintf("%d blocked by --gate %v for untrusted callers", held, scope)
	if d.app.cfg.GetTrust() == policy.Trusted.String() {
		blocked = fmt.Sprintf("none blocked because of --trust trusted (else %d by --gate %v)", held, scope)
	}
	d.ok("%d tools in %v, %s", len(cat.Tools()), time.Since(start).Round(time.Millisecond), blocked)
	if uncallable > 0 {
		d.ok("%d client-streaming RPCs cannot be called yet; --list-uncallable lists them", uncallable)
	}
	d.ok("no tool names collide")
}

// catalogFailure tells the ways apart in which a catalog cannot be had.
func (d *doctor) catalogFailure(ctx context.Context, err error) {
	var build *catalog.BuildError
	switch {
	case errors.As(err, &build):
		for _, p := range build.Problems {
			d.fail("correct the option or the overlay entry", "%s", p)
		}
		for _, c := range build.Collisions {
			d.fail(`set (outrigger.v1.tool).name on one of them, name it in the overlay, or leave it out with --exclude `+c.Methods[len(c.Methods)-1],
				"the %s name %q belongs to %s", c.Form, c.Name, strings.Join(c.Methods, " and "))
		}
	default:
		diagnosed := d.app.diagnose(ctx, err)
		if diagnosed.cause == causeOther {
			diagnosed.fix = "" // it would lead here
		}
		d.broken(diagnosed, diagnosed.what, err)
	}
}

// connection tells whether the backend answers, and accepts the sidecar.
func (d *doctor) connection(ctx context.Context) bool {
	target := d.app.client.Target()
	err := d.app.client.Check(ctx)
	fault := backend.FaultOf(err)
	var own *backend.Error
	answered := err == nil || errors.As(err, &own) && own.Kind == backend.KindStatus
	if answered && fault != backend.FaultCredentials && fault != backend.FaultForbidden {
		d.ok("backend %s answers over %s", target, d.app.client.Protocol())
		return true
	}
	diagnosed := d.app.diagnose(ctx, err)
	if answered {
		// Its health check alone may be guarded; what matters is what comes next.
		d.warn("backend %s answers over %s, but rejects the health check: %s (%s)", target, d.app.client.Protocol(), diagnosed.what, diagnosed.fix)
		return true
	}
	d.broken(diagnosed, fmt.Sprintf("backend %s: %s", target, diagnosed.what), err)
	return false
}

// comments says that models see names alone, where the descriptors have no
// comments.
func (d *doctor) comments(tools []*catalog.Tool) {
	described, bare := 0, 0
	for _, t := range tools {
		if t.Method.Descriptor == nil {
			continue // the backend describes it itself
		}
		if t.Method.Descriptor.ParentFile().SourceLocations().Len() > 0 {
			described++
		} else {
			bare++
		}
	}
	if bare > 0 && described == 0 {
		d.add(finding{
			Level: levelWarn, Fix: fixDescriptors,
			Text: "the descriptors have no comments, so models see only names and types; most servers omit comments from reflection",
		})
	}
}
