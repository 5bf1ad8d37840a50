// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/hex"
	"slices"
	"sync"

	"cel.dev/cel-go/cel"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// Set is a set of rules. Make one with [Compile].
type Set struct {
	limits Limits
	rules  []*compiled
	env    *cel.Env
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
		return r.Effect == Allow && (slices.Contains(r.Tools, t.Name) || t.Alias != "" && slices.Contains(r.Tools, t.Alias))
	})
}

// sortListing finds out what the key of a caller is made of.
func (s *Set) sortListing() {
	for _, r := range s.rules {
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

// bound are the rules about one tool.
type bound struct {
	tool        *tool
	allow, deny []boundRule
	// args is set if a rule reads the arguments.
	args  bool
	input *input
	// numbers are the fields of the request that rules read, unless they may read
	// everything.
	numbers    map[protowire.Number]bool
	everything bool
	// faults are not empty if a rule does not fit the tool. Nothing may call it then.
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
		if !r.matches(t) {
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
		if len(faults) > 0 {
			if b.broken == "" {
				b.broken = r.Name
			}
			b.faults = append(b.faults, faults...)
			continue
		}
		if r.Effect == Deny {
			b.deny = append(b.deny, boundRule{r, program})
		} else {
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
	b.reading(r)
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
		kind, objects := argumentsType(t.Input.Canonical())
		types := s.known.with(objects)
		in.env, in.err = s.env.Extend(cel.CustomTypeProvider(types), cel.CustomTypeAdapter(types), cel.Variable(varArgs, kind))
	} else {
		in.message = t.Method.Descriptor.Input()
		in.env, in.err = s.messageEnv(in.message)
	}
	s.inputs[key] = in
	return in
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

// messageEnv returns the environment for arguments that are a message. Messages of one
// file share a registry.
func (s *Set) messageEnv(message protoreflect.MessageDescriptor) (*cel.Env, error) {
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
	return shared.env.Extend(cel.Variable(varArgs, cel.ObjectType(string(message.FullName()))))
}

// Fit compiles the rules for the tools of a catalog and returns the faults, by tool. It
// forgets tools that are not in the catalog.
func (s *Set) Fit(cat *catalog.Catalog) []Fault {
	if s.Len() == 0 || cat == nil {
		return nil
	}
	var faults []Fault
	now := make(map[*catalog.Tool]bool)
	for _, t := range cat.All() {
		now[t] = true
		if b := s.of(t); b != nil && !t.Hidden {
			faults = append(faults, b.faults...)
		}
	}
	s.forget(now)
	return faults
}

// forget drops what was compiled for other tools than these.
func (s *Set) forget(now map[*catalog.Tool]bool) {
	used := map[*input]bool{}
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
