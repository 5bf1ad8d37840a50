// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
)

// Engine decides by the set of rules in use. It is an [Authority]. Make one
// with [NewEngine].
type Engine struct {
	current atomic.Pointer[state]
	counts  counts
	// replacing orders replacements.
	replacing sync.Mutex
	// given is the secret of digests, and own the one where there is none.
	given atomic.Pointer[func() []byte]
	own   []byte
}

// state is the set in use, with what its rules see of each caller.
type state struct {
	set     *Set
	callers ruleCallers
	broken  atomic.Pointer[[]Fault]
	views   views
	// unrecorded is made when it is first asked for.
	unrecorded atomic.Pointer[redact.Others]
}

// NewEngine returns an engine that uses a set. A nil set has no rules.
func NewEngine(set *Set) *Engine {
	e := &Engine{own: newSecret()}
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
	faults := now.fit(cat)
	e.counts.keep(set)
	e.current.Store(now)
	return faults
}

// Fit compiles the rules in use for the tools of a catalog, and returns the faults. Rules
// that are compiled when a tool is first called decide the same.
func (e *Engine) Fit(cat *catalog.Catalog) []Fault {
	return e.current.Load().fit(cat)
}

func (now *state) fit(cat *catalog.Catalog) []Fault {
	faults := now.set.Fit(cat)
	now.broken.Store(&faults)
	now.views.forget()
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
		if f.Disables() {
			tools[f.Tool] = true
		}
	}
	return len(tools)
}

// Set returns the set in use; never nil.
func (e *Engine) Set() *Set { return e.current.Load().set }

// MayRun implements the bridge's Authorizer: rules are about tools.
func (e *Engine) MayRun(*identity.Identity, string, *catalog.Tool) *errmap.Error { return nil }

// MayList implements the bridge's Authorizer: what may not be called is not listed.
func (e *Engine) MayList(who *identity.Identity, t *catalog.Tool) *errmap.Error {
	return e.MayUse(who, t)
}

// MayUse implements the bridge's Authorizer. It decides by the rules without args.
func (e *Engine) MayUse(who *identity.Identity, t *catalog.Tool) *errmap.Error {
	now := e.current.Load()
	b := now.set.of(t)
	if b == nil {
		return nil
	}
	return refusal(now.set.decide(b, now.callers.of(now.set, who).caller, false, nil, &e.counts), t)
}

// MayCall decides about a call with its arguments: wire bytes for an RPC, JSON for a
// native tool. rule and effect are empty if no rule decided.
func (e *Engine) MayCall(who *identity.Identity, t *catalog.Tool, arguments []byte) (rule, effect string, err *errmap.Error) {
	now := e.current.Load()
	b := now.set.of(t)
	if b == nil {
		return "", "", nil
	}
	d := now.set.decide(b, now.callers.of(now.set, who).caller, true, arguments, &e.counts)
	return d.Rule, string(d.Effect), refusal(d, t)
}

// Names reports whether an allow rule names the tool itself, and not only by a pattern.
func (e *Engine) Names(t *catalog.Tool) bool { return e.current.Load().set.names(t) }

// ReadsArguments reports whether a rule about the tool reads the arguments of calls, or an approval is for some of them.
func (e *Engine) ReadsArguments(t *catalog.Tool) bool {
	b := e.current.Load().set.of(t)
	return b != nil && (b.args || b.binds)
}

// Count counts the decision about a call under its rule.
func (e *Engine) Count(rule, effect string) { e.counts.decided(rule, Effect(effect)) }

// refusal is PERMISSION_DENIED for a decision; nil if it allows the call.
func refusal(d decision, t *catalog.Tool) *errmap.Error {
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
func (e *Engine) Key(who *identity.Identity, _ *catalog.Catalog) string {
	now := e.current.Load()
	if !now.set.hides && !slices.ContainsFunc(*now.broken.Load(), Fault.Disables) && now.set.showsAll(who) {
		return "" // calls may be refused, and every tool is shown
	}
	return now.callers.of(now.set, who).key
}

// keyOf makes the key of a caller.
func (s *Set) keyOf(who *identity.Identity, c *caller) string {
	key := []byte(strconv.FormatUint(s.generation, 36))
	with := &activation{caller: c}
	bits := make([]byte, 0, len(s.byCaller))
	for _, r := range s.byCaller {
		bits = append(bits, '0'+byte(evaluate(r.program, with)))
	}
	bits = append(bits, s.classes.seenBy(who)...)
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
func identityText(who *identity.Identity) []byte {
	f := who.Facts()
	text, err := json.Marshal([]any{
		who.Name(), who.Principal(), f.Source, f.Issuer, f.Subject, f.ClientID, f.Groups, f.Scopes, f.Claims,
	})
	if err != nil {
		return []byte(who.Principal()) // claims come from JSON, so that this does not happen
	}
	return text
}

// lastingText is identityText without what the next token of a caller has anew.
func lastingText(who *identity.Identity) []byte {
	f := who.Facts()
	claims := maps.Clone(f.Claims)
	for _, name := range [...]string{"exp", "iat", "nbf", "jti"} {
		delete(claims, name)
	}
	text, err := json.Marshal([]any{who.Name(), f.Source, f.Issuer, f.Subject, f.ClientID, f.Groups, f.Scopes, claims})
	if err != nil {
		return []byte(who.Name()) // as above
	}
	return text
}

// maxCallers bounds the callers that are kept: as many as a callers file may have
// entries, and as many tokens.
const maxCallers = 2000

// ruleCallers keeps what rules see of callers.
type ruleCallers struct {
	mu    sync.Mutex
	known map[any]*known
}

// known is a caller and its key.
type known struct {
	caller *caller
	key    string
}

// of returns a caller as rules see it.
func (c *ruleCallers) of(s *Set, who *identity.Identity) *known {
	var id any = who
	if source := who.Facts().Source; source == identity.SourceCertificate || source == identity.SourceUnix {
		id = who.Principal() // each request has its own identity, and they say the same
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

// decision is what a set says about a call.
type decision struct {
	// Rule is the rule that decided; empty if none did. Effect is what it did.
	Rule   string
	Effect Effect
	// Others are the other allow rules, none of which held, if that was the reason.
	Others []string
	// Broken is set if the rule does not fit the tool.
	Broken bool
}

// IsAllowed reports whether the call may be made.
func (d decision) IsAllowed() bool { return d.Effect != Deny }

// activation has the values of the variables for one evaluation.
type activation struct {
	args, result any
	caller       *caller
	tool         *tool
	field        *field
}

// ResolveName implements [cel.Activation].
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case varArgs:
		return a.args, true
	case varCaller:
		return a.caller, true
	case varTool:
		return a.tool, true
	case varResult:
		return a.result, true
	case varField:
		return a.field, true
	}
	return nil, false
}

// Parent implements [cel.Activation].
func (a *activation) Parent() cel.Activation { return nil }

// outcome is the result of evaluating one rule.
type outcome uint8

const (
	isFalse outcome = iota
	isTrue
	failed
)

func evaluate(program cel.Program, with *activation) outcome {
	value, _, err := program.Eval(with)
	switch {
	case err != nil:
		return failed
	case value == types.True:
		return isTrue
	case value == types.False:
		return isFalse
	}
	return failed // dyn, and no bool
}

// holds evaluates a rule. What fails counts against the caller.
func (s *Set) holds(r boundRule, with *activation, count *counts) bool {
	got := evaluate(r.program, with)
	if got == failed {
		count.failed(r.Name)
		return r.Effect != Allow
	}
	return got == isTrue
}

// decide decides about a call, by all rules, or whether a caller sees a tool, by the rules without args. arguments are read
// if a rule needs them: wire bytes, or JSON for a native tool.
func (s *Set) decide(b *bound, who *caller, isCall bool, arguments []byte, count *counts) decision {
	if b.broken != "" {
		return decision{Rule: b.broken, Effect: Deny, Broken: true}
	}
	with := &activation{caller: who, tool: b.tool}
	if isCall && b.args {
		with.args = b.decode(arguments)
	}
	for _, r := range b.deny {
		if (isCall || !r.args) && s.holds(r, with, count) {
			return decision{Rule: r.Name, Effect: Deny}
		}
	}
	if !isCall && slices.ContainsFunc(b.allow, func(r boundRule) bool { return r.args }) {
		return decision{} // its arguments will tell
	}
	if len(b.approve) > 0 {
		if d, ok := s.firstApproval(b, with, isCall, count); ok {
			return d
		}
	}
	return s.firstAllowed(b, with, count)
}

// firstAllowed is what the allow rules of a tool say.
func (s *Set) firstAllowed(b *bound, with *activation, count *counts) decision {
	if len(b.allow) == 0 {
		return decision{}
	}
	for _, r := range b.allow {
		if s.holds(r, with, count) {
			return decision{Rule: r.Name, Effect: Allow}
		}
	}
	d := decision{Rule: b.allow[0].Name, Effect: Deny}
	for _, r := range b.allow[1:] {
		d.Others = append(d.Others, r.Name)
	}
	return d
}

// decode reads arguments. An error is their value, so that only rules that read them
// fail.
func (b *bound) decode(arguments []byte) any {
	var args any
	var err error
	if b.input.message == nil {
		args, err = decodeJSON(arguments)
	} else {
		args, err = b.reads.decode(b.input.message, arguments)
	}
	if err != nil {
		return types.NewErr("arguments cannot be read")
	}
	return args
}

// maxNamed bounds the rules that an error names.
const maxNamed = 5

// reason says why a call is refused, in words for the caller. It has names of rules and
// nothing of their text.
func (d decision) reason(t *catalog.Tool) string {
	switch {
	case d.Broken:
		return "policy rule " + d.Rule + " does not fit the input of tool " + t.Name + ", so that it is disabled; an operator can correct the rule"
	case len(d.Others) > 0:
		names := append([]string{d.Rule}, d.Others...)
		more := ""
		if len(names) > maxNamed {
			names, more = names[:maxNamed], " or others"
		}
		return "none of the policy rules " + strings.Join(names, ", ") + more + " allows this use of tool " + t.Name
	}
	return "policy rule " + d.Rule + " does not allow this use of tool " + t.Name
}

// Set is a set of rules. Make one with [Compile].
type Set struct {
	limits Limits
	rules  []*compiled
	env    *cel.Env
	// results is the environment of rules about results, without what those read.
	results *cel.Env
	classes classes
	// views is set if there are classes, or rules about results.
	views bool
	// unnamed is set while a field of the tools may have a class that is not named.
	unnamed atomic.Bool
	// sights keeps what is to be known of each tool for views, by *catalog.Tool.
	sights sync.Map
	known  *provider
	// listing are the rules without args that may differ from caller to caller: byCaller
	// those whose outcome is the same for every tool, and perTool is set if there are others.
	byCaller []*compiled
	perTool  bool
	// hides is set if there are rules without args.
	hides bool
	// generation is the number of the set in its engine.
	generation uint64

	// tools keeps what was compiled for each tool, by *catalog.Tool.
	tools sync.Map

	// mu guards what tools share. It is held while rules are compiled.
	mu       sync.Mutex
	inputs   map[any]*input
	programs map[programKey]programOrFault
}

// input is the environment of rules about arguments of one type.
type input struct {
	env *cel.Env
	err error
	// message is nil for native tools.
	message protoreflect.MessageDescriptor
}

// programKey is a rule and the type of the arguments that it was compiled for.
type programKey struct {
	rule  int
	input *input
}

type programOrFault struct {
	program cel.Program
	faults  []Fault
}

// Len returns the number of rules; it is 0 for nil.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.rules)
}

// Rules returns the rules in order.
func (s *Set) Rules() []Rule {
	if s == nil {
		return nil
	}
	out := make([]Rule, 0, len(s.rules))
	for _, r := range s.rules {
		out = append(out, r.Rule)
	}
	return out
}

// Has reports whether there is a rule of this name.
func (s *Set) Has(name string) bool {
	return s != nil && slices.ContainsFunc(s.rules, func(r *compiled) bool { return r.Name == name })
}

// ToolsOf returns the names of the tools that a rule is about, by its place in the list.
func (s *Set) ToolsOf(rule int, cat *catalog.Catalog) []string {
	out := []string{}
	for _, t := range cat.All() {
		if !t.Hidden && s.rules[rule].matches(t) {
			out = append(out, t.Name)
		}
	}
	return out
}

// About returns the rules about a tool, in order.
func (s *Set) About(t *catalog.Tool) []Rule {
	var out []Rule
	for _, r := range s.rules {
		if r.matches(t) {
			out = append(out, r.Rule)
		}
	}
	return out
}

// names reports whether an allow rule names a tool without wildcards.
func (s *Set) names(t *catalog.Tool) bool {
	if s == nil {
		return false
	}
	return slices.ContainsFunc(s.rules, func(r *compiled) bool {
		return r.Effect == Allow && r.isOf(t) && (slices.Contains(r.Tools, t.Name) || t.Alias != "" && slices.Contains(r.Tools, t.Alias))
	})
}

// sortListing finds out what the key of a caller is made of.
func (s *Set) sortListing() {
	for _, r := range s.rules {
		if r.OnResult {
			s.views = true
			s.perTool = s.perTool || r.caller && !r.result && (r.tool || r.field)
			if r.caller && !r.result && !r.tool && !r.field {
				s.byCaller = append(s.byCaller, r)
			}
			continue
		}
		s.hides = s.hides || !r.args
		switch {
		case r.args || !r.caller:
		case r.tool:
			s.perTool = true
		default:
			s.byCaller = append(s.byCaller, r)
		}
	}
}

// bound has the rules that apply to one tool.
type bound struct {
	tool                 *tool
	allow, deny, approve []boundRule
	// args is set if a rule reads the arguments.
	args bool
	// binds is set if a rule has approvals be for some of the arguments.
	binds bool
	input *input
	// reads are the fields of the request that rules read.
	reads reads
	// faults are the rules that do not fit the tool. If there are any, every call of it is denied.
	faults []Fault
	// broken is the name of the first of these rules.
	broken string
}

type boundRule struct {
	*compiled
	program cel.Program
}

// of returns the rules about a tool; nil if there are none.
func (s *Set) of(t *catalog.Tool) *bound {
	if len(s.rules) == 0 {
		return nil
	}
	t = t.Whole()
	if b, ok := s.tools.Load(t); ok {
		known, _ := b.(*bound)
		return known
	}
	b := s.bind(t)
	s.tools.Store(t, b)
	return b
}

func (s *Set) bind(t *catalog.Tool) *bound {
	var b *bound
	for _, r := range s.rules {
		if r.OnResult || !r.matches(t) {
			continue
		}
		if b == nil {
			b = &bound{tool: newTool(t, s.known)}
		}
		program, faults := r.program, []Fault(nil)
		if r.args {
			b.args = true
			program, faults = s.programFor(b, r, t)
		}
		b.binds = b.binds || r.Approve != nil && len(r.Approve.Bound) > 0
		faults = append(faults, r.unboundPaths(t)...)
		if len(faults) > 0 {
			if b.broken == "" {
				b.broken = r.Name
			}
			b.faults = append(b.faults, faults...)
			continue
		}
		switch r.Effect {
		case Deny:
			b.deny = append(b.deny, boundRule{r, program})
		case Approve:
			b.approve = append(b.approve, boundRule{r, program})
		default:
			b.allow = append(b.allow, boundRule{r, program})
		}
	}
	return b
}

// programFor returns the program of a rule with args for a tool.
func (s *Set) programFor(b *bound, r *compiled, t *catalog.Tool) (cel.Program, []Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.input == nil {
		b.input = s.inputOf(t)
	}
	if b.input.err != nil {
		return nil, []Fault{{Index: r.index, Field: "when", Tool: t.Name, Message: b.input.err.Error()}}
	}
	b.reads.add(b.input.message, r, varArgs)
	key := programKey{r.index, b.input}
	made, ok := s.programs[key]
	if !ok {
		made.program, made.faults = s.program(b.input.env, r, "")
		s.programs[key] = made
	}
	var faults []Fault
	for _, f := range made.faults {
		f.Tool = t.Name
		faults = append(faults, f)
	}
	return made.program, faults
}

// inputOf returns the environment for the arguments of a tool. The caller holds mu.
func (s *Set) inputOf(t *catalog.Tool) *input {
	key := inputKey(t)
	if known := s.inputs[key]; known != nil {
		return known
	}
	in := &input{}
	if t.Native {
		in.env, in.err = s.jsonEnv(s.env, t.Input.Canonical(), varArgs)
	} else {
		in.message = t.Method.Descriptor.Input()
		in.env, in.err = s.messageEnv(in.message, varArgs)
	}
	s.inputs[key] = in
	return in
}

// jsonEnv returns the environment for a variable that is JSON with a schema.
func (s *Set) jsonEnv(env *cel.Env, schema []byte, variable string) (*cel.Env, error) {
	kind, objects := argumentsType(schema)
	types := s.known.with(objects)
	return env.Extend(cel.CustomTypeProvider(types), cel.CustomTypeAdapter(types), cel.Variable(variable, kind))
}

// inputKey is what the environment for a tool depends on: the descriptor of its request,
// or the text of its schema.
func inputKey(t *catalog.Tool) any {
	if t.Native {
		digest := t.Input.Digest()
		return "schema:" + hex.EncodeToString(digest[:]) + string(t.Input.Canonical())
	}
	return t.Method.Descriptor.Input()
}

// messageEnv returns the environment for arguments or a result that is a message. Messages of one
// file share a registry.
func (s *Set) messageEnv(message protoreflect.MessageDescriptor, variable string) (*cel.Env, error) {
	file := message.ParentFile()
	shared, ok := s.inputs[file]
	if !ok {
		shared = &input{}
		registry, err := registryOf(file)
		if err == nil {
			types := &provider{Registry: registry, objects: s.known.objects}
			shared.env, err = s.env.Extend(cel.CustomTypeProvider(types), cel.CustomTypeAdapter(types))
		}
		shared.err = err
		s.inputs[file] = shared
	}
	if shared.err != nil {
		return nil, shared.err
	}
	options := []cel.EnvOption{cel.Variable(variable, cel.ObjectType(string(message.FullName())))}
	if variable == varResult {
		options = append(options, fieldVariable())
	}
	return shared.env.Extend(options...)
}

// Fit compiles the rules for the tools of a catalog and returns the faults, by tool. It
// forgets tools that are not in the catalog.
func (s *Set) Fit(cat *catalog.Catalog) []Fault {
	if s == nil || cat == nil {
		return nil
	}
	s.sights.Clear()
	faults := s.fitClasses(cat)
	if s.Len() == 0 {
		return faults
	}
	now := make(map[*catalog.Tool]bool)
	for _, t := range cat.All() {
		now[t] = true
		if b := s.of(t); b != nil && !t.Hidden {
			faults = append(faults, b.faults...)
		}
		if s.views && !t.Hidden {
			faults = append(faults, s.sightOf(t).faults...)
		}
	}
	s.forget(now)
	return faults
}

// forget drops what was compiled for other tools than these.
func (s *Set) forget(now map[*catalog.Tool]bool) {
	used := map[*input]bool{}
	s.sights.Range(func(_, value any) bool {
		if of, _ := value.(*sight); of.input != nil {
			used[of.input] = true
		}
		return true
	})
	s.tools.Range(func(key, value any) bool {
		t, _ := key.(*catalog.Tool)
		if !now[t] {
			s.tools.Delete(key)
		} else if b, _ := value.(*bound); b != nil && b.input != nil {
			used[b.input] = true
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	files := map[any]bool{}
	for key, in := range s.inputs {
		if used[in] {
			if in.message != nil {
				files[in.message.ParentFile()] = true
			}
			continue
		}
		if _, isFile := key.(protoreflect.FileDescriptor); !isFile {
			delete(s.inputs, key)
		}
	}
	for key := range s.inputs {
		if _, isFile := key.(protoreflect.FileDescriptor); isFile && !files[key] {
			delete(s.inputs, key)
		}
	}
	for key := range s.programs {
		if !used[key.input] {
			delete(s.programs, key)
		}
	}
}

// counts has the decisions of the rules in use. A rule that stays keeps its numbers.
type counts struct {
	mu    sync.Mutex
	rules map[string]*Count
}

// Count is how often a rule decided a call, and how often its evaluation failed.
type Count struct {
	Rule                    string
	Allowed, Denied, Failed uint64
	// Asked is how often it had a call wait for approval.
	Asked uint64
}

// keep begins to count the rules of a set, and forgets all others.
func (c *counts) keep(s *Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rules := make(map[string]*Count, len(s.rules))
	for _, r := range s.rules {
		if rules[r.Name] = c.rules[r.Name]; rules[r.Name] == nil {
			rules[r.Name] = &Count{Rule: r.Name}
		}
	}
	c.rules = rules
}

func (c *counts) decided(rule string, effect Effect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.rules[rule]
	switch {
	case n == nil:
	case effect == Deny:
		n.Denied++
	case effect == Approve:
		n.Asked++
	default:
		n.Allowed++
	}
}

func (c *counts) failed(rule string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.rules[rule]; n != nil {
		n.Failed++
	}
}

// Counts returns the counts of the rules in use, sorted by name.
func (e *Engine) Counts() []Count {
	c := &e.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Count, 0, len(c.rules))
	for _, n := range c.rules {
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b Count) int { return cmp.Compare(a.Rule, b.Rule) })
	return out
}

// Effect is what a rule does with the calls for which it holds.
type Effect string

// The effects, as configuration, metrics and audit records name them.
const (
	Allow Effect = "allow"
	Deny  Effect = "deny"
	// Approve lets a call run once others approved it.
	Approve Effect = "approve"
)

// Rule allows or denies calls of some tools.
type Rule struct {
	// Name is unique in a set. It is shown to callers.
	Name string
	// Tools are globs over canonical tool names.
	Tools  []string
	Effect Effect
	// Backend is the name of one of several backends, whose tools alone the rule is about; empty for those of all.
	Backend string
	// When is the condition, an expression in CEL of type bool.
	When string
	// Approve says who approves, for the effect Approve; nil for others.
	Approve *Approval
	// OnResult is set for a rule about fields of results, whose effect is [Deny], "hide", "mask" or "hash". Fields are globs over
	// the full names of the fields that it is about, and Classes are theirs; with neither, all fields that have a class, or for
	// [Deny] the whole result. Mask is the style of masked strings, "stars" or "last_four".
	OnResult        bool
	Fields, Classes []string
	Mask            string
}

// Limits bound a set. Zero fields have their defaults.
type Limits struct {
	// MaxCost bounds the cost of one evaluation of one rule, in units of CEL: a comparison costs a few, a search in 1,000 elements some thousands.
	MaxCost int64
	// MaxRules is the maximum number of rules, MaxExpressionBytes the maximum size of one
	// condition.
	MaxRules, MaxExpressionBytes int
}

// maxNesting bounds how deep an expression may be nested.
const maxNesting = 64

func (l Limits) withDefaults() Limits {
	defaults.Fill(&l.MaxCost, 100_000)
	defaults.Fill(&l.MaxRules, 1000)
	defaults.Fill(&l.MaxExpressionBytes, 4096)
	return l
}

// Fault is what is wrong with a rule.
type Fault struct {
	// Index is the place of the rule in its list, from 0. It is -1 for a fault of the list.
	Index int
	// Field is the field at fault: "name", "effect", "when" or "approve".
	Field string
	// Line and Column are the place in the expression, from 1; 0 if there is none.
	Line, Column int
	// Tool is the tool that the rule was compiled for; empty for a fault that every tool has.
	Tool    string
	Message string
	// Path is the member of the policy at fault where that is no rule.
	Path string
	// OnResult is set for a rule about results, which counts as one that holds.
	OnResult bool
}

// Disables reports whether the tool cannot be called because of the fault.
func (f Fault) Disables() bool { return f.Path == "" && !f.OnResult }

// String describes the fault in one line, without the rule's place.
func (f Fault) String() string {
	text := f.Message
	if f.Line > 0 {
		text = fmt.Sprintf("expression %d:%d: %s", f.Line, f.Column, text)
	}
	if f.Tool != "" {
		text += " (tool " + f.Tool + ")"
	}
	return text
}

// tool is the variable "tool" of rules.
type tool struct {
	opaque
	name, module, version, destructive, readOnly, tags ref.Val
}

func newTool(t *catalog.Tool, adapter types.Adapter) *tool {
	readOnly := t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
	out := &tool{
		name: types.String(t.Name), module: types.String(t.Metadata.Module), version: types.String(t.Version),
		destructive: types.Bool(t.Metadata.Destructive), readOnly: types.Bool(readOnly),
		tags: types.NewStringList(adapter, t.Tags),
	}
	out.opaque = opaque{kind: types.NewObjectType(toolName), self: out}
	return out
}

// toolObject is the type of the variable tool.
func toolObject() *object {
	field := func(kind *types.Type, get func(t *tool) ref.Val) *types.FieldType {
		return getter(kind, func(t *tool) (ref.Val, error) { return get(t), nil })
	}
	return &object{fields: map[string]*types.FieldType{
		"name":        field(types.StringType, func(t *tool) ref.Val { return t.name }),
		"module":      field(types.StringType, func(t *tool) ref.Val { return t.module }),
		"version":     field(types.StringType, func(t *tool) ref.Val { return t.version }),
		"destructive": field(types.BoolType, func(t *tool) ref.Val { return t.destructive }),
		"read_only":   field(types.BoolType, func(t *tool) ref.Val { return t.readOnly }),
		"tags":        field(types.NewListType(types.StringType), func(t *tool) ref.Val { return t.tags }),
	}}
}

// Authority restricts what callers may do, beyond the grants of their identity. A nil
// identity is a caller without authentication. Implementations are safe for concurrent
// use; their decisions may change at run time together with their keys.
type Authority interface {
	// Key identifies the tools of a catalog that a caller may list and call: callers with an
	// equal key may list and call the same ones. "" means that it restricts no
	// tool for the caller. The catalog is nil before the first one is loaded.
	Key(who *identity.Identity, cat *catalog.Catalog) string
	// MayList returns nil if a tool is shown to the caller, else PERMISSION_DENIED. A tool
	// that the caller may call must be shown.
	MayList(who *identity.Identity, tool *catalog.Tool) *errmap.Error
	// MayUse returns nil if the caller may call a tool, else PERMISSION_DENIED.
	MayUse(who *identity.Identity, tool *catalog.Tool) *errmap.Error
	// MayRun returns nil if the caller may run an operation, by the name that logs have for it.
	// It is asked about each operation but calls of tools and pings. The tool is the one that
	// the operation describes, or runs to read a resource; nil if there is none. It need not
	// be one that the caller may use, of which MayList and MayUse are asked besides.
	MayRun(who *identity.Identity, operation string, tool *catalog.Tool) *errmap.Error
}

// Authorities are the grants of callers' identities together with all that restricts callers beyond them.
type Authorities []Authority

// MayList returns nil if all show a tool to the caller, else why not.
func (all Authorities) MayList(who *identity.Identity, tool *catalog.Tool) *errmap.Error {
	return all.ask(who, tool, Authority.MayList)
}

// MayUse returns nil if all let the caller call a tool, else why not.
func (all Authorities) MayUse(who *identity.Identity, tool *catalog.Tool) *errmap.Error {
	return all.ask(who, tool, Authority.MayUse)
}

// ask asks for the grant of a tool, and then all authorities the same.
func (all Authorities) ask(who *identity.Identity, tool *catalog.Tool, may func(Authority, *identity.Identity, *catalog.Tool) *errmap.Error) *errmap.Error {
	if !who.MayCall(tool.Name) && (tool.Alias == "" || !who.MayCall(tool.Alias)) {
		return NotPermitted(who, "tool "+tool.Name)
	}
	for _, a := range all {
		if err := may(a, who, tool); err != nil {
			return err
		}
	}
	return nil
}

// MayRun returns nil if the caller may run an operation, else PERMISSION_DENIED.
func (all Authorities) MayRun(who *identity.Identity, operation string, tool *catalog.Tool) *errmap.Error {
	for _, a := range all {
		if err := a.MayRun(who, operation, tool); err != nil {
			return err
		}
	}
	return nil
}

// Scope identifies the tools of a catalog that the caller may list and call; "" is all tools.
func (all Authorities) Scope(who *identity.Identity, cat *catalog.Catalog) string {
	scope := who.Scope()
	var keys []string
	for i, a := range all {
		if key := a.Key(who, cat); key != "" {
			if keys == nil {
				keys = make([]string, 1+len(all))
				keys[0] = scope
			}
			keys[1+i] = key
		}
	}
	if keys == nil {
		return scope // which has no zero byte
	}
	return strings.Join(keys, "\x00")
}

// NotForAll returns PERMISSION_DENIED for what only callers of every tool may do, with a text that says what that is. An [Authorizer]
// says what the caller lacks.
func (all Authorities) NotForAll(who *identity.Identity, cat *catalog.Catalog, text string) *errmap.Error {
	challenge := identity.NotPermitted("")
	for _, a := range all {
		if scopes, ok := a.(*Authorizer); ok {
			if err := scopes.MayUseAll(who, cat); err != nil {
				challenge = err.Challenge
			}
		}
	}
	return errmap.New(errmap.PermissionDenied, errmap.Challenge(challenge), errmap.Message(text))
}

// NotPermitted returns PERMISSION_DENIED for what a caller may not use. It says what
// an operator can change, and nothing that an agent could. With the challenge it is
// the answer to the request, also where a tool was called: it is about who asks,
// and no other call of theirs would end otherwise.
func NotPermitted(who *identity.Identity, what string) *errmap.Error {
	return errmap.New(errmap.PermissionDenied, errmap.Challenge(identity.NotPermitted("")), errmap.Message("Permission denied: caller "+who.Name()+" may not use "+what+
		"; an operator can allow it in the callers file (--tokens)"))
}

// showsAll reports whether a caller sees all of every result.
func (s *Set) showsAll(who *identity.Identity) bool {
	return !s.HasViews() || !s.unnamed.Load() && !strings.Contains(s.classes.seenBy(who), "0") &&
		!slices.ContainsFunc(s.rules, func(r *compiled) bool { return r.OnResult })
}
