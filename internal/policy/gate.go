// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
)

// Trust defines whether callers may run tools that are marked destructive.
type Trust uint8

// The trust states. Untrusted is the zero value: a forgotten setting blocks.
const (
	Untrusted Trust = iota
	Trusted
)

// trustNames are the names of the states, in their order.
func trustNames() []string { return []string{"untrusted", "trusted"} }

// ParseTrust parses "untrusted" or "trusted".
func ParseTrust(s string) (Trust, error) {
	if at := slices.Index(trustNames(), s); at >= 0 {
		return Trust(at), nil
	}
	return Untrusted, fmt.Errorf("trust %q: want untrusted or trusted", s)
}

// String returns the state's name.
func (t Trust) String() string { return trustNames()[min(t, Trusted)] }

// Scope defines which tools a gate treats as destructive.
type Scope uint8

// The scopes. Verbs is the zero value: tools that callers are shown as
// destructive, by an option, the overlay, a DELETE verb of google.api.http, a
// native backend's hint or, where none of them says anything, the verb of their
// names. Marked goes by what is declared alone: the catalog must be built so, with
// DeclaredOnly. Unproven also covers every tool that does not declare otherwise: it
// is neither read-only nor declared not destructive. Writes covers all that is not
// declared read-only.
const (
	Verbs Scope = iota
	Marked
	Unproven
	Writes
)

// scopeNames are the names of the scopes, in their order.
func scopeNames() []string { return []string{"verbs", "marked", "unproven", "writes"} }

// ParseScope parses "verbs", "marked", "unproven" or "writes".
func ParseScope(s string) (Scope, error) {
	if at := slices.Index(scopeNames(), s); at >= 0 {
		return Scope(at), nil
	}
	return Writes, fmt.Errorf("gate %q: want verbs, marked, unproven or writes", s)
}

// String returns the scope's name.
func (s Scope) String() string { return scopeNames()[min(s, Writes)] }

// Gate blocks destructive tools for untrusted callers. The zero value is a gate
// of scope Verbs that trusts no caller.
type Gate struct {
	rules   atomic.Pointer[gateRules]
	trust   atomic.Uint32
	changes atomic.Uint64
	refused refusals
}

// gateRules are the settings of a gate: which tools it blocks, and which callers it trusts.
type gateRules struct {
	scope   Scope
	callers callers
}

// current is the rules; a gate that was given none has the default scope.
func (g *Gate) current() gateRules {
	if r := g.rules.Load(); r != nil {
		return *r
	}
	return gateRules{}
}

// NewGate returns a gate of the default scope in the given state.
func NewGate(t Trust) *Gate { return newScopedGate(t, Verbs) }

// newScopedGate returns a gate for the tools of a scope in the given state.
func newScopedGate(t Trust, s Scope) *Gate {
	g := &Gate{}
	g.rules.Store(&gateRules{scope: s})
	g.trust.Store(uint32(t))
	return g
}

// Trust returns the current state.
func (g *Gate) Trust() Trust { return Trust(g.trust.Load()) }

// Set changes the state and returns the previous one. Calls that have passed the
// gate continue.
func (g *Gate) Set(t Trust) (before Trust) {
	before = Trust(g.trust.Swap(uint32(t)))
	if before != t {
		g.changes.Add(1)
	}
	return before
}

// Changes returns the number of changes by Set.
func (g *Gate) Changes() uint64 { return g.changes.Load() }

// Refused returns how often Check has blocked each tool, sorted by tool. The
// first defaultMaxCounted tools are counted separately, the others together as
// otherTools.
func (g *Gate) Refused() []Refusals { return g.refused.list() }

// CountTools sets the number of tools that Refused counts separately. Call it
// before the gate is used.
func (g *Gate) CountTools(most int) { g.refused.most = max(0, most) }

// TrustCallers trusts some callers regardless of the state: addresses and
// networks ("10.1.2.3", "10.1.0.0/16"), and "stdio".
func (g *Gate) TrustCallers(names []string) error { return g.Rule(g.current().scope, names) }

// Rule changes the scope of the gate, and the callers that it trusts regardless
// of the state. A call is checked by the old or by the new rules, never by a
// mix; calls that have passed continue. On an error nothing changes.
func (g *Gate) Rule(s Scope, trusted []string) error {
	callers, err := parseCallers(trusted)
	if err != nil {
		return err
	}
	g.rules.Store(&gateRules{scope: s, callers: callers})
	return nil
}

// Check returns nil if caller may run tool, else DESTRUCTIVE_BLOCKED, with the
// tool and how to allow it.
func (g *Gate) Check(tool *catalog.Tool, caller string) *errmap.Error {
	rules := g.current()
	if !rules.scope.Holds(tool) || g.Trust() == Trusted || rules.callers.include(caller) {
		return nil
	}
	g.refused.add(tool.Name)
	return errmap.New(errmap.DestructiveBlocked, errmap.Tool(tool.Name), errmap.Message(rules.scope.reason(tool)))
}

// Holds reports whether a tool is held back from callers that are not trusted.
func (g *Gate) Holds(tool *catalog.Tool) bool { return g.current().scope.Holds(tool) }

// CheckFor is Check for a caller with an identity. Where that says whether it is trusted, the gate's state and its list of callers are
// ignored.
func (g *Gate) CheckFor(tool *catalog.Tool, who *identity.Identity, caller string) *errmap.Error {
	if who.Trust() == identity.Unsaid {
		return g.Check(tool, caller)
	}
	if who.Trust() == identity.Trusted || !g.current().scope.Holds(tool) {
		return nil
	}
	g.refused.add(tool.Name)
	return errmap.New(errmap.DestructiveBlocked, errmap.Tool(tool.Name), errmap.Message(
		"Destructive tool blocked: "+tool.Name+" is blocked for this caller; an operator can trust it in the callers file (--tokens)"))
}

// TrustOf returns the permission of a caller to run destructive tools.
func (g *Gate) TrustOf(who *identity.Identity, caller string) Trust {
	said := who.Trust()
	if said == identity.Trusted || said == identity.Unsaid && (g.Trust() == Trusted || g.current().callers.include(caller)) {
		return Trusted
	}
	return Untrusted
}

// Holds reports whether a gate of this scope treats the tool as destructive.
func (s Scope) Holds(tool *catalog.Tool) bool {
	if isMarked(tool) {
		return true
	}
	switch s {
	case Unproven:
		return !isHarmless(tool.Annotations)
	case Writes:
		return tool.Annotations.ReadOnly == nil || !*tool.Annotations.ReadOnly
	case Verbs, Marked:
	}
	return false
}

// isMarked holds for tools that callers are shown as destructive.
func isMarked(tool *catalog.Tool) bool {
	return tool.Metadata.Destructive || tool.Annotations.Destructive != nil && *tool.Annotations.Destructive
}

// isHarmless holds for tools that say so: that they only read, or that they are
// not destructive. That a second call changes nothing more proves nothing,
// because deleting is such a call.
func isHarmless(a catalog.Annotations) bool {
	if a.Destructive != nil {
		return !*a.Destructive
	}
	return a.ReadOnly != nil && *a.ReadOnly
}

// reason says what is held back, and what would let it through.
func (s Scope) reason(tool *catalog.Tool) string {
	switch {
	case tool.Verb != "":
		return "Destructive tool blocked: " + tool.Name + " runs only for trusted callers, because its name says that it destroys (" + tool.Verb +
			") and nothing declares otherwise; " + howToTrust
	case isMarked(tool):
		return "Destructive tool blocked: " + tool.Name + " runs only for trusted callers; " + howToTrust
	case s == Writes:
		return "Destructive tool blocked: " + tool.Name + " is not declared read_only, and --gate writes " +
			"allows such tools only for trusted callers; " + howToTrust
	}
	return "Destructive tool blocked: " + tool.Name + " is declared neither read_only nor non-destructive, and --gate unproven " +
		"allows such tools only for trusted callers; " + howToTrust
}

// howToTrust is for operators of the sidecar; it is no recipe, because agents
// read it too.
const howToTrust = "an operator can allow it with --trust trusted or --trusted-callers, or at run time on the admin listener (/trust)"

// GateOf returns the gate that a configuration describes.
func GateOf(cfg *configv1.Config) (*Gate, error) {
	trust, err := ParseTrust(cfg.GetTrust())
	if err != nil {
		return nil, err
	}
	scope, err := ParseScope(cfg.GetGate())
	if err != nil {
		return nil, err
	}
	gate := newScopedGate(trust, scope)
	return gate, gate.TrustCallers(cfg.GetTrustedCallers())
}

// CheckCallers looks at the callers that are trusted.
func CheckCallers(cfg *configv1.Config, report func(path, message string)) {
	for i, caller := range cfg.GetTrustedCallers() {
		if err := NewGate(Untrusted).TrustCallers([]string{caller}); err != nil {
			report(fmt.Sprintf("trusted_callers[%d]", i), err.Error())
		}
	}
}
