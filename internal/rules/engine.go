// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// Engine decides by the set of rules in use. It is an authorizer of the bridge. Make one
// with [NewEngine].
type Engine struct {
	current atomic.Pointer[state]
	counts  counts
	// replacing orders replacements.
	replacing sync.Mutex
}

// state is a set in use, with the callers that it has met.
type state struct {
	set     *Set
	callers callers
	broken  atomic.Pointer[[]Fault]
}

// NewEngine returns an engine that uses a set. A nil set has no rules.
func NewEngine(set *Set) *Engine {
	e := &Engine{}
	e.Replace(set, nil)
	return e
}

// Replace uses another set from now on, and returns the faults of its rules for the tools
// of a catalog, which may be nil. Decisions that are being made end as they began.
func (e *Engine) Replace(set *Set, cat *catalog.Catalog) []Fault {
	e.replacing.Lock()
	defer e.replacing.Unlock()
	if set == nil {
		set = &Set{}
	}
	if before := e.current.Load(); before != nil {
		set.generation = before.set.generation + 1
	}
	now := &state{set: set}
	faults := set.Fit(cat)
	now.broken.Store(&faults)
	e.counts.keep(set)
	e.current.Store(now)
	return faults
}

// Fit compiles the rules in use for the tools of a catalog, and returns the faults. Rules
// that are compiled when a tool is first called decide the same.
func (e *Engine) Fit(cat *catalog.Catalog) []Fault {
	now := e.current.Load()
	faults := now.set.Fit(cat)
	now.broken.Store(&faults)
	return faults
}

// Faults returns the faults that the last [Engine.Fit] or [Engine.Replace] found.
func (e *Engine) Faults() []Fault { return *e.current.Load().broken.Load() }

// RuleName returns the name of the rule that a fault is about, empty if it is gone.
func (e *Engine) RuleName(f Fault) string {
	if list := e.Set().rules; f.Index >= 0 && f.Index < len(list) {
		return list[f.Index].Name
	}
	return ""
}

// Disabled returns the number of tools that are disabled because a rule does not fit them.
func (e *Engine) Disabled() int {
	tools := map[string]bool{}
	for _, f := range e.Faults() {
		tools[f.Tool] = true
	}
	return len(tools)
}

// Set returns the set in use; never nil.
func (e *Engine) Set() *Set { return e.current.Load().set }

// MayRun implements the bridge's Authorizer: rules are about tools.
func (e *Engine) MayRun(*access.Identity, string, *catalog.Tool) *errmap.Error { return nil }

// MayList implements the bridge's Authorizer: what may not be called is not listed.
func (e *Engine) MayList(who *access.Identity, t *catalog.Tool) *errmap.Error {
	return e.MayUse(who, t)
}

// MayUse implements the bridge's Authorizer. It decides by the rules without args.
func (e *Engine) MayUse(who *access.Identity, t *catalog.Tool) *errmap.Error {
	now := e.current.Load()
	b := now.set.of(t)
	if b == nil {
		return nil
	}
	return refusal(now.set.mayList(b, now.callers.of(now.set, who).caller, &e.counts), t)
}

// MayCall decides about a call with its arguments: wire bytes for an RPC, JSON for a
// native tool. rule and effect are empty if no rule decided.
func (e *Engine) MayCall(who *access.Identity, t *catalog.Tool, arguments []byte) (rule, effect string, err *errmap.Error) {
	now := e.current.Load()
	b := now.set.of(t)
	if b == nil {
		return "", "", nil
	}
	d := now.set.mayCall(b, now.callers.of(now.set, who).caller, arguments, &e.counts)
	return d.Rule, string(d.Effect), refusal(d, t)
}

// Names reports whether an allow rule names the tool itself, and not only by a pattern.
func (e *Engine) Names(t *catalog.Tool) bool { return e.current.Load().set.names(t) }

// ReadsArguments reports whether a rule about the tool reads the arguments of calls.
func (e *Engine) ReadsArguments(t *catalog.Tool) bool {
	b := e.current.Load().set.of(t)
	return b != nil && b.args
}

// Count counts the decision about a call under its rule.
func (e *Engine) Count(rule, effect string) { e.counts.decided(rule, Effect(effect)) }

// refusal is PERMISSION_DENIED for a decision; nil if it allows the call.
func refusal(d Decision, t *catalog.Tool) *errmap.Error {
	if d.IsAllowed() {
		return nil
	}
	err := errmap.New(errmap.PermissionDenied, errmap.Message("Permission denied: "+d.reason(t)),
		errmap.WithViolations(errmap.Violation{Keyword: "policy", Message: "rule " + d.Rule}))
	err.Rule = d.Rule
	return err
}

// Key implements the bridge's Authorizer. It is made of the outcomes of the rules without
// args and tool, and of the caller itself if a rule compares the two.
func (e *Engine) Key(who *access.Identity, _ *catalog.Catalog) string {
	now := e.current.Load()
	if !now.set.hides && len(*now.broken.Load()) == 0 {
		return "" // calls may be refused, and every tool is shown
	}
	return now.callers.of(now.set, who).key
}

// keyOf makes the key of a caller.
func (s *Set) keyOf(who *access.Identity, c *caller) string {
	key := []byte(strconv.FormatUint(s.generation, 36))
	with := &activation{caller: c}
	bits := make([]byte, 0, len(s.byCaller))
	for _, r := range s.byCaller {
		bits = append(bits, '0'+byte(evaluate(r.program, with)))
	}
	if s.perTool {
		bits = append(bits, identityText(who)...)
	}
	if len(bits) > 0 {
		sum := sha256.Sum256(bits)
		key = append(append(key, ' '), hex.EncodeToString(sum[:])...)
	}
	return string(key)
}

// identityText is everything that a rule can know of a caller.
func identityText(who *access.Identity) []byte {
	f := who.Facts()
	text, err := json.Marshal([]any{
		who.Name(), who.Principal(), f.Source, f.Issuer, f.Subject, f.ClientID, f.Groups, f.Scopes, f.Claims,
	})
	if err != nil {
		return []byte(who.Principal()) // claims come from JSON, so that this does not happen
	}
	return text
}

// maxCallers bounds the callers that are kept: as many as a callers file may have
// entries, and as many tokens.
const maxCallers = 2000

// callers keeps what rules see of callers.
type callers struct {
	mu    sync.Mutex
	known map[any]*known
}

// known is a caller and its key.
type known struct {
	caller *caller
	key    string
}

// of returns a caller as rules see it.
func (c *callers) of(s *Set, who *access.Identity) *known {
	var id any = who
	if who.Facts().Source == access.SourceCertificate {
		id = who.Principal() // each request has an identity of its own, and they say the same
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[id]; k != nil {
		return k
	}
	k := &known{caller: newCaller(who, s.known)}
	k.key = s.keyOf(who, k.caller)
	if c.known == nil || len(c.known) >= maxCallers {
		c.known = map[any]*known{}
	}
	c.known[id] = k
	return k
}
