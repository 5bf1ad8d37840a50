// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/offer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// Sidecar is what doctor examines.
type Sidecar interface {
	Config() *configv1.Config
	Live() *catalog.Live
	Load(ctx context.Context) (*catalog.Catalog, error)
	Diagnosers() []upstream.Diagnoser
}

// Examine diagnoses a sidecar that is not serving, and passes each finding to show as
// it is made.
//
// exports is what telemetry the sidecar would export; nil for none.
func Examine(ctx context.Context, app Sidecar, exports *export.Settings, show func(Diagnosis)) Diagnoses {
	d := &doctor{app: app, exports: exports, cfg: app.Config(), show: show, found: Diagnoses{OK: true}}
	d.examine(ctx)
	d.rates(ctx)
	d.telemetry(ctx)
	return d.found
}

// doctor gathers findings.
type doctor struct {
	app     Sidecar
	exports *export.Settings
	cfg     *configv1.Config
	show    func(Diagnosis)
	found   Diagnoses
}

func (d *doctor) examine(ctx context.Context) {
	d.ok("configuration valid")
	if names := config.ExperimentsOf(d.cfg); len(names) > 0 {
		d.ok("experimental features on, which may change in any release: %s", strings.Join(names, ", "))
	}
	all := d.app.Diagnosers()
	if all[0].Recorded != nil {
		d.unreal(ctx, all[0])
		return
	}
	if all[0].Client == nil {
		d.fail("set --backend", "no backend configured, only descriptors")
		return
	}
	if slices.ContainsFunc(all, upstream.Diagnoser.MakesTools) {
		_, _ = d.app.Load(ctx) // a probe may ask the methods of the descriptors; the steps below say what is wrong with them
	}
	answers, isAway := map[string]bool{}, true
	for _, one := range all {
		answers[one.Name] = d.connection(ctx, one)
		isAway = isAway && !answers[one.Name] && !one.MakesTools()
	}
	if isAway {
		d.warn("tools not checked: they come from reflection, and the backend does not answer")
		return
	}
	start := time.Now()
	cat, err := d.app.Load(ctx)
	if err != nil && !d.catalogFailures(ctx, all, answers, err) || cat == nil {
		return
	}
	for _, source := range d.app.Live().Status().Sources {
		switch {
		case source.Err != nil: // said above
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
	for _, one := range all {
		if !answers[one.Name] || !one.MakesTools() {
			continue
		}
		for _, text := range one.Offered(ctx, cat.OfBackend(one.Name)) {
			d.fail(one.FixOffered(), "%s", text)
		}
	}
	d.comments(cat.Tools())
	d.schemas(cat.Tools())
	scope, err := policy.ParseScope(d.cfg.GetGate())
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

// unreal says what answers where there is no backend, and what of a recording does not fit the tools.
func (d *doctor) unreal(ctx context.Context, one upstream.Diagnoser) {
	cat, err := d.app.Load(ctx)
	if err != nil {
		by := one.Diagnose(ctx, err)
		d.broken(by, by.Event, err)
		return
	}
	what, problems := one.Recorded.Says()
	d.ok("%d tools; no backend: answers are not real: %s", len(cat.Tools()), what)
	for _, text := range problems {
		d.warn("%s", text)
	}
}

// rules says whether the policy rules fit the tools.
func (d *doctor) rules(cat *catalog.Catalog) {
	set, err := upstream.Rules(d.cfg)
	if err != nil {
		d.fail("correct the rules", "policy: %v", err)
		return
	}
	set = policy.NewEngine(set).Set() // one without rules, if there is none
	faults := set.Fit(cat)
	list := set.Rules()
	for _, f := range faults {
		switch {
		case f.Path != "":
			d.fail("correct the policy; until then fields of a class that is not named are hidden from all callers", "policy: %s: %v", f.Path, f)
		case f.OnResult:
			d.fail("correct the rule; until then it counts as one that holds", "policy rule %s does not fit: %v", list[f.Index].Name, f)
		default:
			d.fail("correct the rule; until then the tool is disabled", "policy rule %s does not fit: %v", list[f.Index].Name, f)
		}
	}
	for i, r := range list {
		if why := set.NeverMatches(i, cat); why != "" {
			d.warn("policy rule %s %s", r.Name, why)
		}
		if len(set.ToolsOf(i, cat)) == 0 {
			d.warn("policy rule %s matches no tool", r.Name)
		}
	}
	if len(list) > 0 && len(faults) == 0 {
		d.ok("%d policy rules fit the tools", len(list))
	}
}

// catalogFailures says why backends have no tools, and reports whether the others can be offered.
func (d *doctor) catalogFailures(ctx context.Context, all []upstream.Diagnoser, answers map[string]bool, err error) (goOn bool) {
	isSaid := false
	for _, one := range all {
		failed := one.Failed(err)
		isSaid = isSaid || failed != nil
		if failed != nil && (answers[one.Name] || one.MakesTools()) {
			d.catalogFailure(ctx, one, failed)
		}
	}
	if !isSaid { // each has tools, and they cannot be offered together
		d.fail("correct the setting that it names", "%v", err)
	}
	return isSaid && all[0].Name != ""
}

// catalogFailure tells the ways apart in which a catalog cannot be had.
func (d *doctor) catalogFailure(ctx context.Context, of upstream.Diagnoser, err error) {
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
		diagnosed := of.Diagnose(ctx, err)
		if of.Name != "" {
			diagnosed.What = "backend " + of.Name + ": " + diagnosed.What
		}
		if diagnosed.Cause == upstream.CauseOther {
			diagnosed.Fix = "" // it would lead here
		}
		d.broken(diagnosed, diagnosed.What, err)
	}
}

// connection tells whether a backend answers, and accepts the sidecar.
func (d *doctor) connection(ctx context.Context, of upstream.Diagnoser) bool {
	target := strings.TrimPrefix(of.Name+" "+of.Client.Target().String(), " ")
	err := of.Client.Check(ctx)
	fault := backend.FaultOf(err)
	var own *backend.Error
	answered := err == nil || errors.As(err, &own) && own.Kind == backend.KindStatus
	if answered && fault != backend.FaultCredentials && fault != backend.FaultForbidden {
		d.ok("backend %s answers over %s", target, of.Client.Protocol())
		d.addresses(ctx, target, of.Client)
		return true
	}
	diagnosed := of.Diagnose(ctx, err)
	if answered {
		// Its health check alone may be guarded; what matters is what comes next.
		d.warn("backend %s answers over %s, but rejects the health check: %s (%s)", target, of.Client.Protocol(), diagnosed.What, diagnosed.Fix)
		return true
	}
	d.broken(diagnosed, fmt.Sprintf("backend %s: %s", target, diagnosed.What), err)
	return false
}

// addresses tells how those of a backend with many are doing, and that only one of several is used where the URL says so.
func (d *doctor) addresses(ctx context.Context, target string, client *backend.Client) {
	switch stats, n := client.AskAddresses(ctx); {
	case stats != nil:
		text, isWell := upstream.SayAddresses(stats)
		if isWell {
			d.ok("backend %s: %s", target, text)
		} else {
			d.warn("backend %s: %s", target, text)
		}
	case n > 1:
		d.ok("backend %s: the name has %d addresses, and all calls go to one of them (if these are the servers themselves: --backend %s uses all)", target, n, client.Target().Spread())
	}
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
		found := Diagnosis{Level: levelWarn, Text: "the descriptors have no comments, so models see only names and types", Fix: fixDescriptorComments}
		if len(d.cfg.GetCatalog().GetDescriptors()) == 0 {
			found.Text += "; most servers omit comments from reflection"
			found.Fix = fixReflectedComments
		}
		d.add(found)
	}
}

// Levels of a finding, as `doctor --json` names them.
const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "fail"
)

// Diagnosis is one thing that doctor has to say.
type Diagnosis struct {
	Level string `json:"level"`
	Text  string `json:"text"`
	// Fix says what to do, Cause what went wrong below; empty where there is nothing to say.
	Fix   string `json:"fix,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// Print writes a finding for a person.
func (f Diagnosis) Print(out io.Writer) {
	shown := f.Level
	if f.Level == levelFail {
		shown = "FAIL"
	}
	fmt.Fprintf(out, "%-5s %s\n", shown, f.Text)
	if f.Fix != "" {
		fmt.Fprintf(out, "      fix: %s\n", f.Fix)
	}
	if f.Cause != "" {
		fmt.Fprintf(out, "      cause: %s\n", f.Cause)
	}
}

// Diagnoses is what doctor prints with --json.
type Diagnoses struct {
	OK       bool        `json:"ok"`
	Findings []Diagnosis `json:"findings"`
}

func (d *doctor) ok(format string, args ...any) {
	d.add(Diagnosis{Level: levelOK, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(format string, args ...any) {
	d.add(Diagnosis{Level: levelWarn, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) fail(fix, format string, args ...any) {
	d.add(Diagnosis{Level: levelFail, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// broken is a failure that was diagnosed from an error.
func (d *doctor) broken(by upstream.Diagnosis, text string, err error) {
	cause := causeText(err)
	if strings.Contains(text, cause) {
		cause = "" // it has been said
	}
	d.add(Diagnosis{Level: levelFail, Text: text, Fix: by.Fix, Cause: cause})
}

// causeText is the text of an error without what the finding says already: that it
// is about the backend, which cannot be reached. It is one line: joined errors are a line
// each.
func causeText(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	for _, prefix := range []string{"backend: ", "unreachable: ", "cannot reach the backend: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}

func (d *doctor) add(f Diagnosis) {
	d.found.OK = d.found.OK && f.Level != levelFail
	d.found.Findings = append(d.found.Findings, f)
	d.show(f)
}

// compact says which tools are listed, where that is not all of them in any case.
func (d *doctor) compact(cat *catalog.Catalog) {
	o := compact.OptionsOf(d.cfg.GetCatalog())
	tools, stand := len(cat.Tools()), "three tools stand"
	if o.HasPrograms {
		stand = "four tools stand"
	}
	switch {
	case !o.IsOffered():
	case o.Mode == compact.Always:
		d.ok("the list is compact: %s for %d (--catalog-mode)", stand, tools)
	case cat.ListExceeds(o.AboveBytes):
		d.ok("the list is compact: %s for %d, whose list is larger than %d bytes (--compact-above-bytes)", stand, tools, o.AboveBytes)
	default:
		d.ok("the list has all %d tools: it is not larger than %d bytes (--compact-above-bytes)", tools, o.AboveBytes)
	}
}

// maxOutsideShown bounds the files that a finding names.
const maxOutsideShown = 5

// skills says what the folders of skills have. Their faults are those of the configuration.
func (d *doctor) skills() {
	source, err := offer.OpenSkills(d.cfg)
	switch {
	case err != nil:
		d.fail("correct the folders of skills", "skills: %v", err)
		return
	case source == nil:
		return
	}
	set := source.Current()
	d.ok("%d skills with %d files", len(set.Skills()), len(set.Resources()))
	if n := len(set.Outside); n > 0 {
		shown := strings.Join(set.Outside[:min(n, maxOutsideShown)], ", ")
		if n > maxOutsideShown {
			shown += ", ..."
		}
		d.warn("files outside every skill, which are not served: %d (%s)", n, shown)
	}
}

// lists says what the list of tools costs those who read it.
func (d *doctor) lists(cat *catalog.Catalog) {
	shown, err := compact.OptionsOf(d.cfg.GetCatalog()).Listed(cat)
	if err != nil {
		d.fail("", "list of tools: %v", err)
		return
	}
	cost, budget := dialect.ListCost(shown), listcost.BudgetOf(d.cfg.GetCatalog())
	text := fmt.Sprintf("the list of %d tools has %d bytes, about %d tokens", cost.Tools, cost.Bytes, cost.Tokens)
	if !budget.IsExceeded(cost) {
		d.ok("%s", text)
		return
	}
	dearest := make([]string, len(cost.Dearest))
	for i, t := range cost.Dearest {
		dearest[i] = fmt.Sprintf("%s %d", t.Name, t.Bytes)
	}
	d.add(Diagnosis{
		Level: levelWarn, Text: fmt.Sprintf("%s; the budget is %d bytes. The dearest: %s", text, budget.InBytes(), strings.Join(dearest, ", ")),
		Fix: "leave tools out with --exclude, set --output-schemas none or --catalog-mode compact, or raise --list-budget-bytes and --list-budget-tokens",
	})
}

// maxDriftShown bounds the findings about tools that differ from the catalog lock.
const maxDriftShown = 20

// lock says which tools differ from the catalog lock. Where they are refused, that is a
// failure: callers lack them.
func (d *doctor) lock(cat *catalog.Catalog) {
	drift, isLocked := cat.Drift()
	switch {
	case !isLocked:
		return
	case drift.IsNone():
		d.ok("the tools match the catalog lock %s", d.cfg.GetCatalog().GetLockFile())
		return
	}
	var lines []string
	for _, name := range drift.Added {
		lines = append(lines, "tool "+name+" is not in the lock")
	}
	for _, c := range drift.Changed {
		lines = append(lines, fmt.Sprintf("tool %s differs from the lock: %s", c.Name, strings.Join(c.Members, ", ")))
	}
	unapproved := len(lines)
	for _, name := range drift.Removed {
		lines = append(lines, "tool "+name+" of the lock does not exist")
	}
	refuses := catalog.RefusesDrift(d.cfg.GetCatalog())
	for i, line := range lines {
		if i == maxDriftShown {
			d.warn("%d more tools differ from the catalog lock", len(lines)-i)
			break
		}
		if refuses && i < unapproved {
			line += "; it is left out"
		}
		d.warn("%s", line)
	}
	const fix = "review the changes with `sidecar lock check`, then run `sidecar lock update`"
	if refuses && unapproved > 0 {
		d.fail(fix, "tools that the catalog lock refuses: %d", unapproved)
		return
	}
	d.add(Diagnosis{Level: levelWarn, Text: "the tools differ from the catalog lock: " + drift.String(), Fix: fix})
}

// ratesTimeout is what the rate limit service has to answer, the connection included.
const ratesTimeout = 5 * time.Second

// rates asks the rate limit service whether it answers, and in time. If calls run without
// it, a fault is a warning.
func (d *doctor) rates(ctx context.Context) {
	r := d.cfg.GetRateService()
	client, err := policy.RateServiceClient(r, "doctor")
	if err != nil {
		d.fail("correct rate_service", "rate limit service: %v", err)
		return
	}
	if client == nil {
		return
	}
	defer func() { _ = client.Close() }()
	service := policy.NewRateService(client, r, zap.NewNop())
	ctx, cancel := context.WithTimeout(ctx, ratesTimeout)
	defer cancel()
	if err := service.Probe(ctx); err != nil {
		found := Diagnosis{
			Level: levelWarn, Text: "rate limit service " + r.GetUrl() + " does not answer: calls run without shared limits",
			Fix: "start the service, or correct rate_service.url (--rate-service)", Cause: err.Error(),
		}
		if r.GetFailure() == "closed" {
			found.Level, found.Text = levelFail, "rate limit service "+r.GetUrl()+" does not answer: calls are rejected"
		}
		d.add(found)
		return
	}
	begun := time.Now() // now that there is a connection
	err = service.Probe(ctx)
	switch took, limit := time.Since(begun).Round(time.Microsecond), r.GetTimeout().AsDuration(); {
	case err != nil:
		d.warn("rate limit service %s answers only at times: %v", r.GetUrl(), err)
	case took > limit:
		d.add(Diagnosis{
			Level: levelWarn, Text: "rate limit service " + r.GetUrl() + " answers in " + took.String() + ", which is longer than calls wait",
			Fix: "run the service closer, or raise rate_service.timeout (--rate-timeout)",
		})
	default:
		d.ok("rate limit service %s answers in %v", r.GetUrl(), took)
	}
}

// maxSchemaNotes is how many notes of schemas are shown; an API with one habit has it everywhere.
const maxSchemaNotes = 10

// schemas says what the schemas of the tools leave out: annotations that cannot be read, examples that are wrong, messages
// that are too large. Tools share messages, so each note is shown once.
func (d *doctor) schemas(tools []*catalog.Tool) {
	seen := map[string]bool{}
	for _, t := range tools {
		for _, notes := range [...][]string{t.Input.Warnings(), t.Output.Warnings()} {
			for _, note := range notes {
				if seen[note] {
					continue
				}
				seen[note] = true
				if len(seen) <= maxSchemaNotes {
					d.warn("%s", note)
				}
			}
		}
	}
	if more := len(seen) - maxSchemaNotes; more > 0 {
		d.warn("%d more notes about schemas", more)
	}
}

// telemetry asks the collectors whether they take exports. Calls work without them, so a
// fault is a warning.
func (d *doctor) telemetry(ctx context.Context) {
	if d.exports == nil || !d.exports.IsOn() {
		return
	}
	for _, signal := range export.Signals() {
		if !d.exports.Exports(signal) {
			continue
		}
		var fault *export.ProbeError
		if err := d.exports.Probe(ctx, signal); errors.As(err, &fault) {
			d.add(Diagnosis{Level: levelWarn, Text: signal.String() + " are not exported: " + fault.Error(), Fix: fault.Fix, Cause: fault.Cause})
			continue
		}
		d.ok("%s are exported to %s", signal, d.exports.Endpoint(signal))
	}
}

// maxVerbsShown bounds the tools that a finding about verbs names.
const maxVerbsShown = 50

// verbs names the tools whose names say that they destroy, while nothing declares it, with the lines that do.
func (d *doctor) verbs(tools []*catalog.Tool, scope policy.Scope) {
	var named, lines []string
	count := 0
	for _, t := range tools {
		verb := t.Verb
		if scope == policy.Marked {
			verb = t.UnmarkedVerb()
		}
		if verb == "" {
			continue
		}
		if count++; count <= maxVerbsShown {
			named = append(named, fmt.Sprintf("%s (%s)", t.Name, verb))
			lines = append(lines, fmt.Sprintf("        - {method: %s, tool: {destructive: %t}}", t.Subject(), scope == policy.Marked))
		}
	}
	if count == 0 {
		return
	}
	if count > maxVerbsShown {
		named = append(named, fmt.Sprintf("and %d more", count-maxVerbsShown))
		lines = append(lines, fmt.Sprintf("        # and %d more", count-maxVerbsShown))
	}
	f := Diagnosis{Level: levelOK, Text: fmt.Sprintf("%d tools are shown as destructive because of the verbs of their names: %s", count, strings.Join(named, ", ")),
		Fix: "if some destroy nothing, declare it in the file of --config:\n      tools:\n" + strings.Join(lines, "\n")}
	if scope == policy.Marked {
		f.Level = levelWarn
		f.Text = fmt.Sprintf("%d tools run for untrusted callers by --gate marked, although their names say that they destroy: %s", count, strings.Join(named, ", "))
		f.Fix = "use --gate verbs, or declare them in the file of --config:\n      tools:\n" + strings.Join(lines, "\n")
	}
	d.add(f)
}
