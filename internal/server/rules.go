// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// maxRuleLines bounds the lines and details about rules that do not fit their tools: one
// rule may be about thousands of tools.
const maxRuleLines = 20

// openRules reads the policy rules, and watches their file.
func (a *App) openRules() error {
	if path := a.cfg.GetAccess().GetPolicyFile(); path != "" {
		a.watcher.Add("policy", func(context.Context) reload.Outcome { return a.rereadRules() }, path)
	}
	set, err := upstream.Rules(a.cfg)
	if err != nil {
		return err
	}
	a.rules = policy.NewEngine(set)
	a.live.BeforeUse(a.fitRules)
	if now := a.live.Current(); now != nil {
		a.fitRules(now)
	}
	if set.Len() > 0 || set.HasViews() {
		a.log.Info("policy rules enabled", zap.Int("rules", set.Len()))
	}
	return nil
}

// bridgeRules are the rules as the bridge asks them.
func (a *App) bridgeRules() bridge.Rules {
	if wrap := a.opts.Adjust.Rules; wrap != nil {
		return wrap(a.rules)
	}
	return a.rules
}

// Rules returns the policy rules in use.
func (a *App) Rules() *policy.Engine { return a.rules }

// rereadRules reads the policy file again. Rules that are faulty leave the last good ones
// in use.
func (a *App) rereadRules() reload.Outcome {
	a.rereading.Lock()
	defer a.rereading.Unlock()
	set, err := upstream.Rules(a.cfg)
	if err != nil {
		a.log.Error("policy file reload failed; keeping the last good rules", logkey.Error(err))
		return reload.Refused
	}
	a.replaceRules(set)
	return reload.Applied
}

// newRules makes the rules of a newer configuration, and returns what puts them into use. Those of a file may be older by
// then than what the file has, so it is read again.
func (a *App) newRules(next *configv1.Config) (use func(), err error) {
	set, err := upstream.Rules(next)
	return func() {
		if next.GetAccess().GetPolicyFile() != "" {
			a.rereadRules()
			return
		}
		a.replaceRules(set)
	}, err
}

// replaceRules uses other rules from now on. Callers are told, because they may see other
// tools.
func (a *App) replaceRules(set *policy.Set) {
	before, cat := a.rules.Faults(), a.live.Current()
	a.warnOfRules(before, a.rules.Replace(set, cat))
	if now := a.live.Current(); now != cat {
		a.fitRules(now) // it came meanwhile
	}
	a.log.Info("policy rules reloaded", zap.Int("rules", set.Len()))
	a.publish(notify.Change{Kind: notify.ToolsListChanged})
	a.publish(notify.Change{Kind: notify.ResourcesListChanged})
}

// fitRules compiles the rules for the tools of a new catalog.
func (a *App) fitRules(now *catalog.Catalog) {
	before := a.rules.Faults()
	a.warnOfRules(before, a.rules.Fit(now))
}

// warnOfRules logs which rules do not fit a tool, when that is new.
func (a *App) warnOfRules(before, now []policy.Fault) {
	lines := 0
	for _, f := range now {
		if slices.Contains(before, f) {
			continue
		}
		switch lines++; {
		case lines > maxRuleLines:
		case f.Disables():
			a.log.Warn("policy rule does not fit the input of a tool; the tool is disabled",
				zap.String("policy_rule", a.rules.RuleName(f)), zap.String(logkey.CanonicalTool, f.Tool), zap.Stringer("fault", f))
		case f.OnResult:
			a.log.Warn("policy rule does not fit results; it counts as one that holds",
				zap.String("policy_rule", a.rules.RuleName(f)), zap.String(logkey.CanonicalTool, f.Tool), zap.Stringer("fault", f))
		default:
			a.log.Warn("classes of the policy do not fit the fields of the tools; a field of a class that is not named is hidden from all",
				zap.Stringer("fault", f))
		}
	}
	if lines > maxRuleLines {
		a.log.Warn("more policy rules do not fit their tools", zap.Int("more", lines-maxRuleLines))
	}
}

// ruleChecks say how the rules are doing, for /readyz?verbose.
func (a *App) ruleChecks() []admin.Check {
	n, faults := a.rules.Set().Len(), a.rules.Faults()
	if n == 0 && !a.rules.TreatsResults() && len(faults) == 0 {
		return nil
	}
	check := admin.Check{Name: "policy", OK: len(faults) == 0, Info: true, Detail: fmt.Sprintf("%d rules", n)}
	if classes := len(a.rules.Set().Classes()); classes > 0 {
		check.Detail += fmt.Sprintf(", %d classes", classes)
	}
	for i, f := range faults {
		if i == maxRuleLines {
			check.Detail += fmt.Sprintf("; and %d more", len(faults)-i)
			break
		}
		switch {
		case f.Disables():
			check.Detail += fmt.Sprintf("; tool %s is disabled: rule %s does not fit its input", f.Tool, a.rules.RuleName(f))
		case f.OnResult:
			check.Detail += fmt.Sprintf("; rule %s counts as one that holds: %s", a.rules.RuleName(f), f)
		default:
			check.Detail += fmt.Sprintf("; %s: %s", f.Path, f)
		}
	}
	return []admin.Check{check}
}
