// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// View is what a caller sees of what one tool answers. A nil View shows everything. Views of equal keys treat alike. It is safe for
// concurrent use.
//
// A tool whose messages have no field that is treated has a view too, for callers who do not see all classes: for details of errors,
// which may be of any type. TreatsResult is false then.
type View struct {
	*sightline
	tool   *catalog.Tool
	digest func(value []byte) string
	key    string
	shape  string
	treats bool
	who    *identity.Identity
	kept   func() string
}

// sightline is what callers of equal keys share of a view.
type sightline struct {
	set   *Set
	of    *sight
	types transcode.Resolver
	seen  string // '1' for each class that is seen
	// bits are seen, and '1' for each rule that holds for these callers. readsCaller is set if a rule asks more of them later.
	bits        string
	readsCaller bool
	// all shows every class to approvers who have them, and is about requests: rules about results do not count.
	lenient bool
	with    activation        // for rules that read the caller
	static  []boundRule       // rules that hold, or are asked about each field
	note    func(rule string) // counts a rule that failed

	mu      sync.Mutex
	filters map[string]*transcode.Filters
	made    map[filterKey]*transcode.Filter
}

// filterKey is a message type under outcomes of the rules that read the result.
type filterKey struct {
	md       protoreflect.MessageDescriptor
	isRoot   bool
	outcomes string
}

const (
	// maxViews bounds the views that are kept, maxSightlines what they share, and maxFilters the filters of one of these.
	maxViews      = 20_000
	maxSightlines = 2000
	maxFilters    = 5000
	// maxOutcomeSets bounds the outcomes under which a sightline keeps filters. Under others all rules hold.
	maxOutcomeSets = 64
	// maxOutcomes bounds how many outcomes of rules that read the result tell messages of a tool apart. Rules beyond it hold.
	maxOutcomes = 256
)

// views keeps the views of a state.
type views struct {
	mu     sync.Mutex
	known  map[viewID]*View
	shared map[sightlineID]*sightline
}

type viewID struct {
	who  *known
	tool *catalog.Tool
}

type sightlineID struct {
	key   string
	of    *sight
	types transcode.Resolver
}

func (v *views) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known, v.shared = nil, nil
}

// View returns what a caller sees of the answers of a tool; nil where that is everything.
func (e *Engine) View(who *identity.Identity, t *catalog.Tool) *View {
	now := e.current.Load()
	if !now.set.HasViews() {
		return nil
	}
	k, t := now.callers.of(now.set, who), t.Whole()
	id := viewID{k, t}
	now.views.mu.Lock()
	defer now.views.mu.Unlock()
	if v, ok := now.views.known[id]; ok {
		return v
	}
	if now.views.known == nil || len(now.views.known) >= maxViews {
		now.views.known = map[viewID]*View{}
	}
	v := now.newView(e, who, k.caller, t)
	now.views.known[id] = v
	return v
}

// TreatsResults reports whether there is a [View] for some caller and tool.
func (e *Engine) TreatsResults() bool { return e.Set().HasViews() }

// ResultsKey identifies what a caller sees of results, whatever tool they are of, in this process; empty where that is everything. Other
// rules make another key, even where they say the same.
func (e *Engine) ResultsKey(who *identity.Identity) string {
	set := e.Set()
	if !set.HasViews() {
		return ""
	}
	return strconv.FormatUint(set.generation, 36) + " " + keptDigest(set.classes.seenBy(who), string(lastingText(who)))
}

// newView makes a view. The caller holds the views' mutex.
func (now *state) newView(e *Engine, who *identity.Identity, c *caller, t *catalog.Tool) *View {
	set := now.set
	of := set.sightOf(t)
	line := &sightline{set: set, of: of, types: typesOf(t), seen: set.classes.seenBy(who), note: e.counts.failed}
	line.with = activation{caller: c, tool: of.tool}
	key := line.bindRules(who)
	if len(line.static)+len(of.dynamic) == 0 && !strings.Contains(line.seen, "0") && !set.unnamed.Load() {
		return nil // which shows everything
	}
	id := sightlineID{key, of, line.types}
	if shared := now.views.shared[id]; shared != nil {
		line = shared
	} else {
		if now.views.shared == nil || len(now.views.shared) >= maxSightlines {
			now.views.shared = map[sightlineID]*sightline{}
		}
		now.views.shared[id] = line
	}
	principal := ""
	if who != nil {
		principal = who.Principal()
	}
	v := &View{sightline: line, tool: t, who: who, key: strconv.FormatUint(set.generation, 36) + " " + key, digest: e.digestFor(principal)}
	v.kept = sync.OnceValue(v.newKept)
	if of.isOwn {
		v.key += " " + t.Name
	}
	if v.shape = v.key; line.hashes() {
		sum := sha256.Sum256([]byte(principal))
		v.key += " " + hex.EncodeToString(sum[:8])
	}
	v.treats = v.treatsMessages()
	return v
}

// treatsMessages reports whether the request or the response of the tool can have what is treated.
func (v *View) treatsMessages() bool {
	isWhole := func(r boundRule) bool { return r.isWhole() }
	if slices.ContainsFunc(v.static, isWhole) || slices.ContainsFunc(v.of.dynamic, isWhole) {
		return true
	}
	if v.tool.Native {
		return slices.ContainsFunc(v.of.order, func(path string) bool {
			return v.treatmentOf(path, v.of.paths[path], "").Action != transcode.Show
		})
	}
	return slices.ContainsFunc(v.messages(), func(md protoreflect.MessageDescriptor) bool { return v.filter(md, "").Treats() })
}

// messages are those that a call of the tool is made of, if it is an RPC.
func (v *View) messages() []protoreflect.MessageDescriptor {
	of := []protoreflect.MessageDescriptor{v.tool.Method.Descriptor.Input(), rootOf(v.tool)}
	if op := v.tool.Operation; op != nil && op.Metadata != nil && op.Metadata.Out != nil {
		of = append(of, op.Metadata.Out.Descriptor())
	}
	return of
}

// Key identifies what the view treats, and how; empty for nil.
func (v *View) Key() string {
	if v == nil {
		return ""
	}
	return v.key
}

// KeptAs is a view of which no more is known than its key for what is kept: of what is made of the results of several tools.
func KeptAs(key string) *View { return &View{kept: func() string { return key }} }

// Kept identifies what the view treats, and how, for results that are kept: at all replicas and after a restart it is the same for the
// same policy about results, the same tool and a caller who is the same to them. It is empty for nil.
func (v *View) Kept() string {
	if v == nil || v.kept == nil {
		return ""
	}
	return v.kept()
}

// AsKept is the [View.Kept] of a result that is made for the view of a caller who is known by less than when it made its call, whose
// view had the key first. As long as the policy and the tool are the same, the result is one for that: rules that miss what they read
// hold, so that it has no more.
func (v *View) AsKept(first string) string {
	now := v.Kept()
	of, _, isSet := strings.Cut(first, keptParts)
	if by, _, _ := strings.Cut(now, keptParts); isSet && by == of {
		return first
	}
	return now
}

// keptParts is between the parts of a key for what is kept: what is said about results of the tool, and what the caller is to it.
const keptParts = "."

// newKept makes the key. The fields of the tool's messages are in it with their classes, which schemas do not have.
func (v *View) newKept() string {
	var fields [][]string
	add := func(fd protoreflect.FieldDescriptor) bool {
		if named := v.set.classes.of(fd, v.of.backend); len(named) > 0 {
			fields = append(fields, append([]string{string(fd.FullName())}, named...))
		}
		return true
	}
	if !v.tool.Native {
		for _, md := range v.messages() {
			eachBelow(md, add)
		}
	}
	rules := make([]Rule, len(v.of.rules))
	for i, r := range v.of.rules {
		rules[i] = r.Rule
	}
	said := v.set.classes.said()
	policy := keptDigest(said.list, said.named, rules, v.set.limits.MaxCost, v.tool.Name, v.tool.Fingerprint(), fields, v.of.paths)
	caller := []any{v.bits}
	if v.readsCaller {
		caller = append(caller, string(lastingText(v.who)))
	}
	return policy + keptParts + keptDigest(caller...)
}

// keptDigest is a digest of values that have a JSON form.
func keptDigest(of ...any) string {
	text, err := json.Marshal(of)
	if err != nil {
		text = newSecret() // which no other key has
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:digestBytes])
}

// Shape identifies what can be in results: views of equal shapes show the same schema, and may show other digests.
func (v *View) Shape() string {
	if v == nil {
		return ""
	}
	return v.shape
}

// TreatsResult reports whether the view treats a field that can occur in the request or in the response of the tool. What the
// backend says in free text about such a call, its caller does not get.
func (v *View) TreatsResult() bool { return v != nil && v.treats }

// Paths are those at which the view may treat a field otherwise than by the field alone. Do not modify them.
func (v *View) Paths() []string {
	if v == nil {
		return nil
	}
	return v.of.order
}

// Treatment is how a field of the result is treated, by its path from the root of the response, for schemas. varies is set where
// rules about the result itself decide, so that the field may also be there. fd is nil for the data of a native tool.
func (v *View) Treatment(path string, fd protoreflect.FieldDescriptor) (how transcode.Treatment, varies bool) {
	if v == nil {
		return transcode.Treatment{}, false
	}
	if fd == nil {
		how = v.treatmentOf(path, v.of.paths[path], "")
		return how, len(v.of.dynamic) > 0 && v.treatmentOf(path, v.of.paths[path], isAsked+strings.Repeat("0", len(v.of.outcomes))) != how
	}
	how = v.treatment(path, fd, "").On(fd)
	if len(v.of.dynamic) == 0 {
		return how, false
	}
	return how, v.treatment(path, fd, isAsked+strings.Repeat("0", len(v.of.outcomes))).On(fd) != how
}

// Apply treats a message of the tool's backend: a response, an item of a stream, the detail of an error, the result of an
// operation. It returns wire itself where it changes nothing, and PERMISSION_DENIED where a rule denies the result. What cannot be
// read is an error too.
func (v *View) Apply(md protoreflect.MessageDescriptor, wire []byte) ([]byte, *errmap.Error) {
	if v == nil {
		return wire, nil
	}
	outcomes := ""
	if len(v.of.dynamic) > 0 && md == v.of.root {
		outcomes = v.ask(func() (any, error) { return v.of.reads.decode(md, wire) })
	}
	if v.isWhole(outcomes) {
		return nil, v.denied(outcomes, nil)
	}
	out, err := v.filter(md, outcomes).Keyed(v.digest).Apply(nil, wire)
	var denied *transcode.DeniedError
	switch {
	case errors.As(err, &denied):
		return nil, v.denied(outcomes, denied)
	case err != nil:
		return nil, errmap.Wrap(errmap.SerializationError, err)
	}
	return out, nil
}

// denied is the answer in the place of a result that a caller may not see. The call has had its effect.
func (v *View) denied(outcomes string, of *transcode.DeniedError) *errmap.Error {
	what := "the policy"
	for _, r := range v.of.rules {
		if r.Effect == Deny && r.isWhole() == (of == nil) && v.mayHold(r, outcomes) {
			what = "policy rule " + r.Name
			break
		}
	}
	text := "Permission denied: " + what + " does not let this caller see the result of tool " + v.tool.Name
	if of != nil {
		text += ", which has field " + string(of.Field)
	}
	err := errmap.New(errmap.PermissionDenied, errmap.Message(text+". The tool has run: do not call it again for its result"),
		errmap.WithViolations(errmap.Violation{Keyword: "policy", Message: what}))
	err.Rule = strings.TrimPrefix(what, "policy rule ")
	return err
}

// filter is the filter for a message type, under outcomes of the rules that read the result; "" where all of these hold.
func (l *sightline) filter(md protoreflect.MessageDescriptor, outcomes string) *transcode.Filter {
	if md == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.filters[outcomes] == nil && len(l.filters) >= maxOutcomeSets {
		outcomes = ""
	}
	key := filterKey{md, md == l.of.root, outcomes}
	if f, ok := l.made[key]; ok {
		return f
	}
	if l.made == nil || len(l.made) >= maxFilters {
		l.made, l.filters = map[filterKey]*transcode.Filter{}, map[string]*transcode.Filters{}
	}
	all := l.filters[outcomes]
	if all == nil {
		all = transcode.NewFilters(l.options(outcomes))
		l.filters[outcomes] = all
	}
	f := all.Of(md, key.isRoot)
	l.made[key] = f
	return f
}

func (l *sightline) options(outcomes string) transcode.FilterOptions {
	o := transcode.FilterOptions{
		Of: func(path string, fd protoreflect.FieldDescriptor) transcode.Treatment {
			return l.treatment(path, fd, outcomes)
		},
		Paths:  l.of.order,
		Digest: func([]byte) string { return "" }, // each caller has another one
	}
	if types := l.types; types != nil {
		o.Extensions, _ = types.(interface {
			RangeExtensionsByMessage(message protoreflect.FullName, f func(protoreflect.ExtensionType) bool)
		})
		o.Resolve = func(url string) protoreflect.MessageDescriptor {
			mt, err := types.FindMessageByURL(url)
			if err != nil {
				return nil
			}
			return mt.Descriptor()
		}
	}
	return o
}

// treatment is how a field is treated by its classes and by rules, the strictest of all.
func (l *sightline) treatment(path string, fd protoreflect.FieldDescriptor, outcomes string) transcode.Treatment {
	named := l.set.classes.of(fd, l.of.backend)
	if path == transcode.Elsewhere {
		named = append(named, l.of.named[fd.FullName()]...)
	} else if path != "" {
		named = append(named, l.of.paths[path]...)
	}
	return l.treatmentOf(string(fd.FullName()), named, outcomes)
}

func (l *sightline) treatmentOf(name string, named []string, outcomes string) transcode.Treatment {
	var t transcode.Treatment
	for _, class := range named {
		if i, ok := l.set.classes.at[class]; ok && l.seen[i] == '1' {
			continue
		}
		t = stricter(t, l.set.classes.otherwise(class))
	}
	if l.lenient {
		if t.Action == transcode.Deny {
			t = transcode.Treatment{Action: transcode.Hide}
		}
		return t
	}
	for _, r := range l.static {
		if !r.isWhole() && r.about(name, named) && (!r.field || l.holdsFor(r, name, named)) {
			t = stricter(t, r.treatment())
		}
	}
	for _, r := range l.of.dynamic {
		if !r.isWhole() && r.about(name, named) && l.of.held(r, name, outcomes) {
			t = stricter(t, r.treatment())
		}
	}
	return t
}

// holdsFor asks a rule about a field, with each of its classes.
func (l *sightline) holdsFor(r boundRule, name string, named []string) bool {
	with := l.with
	return r.eachClass(name, named, &with, l.note)
}

// eachClass reports whether the rule holds for a field with one of its classes. What fails counts as holding.
func (r boundRule) eachClass(name string, named []string, with *activation, note func(rule string)) bool {
	if len(named) == 0 {
		named = []string{""}
	}
	for _, class := range named {
		with.field = newField(name, class)
		switch evaluate(r.program, with) {
		case isTrue:
			return true
		case failed:
			note(r.Name)
			return true
		}
	}
	return false
}

// isWhole reports whether a rule denies the result as a whole.
func (l *sightline) isWhole(outcomes string) bool {
	if l.lenient {
		return false
	}
	for _, r := range l.static {
		if r.isWhole() {
			return true
		}
	}
	if outcomes == "" {
		return false // such a rule is about the result, and this is none
	}
	return slices.ContainsFunc(l.of.dynamic, func(r boundRule) bool { return r.isWhole() && l.of.held(r, "", outcomes) })
}

// mayHold reports whether the rule is one that holds under the outcomes.
func (l *sightline) mayHold(r *compiled, outcomes string) bool {
	is := func(b boundRule) bool { return b.compiled == r }
	return slices.ContainsFunc(l.static, is) || slices.ContainsFunc(l.of.dynamic, func(b boundRule) bool {
		return is(b) && (!r.isWhole() || l.of.held(b, "", outcomes))
	})
}

// ask evaluates the rules that read the result, and returns their outcomes.
func (l *sightline) ask(read func() (any, error)) string {
	with := l.with
	result, err := read()
	if with.result = result; err != nil {
		with.result = types.NewErr("the result cannot be read")
	}
	out := []byte(isAsked)
	for _, o := range l.of.outcomes {
		holds := o.rule.eachClass(o.name, o.classes, &with, l.note)
		out = append(out, '0')
		if holds {
			out[len(out)-1] = '1'
		}
	}
	return string(out)
}

// bindRules evaluates the rules that read neither result nor field, and returns what callers have in common.
func (l *sightline) bindRules(who *identity.Identity) (key string) {
	bits := []byte(l.seen)
	bits = append(bits, ' ')
	for _, r := range l.of.always {
		switch {
		case r.field:
			l.static = append(l.static, r)
			l.readsCaller = l.readsCaller || r.caller
			continue
		case evaluate(r.program, &l.with) == isFalse:
			bits = append(bits, '0')
			continue
		}
		l.static = append(l.static, r)
		bits = append(bits, '1')
	}
	l.bits = string(bits)
	l.readsCaller = l.readsCaller || slices.ContainsFunc(l.of.dynamic, func(r boundRule) bool { return r.caller })
	if l.readsCaller {
		bits = append(bits, identityText(who)...)
	}
	sum := sha256.Sum256(bits)
	return hex.EncodeToString(sum[:])
}

// hashes reports whether a value may become a digest.
func (l *sightline) hashes() bool {
	for i := range l.set.classes.list {
		if l.set.classes.list[i].Otherwise == hashFields && l.seen[i] == '0' {
			return true
		}
	}
	return slices.ContainsFunc(l.of.rules, func(r *compiled) bool { return r.Effect == hashFields })
}

// digestBytes is how much of a digest is shown: enough that two values have the same one by no accident.
const digestBytes = 16

// digestFor is the digest of values for one caller, keyed so that no value can be guessed from it.
func (e *Engine) digestFor(principal string) func(value []byte) string {
	return func(value []byte) string {
		mac := hmac.New(sha256.New, e.secret())
		_, _ = mac.Write(strconv.AppendInt(nil, int64(len(principal)), 10))
		_, _ = mac.Write(append([]byte{' '}, principal...))
		_, _ = mac.Write(value)
		return hex.EncodeToString(mac.Sum(nil)[:digestBytes])
	}
}

// UseSecret gives the key of the digests that callers see in the place of values, which replicas share. Without it, an engine has a
// random one, and digests differ after a restart.
func (e *Engine) UseSecret(secret func() []byte) { e.given.Store(&secret) }

func (e *Engine) secret() []byte {
	if given := e.given.Load(); given != nil {
		if secret := (*given)(); len(secret) > 0 {
			return secret
		}
	}
	return e.own
}

// newSecret makes a key for one process.
func newSecret() []byte {
	out := make([]byte, sha256.Size)
	_, _ = rand.Read(out) // which does not fail
	return out
}

// sight is what is to be known of a tool for its views. Tools of Protobuf about which nothing is said share one for each backend.
type sight struct {
	tool    *tool
	backend string
	root    protoreflect.MessageDescriptor // of the result; nil for native tools
	isOwn   bool
	// paths are the classes by path, in order, and named the same by the full names of the fields.
	paths map[string][]string
	order []string
	named map[protoreflect.FullName][]string
	// rules are those about the tool: always those that do not read the result, and dynamic the others.
	rules           []*compiled
	always, dynamic []boundRule
	outcomes        []outcomeOf
	input           *input
	reads           reads
	faults          []Fault
}

// outcomeOf is a question that is asked about each result: a rule, and the field that it is asked for.
type outcomeOf struct {
	rule    boundRule
	name    string
	classes []string
}

// held reports whether a rule held for a field when the result was asked. Without outcomes, all hold.
func (s *sight) held(r boundRule, name, outcomes string) bool {
	if outcomes == "" {
		return true
	}
	for i, o := range s.outcomes {
		if o.rule.compiled == r.compiled && (!r.field || o.name == name) {
			return outcomes[len(isAsked)+i] == '1'
		}
	}
	return true // not asked
}

// isAsked begins the outcomes of a result that was asked about.
const isAsked = "r"

// sightOf returns what is to be known of a tool.
func (s *Set) sightOf(t *catalog.Tool) *sight {
	if of, ok := s.sights.Load(t); ok {
		known, _ := of.(*sight)
		return known
	}
	made := s.newSight(t)
	if !made.isOwn && !t.Native {
		shared, _ := s.sights.LoadOrStore("backend "+made.backend, &sight{backend: made.backend})
		made, _ = shared.(*sight)
	}
	of, _ := s.sights.LoadOrStore(t, made)
	known, _ := of.(*sight)
	return known
}

func (s *Set) newSight(t *catalog.Tool) *sight {
	of := &sight{backend: t.Method.Backend, root: rootOf(t), paths: classPaths(t)}
	of.order = slices.Sorted(maps.Keys(of.paths))
	for _, path := range of.order {
		if fd := fieldAt(of.root, path); fd != nil {
			if of.named == nil {
				of.named = map[protoreflect.FullName][]string{}
			}
			of.named[fd.FullName()] = append(of.named[fd.FullName()], of.paths[path]...)
		}
	}
	for _, r := range s.rules {
		if !r.OnResult || !r.matches(t) {
			continue
		}
		if of.tool == nil {
			of.tool = newTool(t, s.known)
		}
		of.rules = append(of.rules, r)
		if !r.result {
			of.always = append(of.always, boundRule{r, r.program})
			continue
		}
		program, faults := s.programForResult(of, r, t)
		of.faults = append(of.faults, faults...)
		of.dynamic = append(of.dynamic, boundRule{r, program})
		if len(faults) == 0 { // else it holds
			of.ask(s, boundRule{r, program})
		}
	}
	of.isOwn = len(of.rules)+len(of.paths) > 0
	return of
}

// ask notes what a rule is asked about each result.
func (of *sight) ask(s *Set, r boundRule) {
	if !r.field || r.isWhole() {
		if len(of.outcomes) < maxOutcomes {
			of.outcomes = append(of.outcomes, outcomeOf{rule: r})
		}
		return
	}
	asked := map[string]bool{}
	eachBelow(of.root, func(fd protoreflect.FieldDescriptor) bool {
		named := append(s.classes.of(fd, of.backend), of.named[fd.FullName()]...)
		if name := string(fd.FullName()); r.about(name, named) && !asked[name] {
			asked[name] = true
			of.outcomes = append(of.outcomes, outcomeOf{rule: r, name: name, classes: named})
		}
		return len(of.outcomes) < maxOutcomes
	})
}

// programForResult returns the program of a rule that reads the result, for a tool.
func (s *Set) programForResult(of *sight, r *compiled, t *catalog.Tool) (cel.Program, []Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.input == nil {
		of.input = s.outputOf(of.root, t)
	}
	if of.input.err != nil {
		return nil, []Fault{{Index: r.index, Field: "when", Tool: t.Name, OnResult: true, Message: of.input.err.Error()}}
	}
	of.reads.add(of.input.message, r, varResult)
	key := programKey{r.index, of.input}
	made, ok := s.programs[key]
	if !ok {
		made.program, made.faults = s.program(of.input.env, r, "")
		s.programs[key] = made
	}
	var faults []Fault
	for _, f := range made.faults {
		f.Tool, f.OnResult = t.Name, true
		faults = append(faults, f)
	}
	return made.program, faults
}

// outputKey is the result of a tool among the inputs of rules.
type outputKey struct{ of any }

// outputOf returns the environment for the result of a tool. The caller holds mu.
func (s *Set) outputOf(root protoreflect.MessageDescriptor, t *catalog.Tool) *input {
	key := outputKey{root}
	if root == nil {
		key.of = ""
		if t.HasOutput() {
			key.of = string(t.Output.Canonical())
		}
	}
	if known := s.inputs[key]; known != nil {
		return known
	}
	in := &input{message: root}
	if root == nil {
		text, _ := key.of.(string)
		in.env, in.err = s.jsonEnv(s.results, []byte(text), varResult)
	} else {
		in.env, in.err = s.messageEnv(root, varResult)
	}
	s.inputs[key] = in
	return in
}

// rootOf is the message that the result of a tool is; nil for native tools.
func rootOf(t *catalog.Tool) protoreflect.MessageDescriptor {
	switch {
	case t.Native:
		return nil
	case t.Operation != nil && t.Operation.Response != nil && t.Operation.Response.Out != nil:
		return t.Operation.Response.Out.Descriptor()
	}
	return t.Method.Descriptor.Output()
}

// fieldAt is the field that a path leads to, through lists and maps; nil where there is none.
func fieldAt(md protoreflect.MessageDescriptor, path string) protoreflect.FieldDescriptor {
	var fd protoreflect.FieldDescriptor
	for name := range strings.SplitSeq(path, ".") {
		if md == nil {
			return nil
		}
		if fd = md.Fields().ByName(protoreflect.Name(name)); fd == nil {
			return nil
		}
		md = fd.Message()
		if fd.IsMap() {
			md = fd.MapValue().Message()
		}
	}
	return fd
}

// typesOf finds the types of what an Any in the messages of a tool holds; nil where that is not known.
func typesOf(t *catalog.Tool) transcode.Resolver {
	for _, m := range [...]*transcode.Message{t.Out, t.In} {
		if m != nil && m.Types() != nil {
			return m.Types()
		}
	}
	return nil
}

// Visible returns what an approver with exactly these classes sees of the arguments of a tool; nil where that is everything, of the
// response too.
// Arguments are never denied: what would be is hidden.
func (e *Engine) Visible(classes []string, t *catalog.Tool) *View {
	set := e.Set()
	if !set.HasViews() {
		return nil
	}
	t = t.Whole()
	seen := make([]byte, len(set.classes.list))
	for i, class := range set.classes.list {
		seen[i] = '0'
		if slices.Contains(classes, class.Name) {
			seen[i] = '1'
		}
	}
	base := set.sightOf(t)
	of := &sight{backend: base.backend, named: base.named, isOwn: true}
	if t.Native {
		of.paths = map[string][]string{}
		schemaClasses(t.Input.Canonical(), func(path, class string) { of.paths[path] = append(of.paths[path], class) })
	}
	line := &sightline{set: set, of: of, types: typesOf(t), seen: string(seen), lenient: true, note: e.counts.failed}
	v := &View{sightline: line, tool: t, key: "approver " + string(seen), digest: e.digestFor("approver")}
	// Also what the response may have: a preview says it in words.
	v.treats = v.treatsMessages() || t.Native && len(base.paths) > 0
	if !v.treats {
		return nil
	}
	return v
}

// visibleTo is the keyword of a property that has a class, in a schema of a native tool.
const visibleTo = "x-outrigger-visible-to"

// anyMember is the name, in a path, of members that a schema does not name.
const anyMember = "*"

// maxSchemaParts bounds how much of a schema is searched for classes.
const maxSchemaParts = 10_000

// classSchema is the part of a JSON schema that says where classes are.
type classSchema struct {
	Class      string                     `json:"x-outrigger-visible-to"`
	Properties map[string]json.RawMessage `json:"properties"`
	Patterns   map[string]json.RawMessage `json:"patternProperties"`
	Items      json.RawMessage            `json:"items"`
	Prefix     []json.RawMessage          `json:"prefixItems"`
	Contains   json.RawMessage            `json:"contains"`
	Extra      json.RawMessage            `json:"additionalProperties"`
	AllOf      []json.RawMessage          `json:"allOf"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
	OneOf      []json.RawMessage          `json:"oneOf"`
	Then       json.RawMessage            `json:"then"`
	Else       json.RawMessage            `json:"else"`
	Ref        string                     `json:"$ref"`
	Defs       map[string]json.RawMessage `json:"$defs"`
	OldDefs    map[string]json.RawMessage `json:"definitions"`
}

// schemaClasses finds the classes that a JSON schema gives to properties, by their paths. A member whose schema is one that it is in
// has all classes of that one. Classes at places that are not understood, or beyond the bounds, are those of every member of the result.
func schemaClasses(raw []byte, add func(path, class string)) {
	if !bytes.Contains(raw, []byte(visibleTo)) {
		return
	}
	w := classWalk{found: map[[2]string]bool{}, visited: map[string]bool{}, within: map[string]string{}, again: map[[2]string]bool{}}
	if json.Unmarshal(raw, &w.root) == nil {
		w.raw = raw
		w.walk(raw, "", 0)
	}
	w.spread()
	w.rest(raw)
	for _, of := range slices.SortedFunc(maps.Keys(w.found), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		add(of[0], of[1])
	}
}

// classWalk is a search for the classes in a schema.
type classWalk struct {
	raw     json.RawMessage
	root    classSchema
	parts   int
	bounded bool               // something was not searched
	found   map[[2]string]bool // paths and classes
	visited map[string]bool    // texts of schemas with a class
	within  map[string]string  // references that are being followed, and where they were met
	again   map[[2]string]bool // where they were met again, and where first
}

func (w *classWalk) walk(raw json.RawMessage, path string, depth int) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var of classSchema
	if w.parts++; w.parts > maxSchemaParts || depth > maxSchemaDepth || json.Unmarshal(raw, &of) != nil {
		w.bounded = true
		return
	}
	if of.Class != "" && path != "" {
		w.found[[2]string{path, of.Class}] = true
		w.visited[string(raw)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		w.walk(of.Properties[name], joined(path, name), depth+1)
	}
	for _, pattern := range slices.Sorted(maps.Keys(of.Patterns)) {
		w.walk(of.Patterns[pattern], joined(path, anyMember), depth+1)
	}
	w.walk(of.Extra, joined(path, anyMember), depth+1)
	for _, part := range slices.Concat([]json.RawMessage{of.Items, of.Contains, of.Then, of.Else}, of.Prefix, of.AllOf, of.AnyOf, of.OneOf) {
		w.walk(part, path, depth+1)
	}
	w.follow(of.Ref, path, depth)
}

func (w *classWalk) follow(ref, path string, depth int) {
	if ref == "" {
		return
	}
	if first, ok := w.within[ref]; ok || ref == "#" {
		w.again[[2]string{path, first}] = true
		return
	}
	w.within[ref] = path
	defer delete(w.within, ref)
	var to json.RawMessage
	if name, ok := strings.CutPrefix(ref, "#/$defs/"); ok {
		to = w.root.Defs[name]
	} else if name, ok := strings.CutPrefix(ref, "#/definitions/"); ok {
		to = w.root.OldDefs[name]
	}
	if to == nil {
		w.bounded = true
		return
	}
	w.walk(to, path, depth+1)
}

// spread gives what is below the first place of a reference to the places where it was met again.
func (w *classWalk) spread() {
	for more := true; more; {
		more = false
		for at := range w.again {
			for _, of := range slices.Collect(maps.Keys(w.found)) {
				to := [2]string{at[0], of[1]}
				isBelow := at[1] == "" || of[0] == at[1] || strings.HasPrefix(of[0], at[1]+".")
				if at[0] != at[1] && isBelow && !w.found[to] {
					w.found[to], more = true, true
				}
			}
		}
	}
}

// rest gives every member the classes that were not reached.
func (w *classWalk) rest(raw json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) == nil {
		var class string
		if json.Unmarshal(members[visibleTo], &class) == nil && class != "" && (w.bounded || !w.visited[string(raw)]) {
			w.found[[2]string{anyMember, class}] = true
		}
		for _, member := range members {
			w.rest(member)
		}
		return
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) == nil {
		for _, item := range items {
			w.rest(item)
		}
	}
}

func joined(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// ApplyJSON treats the data of a result of a native tool, by the paths that its overlay entry and its output schema give classes to.
func (v *View) ApplyJSON(data []byte) ([]byte, *errmap.Error) {
	if v == nil || len(data) == 0 || !v.treats {
		return data, nil
	}
	if jsontext.Check(data, maxDataDepth) != nil {
		return nil, errmap.New(errmap.SerializationError)
	}
	outcomes := ""
	if len(v.of.dynamic) > 0 {
		outcomes = v.ask(func() (any, error) { return decodeJSON(data) })
	}
	if v.isWhole(outcomes) {
		return nil, v.denied(outcomes, nil)
	}
	w := dataFilter{view: v, outcomes: outcomes}
	w.In, w.Pos = data, jsontext.SkipSpace(data, 0)
	w.value([]string{""}, w.places())
	if w.denied != nil {
		return nil, v.denied(outcomes, w.denied)
	}
	return w.Out, nil
}

// maxDataDepth bounds the nesting of the data of a native tool.
const maxDataDepth = 1000

// dataFilter copies JSON without what a caller may not see.
type dataFilter struct {
	jsontext.Rewriter
	view     *View
	outcomes string
	denied   *transcode.DeniedError
}

// places has each path and all that lead to one.
func (w *dataFilter) places() map[string]bool {
	out := map[string]bool{}
	for _, path := range w.view.of.order {
		for i, c := range path {
			if c == '.' {
				out[path[:i]] = true
			}
		}
		out[path] = true
	}
	return out
}

func (w *dataFilter) value(paths []string, places map[string]bool) {
	switch w.Next() {
	case '{':
		w.Members(func(quoted []byte) ([]byte, func()) { return w.member(paths, quoted, places) })
	case '[':
		w.Items(func(int) { w.value(paths, places) })
	default:
		w.Copy()
	}
}

// member treats a member as the strictest of the places says that it is at.
func (w *dataFilter) member(paths []string, quoted []byte, places map[string]bool) ([]byte, func()) {
	name := string(jsontext.AppendDecoded(nil, quoted))
	var at []string
	var t transcode.Treatment
	denied := ""
	for _, path := range paths {
		for _, place := range [...]string{joined(path, name), joined(path, anyMember)} {
			if !places[place] || slices.Contains(at, place) {
				continue
			}
			at = append(at, place)
			of := w.view.treatmentOf(place, w.view.of.paths[place], w.outcomes)
			if t = stricter(t, of); of.Action == transcode.Deny {
				denied = place
			}
		}
	}
	if len(at) == 0 {
		return quoted, w.Copy
	}
	switch t.Action {
	case transcode.Hide:
		return nil, nil
	case transcode.Deny:
		if w.denied == nil {
			w.denied = &transcode.DeniedError{Field: protoreflect.FullName(denied)}
		}
		return nil, nil
	case transcode.Show:
		return quoted, func() { w.value(at, places) }
	}
	return quoted, func() { w.masked(t) }
}

// masked writes a value of the same type that says little, or a digest of a text.
func (w *dataFilter) masked(t transcode.Treatment) {
	switch w.Next() {
	case '"':
		start := w.Pos
		w.Skip()
		text := jsontext.AppendDecoded(nil, w.In[start:w.Pos])
		if t.Action == transcode.Hash && len(text) > 0 {
			w.Out = jsontext.AppendString(w.Out, w.view.digest(text))
			return
		}
		w.Out = jsontext.AppendString(w.Out, transcode.MaskText(text, t.Style))
	case '[':
		w.Items(func(int) { w.masked(t) })
	case '{':
		w.Out = append(w.Out, "{}"...)
		w.Skip()
	case 't', 'f':
		w.Out = append(w.Out, "false"...)
		w.Skip()
	case 'n':
		w.Copy()
	default:
		w.Out = append(w.Out, '0')
		w.Skip()
	}
}
