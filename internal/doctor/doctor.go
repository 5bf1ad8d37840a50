// SPDX-License-Identifier: Apache-2.0

// Package doctor diagnoses, step by step, why a backend has no tools, and how to fix
// it. It runs the same steps as a sidecar at startup.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Sidecar is what doctor examines.
type Sidecar interface {
	Config() *configv1.Config
	Live() *catalog.Live
	Load(ctx context.Context) (*catalog.Catalog, error)
	Diagnoser() upstream.Diagnoser
}

// Examine diagnoses a sidecar that is not serving, and passes each finding to show as
// it is made.
//
// exports is what telemetry the sidecar would export; nil for none.
func Examine(ctx context.Context, app Sidecar, exports *telemetry.Settings, show func(Finding)) Findings {
	d := &doctor{app: app, exports: exports, client: app.Diagnoser().Client, cfg: app.Config(), show: show, found: Findings{OK: true}}
	d.examine(ctx)
	d.rates(ctx)
	d.telemetry(ctx)
	return d.found
}

// doctor gathers findings.
type doctor struct {
	app     Sidecar
	exports *telemetry.Settings
	client  *backend.Client
	cfg     *configv1.Config
	show    func(Finding)
	found   Findings
}

func (d *doctor) examine(ctx context.Context) {
	d.ok("configuration valid")
	if d.client == nil {
		d.fail("set --backend", "no backend configured, only descriptors")
		return
	}
	if settings.MakesTools(d.cfg.GetCatalog()) {
		_, _ = d.app.Load(ctx) // a probe may ask the methods of the descriptors; the steps below say what is wrong with them
	}
	answers := d.connection(ctx)
	if !answers && !settings.MakesTools(d.cfg.GetCatalog()) {
		d.warn("tools not checked: they come from reflection, and the backend does not answer")
		return
	}
	start := time.Now()
	cat, err := d.app.Load(ctx)
	if err != nil {
		d.catalogFailure(ctx, err)
		return
	}
	for _, source := range d.app.Live().Status().Sources {
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
	if answers && settings.MakesTools(d.cfg.GetCatalog()) {
		for _, text := range d.app.Diagnoser().Offered(ctx, cat) {
			d.fail(upstream.FixOffered, "%s", text)
		}
	}
	d.comments(cat.Tools())
	d.schemas(cat.Tools())
	scope, err := settings.GateScope(d.cfg)
	if err != nil {
		d.fail("", "%v", err)
	}
	held := 0
	for _, t := range cat.Tools() {
		if scope.Holds(t) {
			held++
		}
	}
	blocked := fmt.Sprintf("%d blocked by --gate %v for untrusted callers", held, scope)
	if d.cfg.GetTrust() == policy.Trusted.String() {
		blocked = fmt.Sprintf("none blocked because of --trust trusted (else %d by --gate %v)", held, scope)
	}
	d.ok("%d tools in %v, %s", len(cat.Tools()), time.Since(start).Round(time.Millisecond), blocked)
	d.verbs(cat.Tools(), scope)
	d.ok("no tool names collide")
	d.lists(cat)
	d.rules(cat)
	d.lock(cat)
	d.compact(cat)
	d.skills()
}

// rules says whether the policy rules fit the tools.
func (d *doctor) rules(cat *catalog.Catalog) {
	set, err := settings.Rules(d.cfg)
	if err != nil {
		d.fail("correct the rules", "policy: %v", err)
		return
	}
	faults := set.Fit(cat)
	list := set.Rules()
	for _, f := range faults {
		d.fail("correct the rule; until then the tool is disabled", "policy rule %s does not fit: %v", list[f.Index].Name, f)
	}
	for i, r := range list {
		if len(set.ToolsOf(i, cat)) == 0 {
			d.warn("policy rule %s matches no tool", r.Name)
		}
	}
	if len(list) > 0 && len(faults) == 0 {
		d.ok("%d policy rules fit the tools", len(list))
	}
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
		diagnosed := d.app.Diagnoser().Diagnose(ctx, err)
		if diagnosed.Cause == upstream.CauseOther {
			diagnosed.Fix = "" // it would lead here
		}
		d.broken(diagnosed, diagnosed.What, err)
	}
}

// connection tells whether the backend answers, and accepts the sidecar.
func (d *doctor) connection(ctx context.Context) bool {
	target := d.client.Target()
	err := d.client.Check(ctx)
	fault := backend.FaultOf(err)
	var own *backend.Error
	answered := err == nil || errors.As(err, &own) && own.Kind == backend.KindStatus
	if answered && fault != backend.FaultCredentials && fault != backend.FaultForbidden {
		d.ok("backend %s answers over %s", target, d.client.Protocol())
		return true
	}
	diagnosed := d.app.Diagnoser().Diagnose(ctx, err)
	if answered {
		// Its health check alone may be guarded; what matters is what comes next.
		d.warn("backend %s answers over %s, but rejects the health check: %s (%s)", target, d.client.Protocol(), diagnosed.What, diagnosed.Fix)
		return true
	}
	d.broken(diagnosed, fmt.Sprintf("backend %s: %s", target, diagnosed.What), err)
	return false
}

// What to do about descriptors without comments.
const (
	fixReflectedComments = "add the comments from its descriptors: `buf build -o api.binpb` in its repository, then --descriptors api.binpb --descriptors-use comments; " +
		"or make the tools of them: --descriptors api.binpb alone"
	fixDescriptorComments = "build them with comments: `buf build -o api.binpb`, or protoc with --include_source_info"
)

// comments says that models see names alone, where the descriptors have no
// comments and no other descriptions of all methods.
func (d *doctor) comments(tools []*catalog.Tool) {
	described, bare, isMissing := 0, 0, false
	for _, t := range tools {
		if t.Native {
			continue // the backend describes it itself
		}
		if t.Method.Descriptor.ParentFile().SourceLocations().Len() > 0 {
			described++
		} else {
			bare++
		}
		isMissing = isMissing || t.Undescribed
	}
	if bare > 0 && described == 0 && isMissing {
		found := Finding{Level: levelWarn, Text: "the descriptors have no comments, so models see only names and types", Fix: fixDescriptorComments}
		if len(d.cfg.GetCatalog().GetDescriptors()) == 0 {
			found.Text += "; most servers omit comments from reflection"
			found.Fix = fixReflectedComments
		}
		d.add(found)
	}
}
