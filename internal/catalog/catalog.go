// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// Catalog is an immutable snapshot of the set of tools. Callers must not modify anything that it returns.
// It is safe for concurrent use.
type Catalog struct {
	own          *lists           // all but registered tools
	byName       map[string]*Tool // the same
	growth       *growth          // registered tools; nil where there are none
	derived      map[string]*Tool // by procedure, hidden ones too, without registered ones
	files        protodesc.Resolver
	paths        []string
	types        *Types
	warnings     []source.Warning
	description  *outriggerv1.ServerDescription
	resources    *resource.Set
	digests      digests
	fingerprint  string
	drift        *lock.Drift // from the lock; nil without one
	compact      *compacted
	reserved     reserved
	declaredOnly bool // BuildOptions.DeclaredOnly
	listed       ListForm
	isStrict     bool // the profile of its schemas
	limited      bool // some of its tools are what one caller sees of them

	// passedOver are services that are there and not offered, and no infrastructure. leftOut are the first of the methods of
	// others that no glob took, and unselected is their number.
	passedOver, leftOut []string
	unselected          int

	// backend is BuildOptions.Backend. parts are the catalogs that this one shows together, by their backends; nil for one alone.
	backend string
	parts   map[string]*Catalog
}

// compacted are the other forms of a catalog, made when they are first asked for: the compact one, and the full one with the tool that
// runs programs.
type compacted struct {
	once, besides sync.Once
	catalog, full *Catalog
	err, fullErr  error

	programs sync.Once
	known    any // Catalog.Programs

	// measured guards limit, which a list was compared with last, and isLarger, the outcome.
	measured          sync.Mutex
	limit             int
	isKnown, isLarger bool
}

// Service is an RPC service with at least one tool. Native tools belong to no service.
type Service struct {
	// Name is the full name of the service.
	Name string
	// Source is the name of the source that provides the service.
	Source     string
	Descriptor protoreflect.ServiceDescriptor
	// Tools are the tools of the service, hidden ones included, sorted by name.
	Tools []*Tool

	about serviceAbout
}

// serviceAbout is what a service says of itself.
type serviceAbout struct{ text, title, version string }

// Summary returns the first sentence of what the service says of itself, with its full stop; empty if there is none.
func (s Service) Summary() string {
	sentence := firstSentence(s.about.text)
	if sentence == "" || strings.ContainsAny(sentence[len(sentence)-1:], ".!?") {
		return sentence
	}
	return sentence + "."
}

// IsLimited reports whether some of the tools are as one caller sees them, without fields that others see.
func (c *Catalog) IsLimited() bool { return c != nil && c.limited }

// Tools returns the tools visible to callers, sorted by canonical name.
func (c *Catalog) Tools() []*Tool { return c.lists().visible }

// LeftOut lists what is no tool that callers see, and why: methods that are omitted with a warning, hidden ones, services and
// methods that no glob of the selection takes. Of these methods, more than a hundred are only counted.
func (c *Catalog) LeftOut() []source.Warning {
	out := slices.Clone(c.warnings)
	for _, t := range c.All() {
		switch {
		case !t.Hidden:
		case t.isUnmarked && slices.ContainsFunc(c.Resources().All(), func(m *resource.Method) bool { return m.Procedure() == t.Method.Procedure }):
			out = append(out, source.Warning{Subject: t.Subject(), Text: "method is a source of resources and no tool, by its option of protomcp.v1; hidden: false in the overlay makes it a tool as well"})
		case t.isUnmarked:
			out = append(out, source.Warning{Subject: t.Subject(), Text: "method left out: it has no option of protomcp.v1, which rival-annotations asks for; hidden: false in the overlay makes it a tool"})
		default:
			out = append(out, source.Warning{Subject: t.Subject(), Text: "method left out: it is hidden, by its option (outrigger.v1.tool).hidden or the overlay"})
		}
	}
	parts := []*Catalog{c}
	for _, backend := range shown.SortedKeys(c.parts) {
		parts = append(parts, c.parts[backend])
	}
	for _, p := range parts {
		for _, name := range p.passedOver {
			out = append(out, source.Warning{Subject: name, Text: "service left out: it is excluded, or only imported; --include with its full name takes it"})
		}
		for _, id := range p.leftOut {
			out = append(out, source.Warning{Subject: id, Text: "method left out: --include and --exclude do not take it"})
		}
		if more := p.unselected - len(p.leftOut); more > 0 {
			out = append(out, source.Warning{Subject: fmt.Sprintf("%d more", more), Text: "methods left out: --include and --exclude do not take them"})
		}
	}
	return out
}

// count is the number of tools that callers may see.
func (c *Catalog) count() int { return len(c.own.visible) + c.growth.count() }

func (c *Catalog) lists() *lists {
	if c.growth == nil {
		return c.own
	}
	return c.growth.lists()
}

// All returns all tools for operators, hidden ones included, sorted by canonical name.
func (c *Catalog) All() []*Tool { return c.lists().all }

// Lookup finds a tool by its canonical name, its MCP name, or either form of its alias. It does not find hidden tools.
func (c *Catalog) Lookup(name string) (*Tool, bool) {
	if t, ok := c.byName[name]; ok {
		return t, true
	}
	return c.growth.lookup(name)
}

// ByProcedure finds the tool of an RPC by its path, "/pkg.Service/Method". It finds neither hidden nor native tools.
func (c *Catalog) ByProcedure(procedure string) (*Tool, bool) {
	if t := c.derived[procedure]; t != nil && (!t.Hidden || t.isTyped) {
		return t, true
	}
	return nil, false
}

// reserves says why a tool cannot have its names; empty if it can. A catalog keeps those of the sidecar's own tools.
func (c *Catalog) reserves(t *Tool) string {
	return c.reserved.name(t.names())
}

// Services returns the services that tools come from, sorted by name.
func (c *Catalog) Services() []Service { return c.lists().services }

// Description returns the native backend's description of itself, or nil if there is none. Do not modify it.
func (c *Catalog) Description() *outriggerv1.ServerDescription { return c.description }

// Resources returns the resources that plain RPCs provide; never nil. The method of a hidden tool may be among them.
func (c *Catalog) Resources() *resource.Set { return c.resources }

// Files returns a resolver that finds descriptors by path and name, as server reflection needs it.
func (c *Catalog) Files() protodesc.Resolver { return c.files }

// Paths returns the paths of all files in Files, sorted.
func (c *Catalog) Paths() []string { return c.paths }

// Types returns a resolver for messages and extensions, as Any needs it.
func (c *Catalog) Types() *Types { return c.types }

// Warnings returns the warnings for operators, sorted by subject.
func (c *Catalog) Warnings() []source.Warning { return c.warnings }

// Fingerprint returns the SHA-256 of everything visible to callers, as 64 lowercase hex digits. It does not depend on
// the order in which descriptors arrived.
func (c *Catalog) Fingerprint() string { return c.fingerprint }

// newCatalog freezes derived tools, which those that are not hidden are given by name too. They collide with none of each other, except that hidden ones may. Typed ones are
// found by their procedures alone.
func newCatalog(tools []*Tool, byName map[string]*Tool, typed []*Tool, linked *linker, types *Types, warnings []source.Warning) (*Catalog, error) {
	c := &Catalog{
		own: &lists{all: tools}, byName: byName, derived: make(map[string]*Tool, len(tools)+len(typed)),
		files: linked.registry, types: types, paths: linked.paths(), warnings: warnings, compact: &compacted{},
	}
	slices.SortFunc(tools, inOrder)
	services := map[string]*Service{}
	addRPC := func(t *Tool) {
		s := services[t.Method.Service]
		if s == nil {
			parent, _ := t.Method.Descriptor.Parent().(protoreflect.ServiceDescriptor)
			s = &Service{Name: t.Method.Service, Source: t.Method.Source, Descriptor: parent}
			services[s.Name] = s
		}
		s.Tools = append(s.Tools, t)
		c.derived[t.Method.Procedure] = t
	}
	for _, t := range typed {
		t.isTyped = true
		addRPC(t)
	}
	named := make([]*Tool, 0, len(tools))
	c.own.visible = make([]*Tool, 0, len(tools))
	for _, t := range tools {
		if !t.Native {
			addRPC(t)
		}
		if t.Hidden {
			continue
		}
		if t.sealed == (source.Digest{}) {
			if err := t.seal(); err != nil {
				return nil, err
			}
		}
		named = append(named, t)
		c.own.visible = append(c.own.visible, t)
	}
	addAliases(c.byName, named)
	for _, name := range shown.SortedKeys(services) {
		c.own.services = append(c.own.services, *services[name])
	}
	slices.SortStableFunc(c.warnings, bySubject)
	c.digests = digests{}.with(c.own.visible)
	c.fingerprint = c.digests.sum()
	return c, nil
}

func bySubject(a, b source.Warning) int {
	return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Text, b.Text))
}

// addAliases lets the tools be found by their aliases. One that is a name of another tool, or that two tools would have,
// is dropped: what it means must not depend on what else there is.
func addAliases(byName map[string]*Tool, tools []*Tool) {
	claims := map[string]int{}
	for _, t := range tools {
		if t.Alias != "" {
			claims[MCPName(t.Alias)]++
		}
	}
	if len(claims) == 0 {
		return
	}
	for _, t := range tools {
		if t.Alias == "" {
			continue
		}
		mcp := MCPName(t.Alias)
		if byName[t.Alias] != nil || byName[mcp] != nil || claims[mcp] > 1 {
			t.Alias = ""
		}
	}
	for _, t := range tools {
		for _, name := range t.names() {
			byName[name] = t
		}
	}
}

// Only returns a view of the catalog for a caller who may use only some of the tools. The other tools are neither listed
// nor found by name, by procedure or as resources, and the fingerprints cover only what is left. Descriptors stay, because
// the messages of one method come from files shared with others. Nothing is derived or compiled again.
func (c *Catalog) Only(may func(t *Tool) bool) *Catalog {
	return c.as(func(t *Tool) *Tool {
		if may(t) {
			return t
		}
		return nil
	})
}

// as is Only for a caller who may see some tools in another way. show returns a tool as the caller sees it, always the same; nil for
// one that it may not use.
func (c *Catalog) as(show func(t *Tool) *Tool) *Catalog {
	out := *c
	from := c.lists()
	out.own = &lists{visible: shownAs(from.visible, show), all: shownAs(from.all, show)}
	for _, s := range from.services {
		if s.Tools = shownAs(s.Tools, show); len(s.Tools) > 0 {
			out.own.services = append(out.own.services, s)
		}
	}
	out.growth, out.compact = nil, &compacted{} // its tools are among those of lists
	out.byName = make(map[string]*Tool, 2*len(out.own.visible))
	for _, t := range out.own.all {
		if t.Hidden {
			continue
		}
		for _, name := range t.names() {
			out.byName[name] = t
		}
	}
	out.derived = make(map[string]*Tool, len(c.derived))
	for procedure, t := range c.derived {
		if t = show(t); t != nil {
			out.derived[procedure] = t
		}
	}
	out.resources = c.resources.Only(func(m *resource.Method) bool { return out.ResourceTool(m) != nil })
	out.limited = slices.ContainsFunc(out.own.visible, func(t *Tool) bool { return t.whole != nil })
	out.digests = digests{}.with(out.own.visible)
	out.fingerprint = out.digests.sum()
	return &out
}

// joined is the catalog of several parts. before is the one in use, whose names stay with their backends; nil for none.
func joined(parts []*Catalog, before *Catalog, maxTools int) (*Catalog, error) {
	first := parts[0]
	out := &Catalog{
		own: &lists{}, byName: map[string]*Tool{}, derived: map[string]*Tool{}, parts: make(map[string]*Catalog, len(parts)), compact: &compacted{},
		types: first.types, reserved: first.reserved, declaredOnly: first.declaredOnly, listed: first.listed, isStrict: first.isStrict,
	}
	var files unionFiles
	paths := map[string]bool{}
	for _, c := range parts {
		out.parts[c.backend] = c
		files = append(files, c.files)
		for _, path := range c.paths {
			paths[path] = true
		}
	}
	out.files, out.paths = files, shown.SortedKeys(paths)
	var held []*Tool
	isHeld := map[*Tool]bool{}
	for _, c := range parts {
		for _, t := range c.own.visible {
			if before == nil {
				break
			}
			if known, ok := before.Lookup(t.Name); ok && !known.Registered && known.Name == t.Name && known.Method.Backend == c.backend {
				held, isHeld[t] = append(held, t), true
			}
		}
	}
	for _, t := range held {
		out.claim(t)
	}
	for _, c := range parts {
		for _, t := range c.own.visible {
			if !isHeld[t] {
				out.claim(t)
			}
		}
	}
	kept := out.claimAliases()
	for _, c := range parts {
		for _, t := range c.own.all {
			if t.Hidden {
				kept[t] = t
			}
		}
		out.adopt(c, kept)
	}
	if n := len(out.own.visible); n > maxTools {
		return nil, &BuildError{Problems: []Problem{{"catalog", fmt.Sprintf("the backends have %d tools together; the limit is %d (limits.max_tools); use --include and --exclude", n, maxTools)}}}
	}
	slices.SortFunc(out.own.visible, inOrder)
	slices.SortFunc(out.own.all, inOrder)
	slices.SortStableFunc(out.own.services, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	out.warnings = slices.Concat(out.warnings, jointWarnings(parts))
	slices.SortStableFunc(out.warnings, bySubject)
	out.resources, out.description = out.jointResources(parts), jointDescription(parts)
	out.digests = digests{}.with(out.own.visible)
	out.fingerprint = out.digests.sum()
	return out, nil
}

// claim takes the names of a tool, unless another one has them.
func (c *Catalog) claim(t *Tool) {
	for _, name := range [...]string{t.Name, t.MCPName} {
		if other := c.byName[name]; other != nil {
			c.warnings = append(c.warnings, source.Warning{Subject: t.Subject(), Text: collision(name, other, t)})
			return
		}
	}
	c.byName[t.Name], c.byName[t.MCPName] = t, t
	c.own.visible = append(c.own.visible, t)
}

// claimAliases lets tools be found by their aliases, as addAliases does. Those of parts are in use, so that one without its alias is
// another one. It returns the tools of parts by what they are here.
func (c *Catalog) claimAliases() (kept map[*Tool]*Tool) {
	kept = make(map[*Tool]*Tool, len(c.own.visible))
	for i, t := range c.own.visible {
		own := t
		if t.Alias != "" {
			copied := *t
			own = &copied
		}
		kept[t], c.own.visible[i], c.byName[t.Name], c.byName[t.MCPName] = own, own, own, own
	}
	addAliases(c.byName, c.own.visible)
	return kept
}

// collision says whose name it is, and what to set.
func collision(name string, first, later *Tool) string {
	return fmt.Sprintf("tool omitted: the name %q belongs to %s of the backend %s, and would also be that of %s of the backend %s; "+
		"set `prefix: %s` on the backend %s", name, first.Subject(), first.Method.Backend, later.Subject(), later.Method.Backend,
		nativeService(later.Method.Backend), later.Method.Backend)
}

// adopt takes the procedures and services of a part.
func (c *Catalog) adopt(part *Catalog, kept map[*Tool]*Tool) {
	for _, t := range part.own.all {
		if own := kept[t]; own != nil {
			c.own.all = append(c.own.all, own)
		}
	}
	for procedure, t := range part.derived {
		if c.derived[procedure] == nil {
			c.derived[procedure] = t
			if own := kept[t]; own != nil {
				c.derived[procedure] = own
			}
		}
	}
	for _, s := range part.own.services {
		var tools []*Tool
		for _, t := range s.Tools {
			if own := kept[t]; own != nil {
				tools = append(tools, own)
			} else if t.isTyped && c.derived[t.Method.Procedure] == t {
				tools = append(tools, t)
			}
		}
		if len(tools) == 0 {
			continue
		}
		at := slices.IndexFunc(c.own.services, func(other Service) bool { return other.Name == s.Name })
		if at < 0 {
			s.Tools = tools
			c.own.services = append(c.own.services, s)
			continue
		}
		c.warnings = append(c.warnings, source.Warning{Subject: s.Name, Text: fmt.Sprintf("the backends %s and %s have the service: "+
			"its tools differ by their prefix, but typed callers reach the first one only", c.own.services[at].Tools[0].Method.Backend, part.backend)})
		c.own.services[at].Tools = slices.Concat(c.own.services[at].Tools, tools)
	}
}

// jointWarnings are those of the parts. What an entry of the overlay, which all parts share, lacks in one it has in another.
func jointWarnings(parts []*Catalog) []source.Warning {
	seen := map[source.Warning]int{}
	for _, c := range parts {
		for _, w := range c.warnings {
			seen[w]++
		}
	}
	var out []source.Warning
	for w, n := range seen {
		if w.Text != overlayUnused || n == len(parts) {
			out = append(out, w)
		}
	}
	return out
}

// jointResources are those of the parts whose RPCs are found here. Of two that could both read a URI, the later one is left out.
func (c *Catalog) jointResources(parts []*Catalog) *resource.Set {
	var all []*resource.Method
	set, _ := resource.NewSet(nil)
	for _, part := range parts {
		var own []*resource.Method
		for _, m := range part.resources.All() {
			if t := c.derived[m.Procedure()]; t != nil && t.Method.Backend == part.backend {
				own = append(own, m)
			}
		}
		if more, ambiguous := resource.NewSet(slices.Concat(all, own)); len(ambiguous) == 0 {
			set, all = more, slices.Concat(all, own)
			continue
		}
		for _, m := range own {
			more, ambiguous := resource.NewSet(append(slices.Clone(all), m))
			if len(ambiguous) == 0 {
				set, all = more, append(all, m)
				continue
			}
			c.warnings = append(c.warnings, source.Warning{Subject: m.Procedure()[1:], Text: fmt.Sprintf(
				"resource omitted: URIs of it could be those of %s of an earlier backend; set another URI in the overlay", ambiguous[0].One.Procedure()[1:])})
		}
	}
	return set
}

// jointDescription says what native backends offer together, without a name; nil if none is native.
func jointDescription(parts []*Catalog) *outriggerv1.ServerDescription {
	out := &outriggerv1.ServerDescription{Capabilities: &outriggerv1.ServerCapabilities{}}
	isNative := false
	for _, c := range parts {
		d := c.description
		if d == nil {
			continue
		}
		isNative = true
		has, all := d.GetCapabilities(), out.Capabilities
		// Of two switches, one that is on wins.
		proto.Merge(all, &outriggerv1.ServerCapabilities{Resources: has.GetResources(), Prompts: has.GetPrompts(), Skills: has.GetSkills()})
		all.Completions = all.GetCompletions() || has.GetCompletions()
		all.Logging = all.GetLogging() || has.GetLogging()
		all.Tasks = all.GetTasks() || has.GetTasks()
		out.ResourcesCount += d.GetResourcesCount()
		out.PromptsCount += d.GetPromptsCount()
	}
	if !isNative {
		return nil
	}
	return out
}

// Of returns the catalog of the backend that has a tool: the one that its types are in. It is c itself where there is one backend.
func (c *Catalog) Of(t *Tool) *Catalog {
	if c == nil || t == nil {
		return c
	}
	return c.OfBackend(t.Method.Backend)
}

// OfBackend returns the catalog of one of several backends. It is c itself where there is one backend.
func (c *Catalog) OfBackend(name string) *Catalog {
	if part := c.parts[name]; part != nil {
		return part
	}
	return c
}

// unionFiles finds descriptors in the first of several files that has them.
type unionFiles []protodesc.Resolver

// FindFileByPath implements protodesc.Resolver.
func (u unionFiles) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	for _, files := range u {
		if fd, err := files.FindFileByPath(path); err == nil {
			return fd, nil
		}
	}
	return nil, protoregistry.NotFound
}

// FindDescriptorByName implements protodesc.Resolver.
func (u unionFiles) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	for _, files := range u {
		if d, err := files.FindDescriptorByName(name); err == nil {
			return d, nil
		}
	}
	return nil, protoregistry.NotFound
}

// Learned returns a resolver for the descriptors of types that answers named, which are not among the catalog's files.
func (c *Catalog) Learned() protodesc.Resolver {
	if c.parts == nil {
		return c.types.learned
	}
	var out unionFiles
	for _, name := range slices.Sorted(maps.Keys(c.parts)) {
		out = append(out, c.parts[name].types.learned)
	}
	return out
}

func shownAs(tools []*Tool, show func(t *Tool) *Tool) []*Tool {
	var out []*Tool
	for _, t := range tools {
		if t = show(t); t != nil {
			out = append(out, t)
		}
	}
	return out
}

// maxListedOutput is the size in bytes up to which a bounded list shows an output schema. Below it are the answers of most
// RPCs. Those above it are most of a list's tokens, and say little about when to call a tool.
const maxListedOutput = 4000

// OutputSchemas selects the output schemas that a list of tools shows. A schema that is left out is shown for the tool
// alone, and results are held to it all the same.
type OutputSchemas uint8

const (
	// AllOutputSchemas shows every output schema.
	AllOutputSchemas OutputSchemas = iota
	// BoundedOutputSchemas leaves out those of more than maxListedOutput bytes, and those that contain themselves by $ref:
	// a client exists that drops all tools of a server for one of them.
	BoundedOutputSchemas
	// NoOutputSchemas shows none.
	NoOutputSchemas
)

// parseOutputSchemas reads the name of one of these.
func parseOutputSchemas(name string) (OutputSchemas, error) {
	at := slices.Index([]string{"all", "bounded", "none"}, name)
	if at < 0 {
		return 0, fmt.Errorf("catalog: unknown output schemas %q; use all, bounded or none", name)
	}
	return OutputSchemas(at), nil
}

// ListForm is how a list shows the schemas of its tools. The zero value shows all of them, as the tool alone is shown. It is
// for lists that models read; a list for another sidecar has to be whole.
//
// Neither fingerprints nor digests depend on it.
type ListForm struct {
	Outputs OutputSchemas
	// SharedRefs puts messages that a schema repeats into $defs where that is smaller.
	SharedRefs bool
}

// Input returns the input schema of an entry.
func (f ListForm) Input(t *Tool) json.RawMessage {
	if f.SharedRefs {
		return t.Input.Shared()
	}
	return t.Input.Advertised()
}

// Output returns the output schema of an entry, or nil if the entry shows none.
func (f ListForm) Output(t *Tool) json.RawMessage {
	if f.Outputs == NoOutputSchemas || !t.HasOutput() {
		return nil
	}
	var out json.RawMessage
	if f.SharedRefs {
		out = t.Output.Shared()
	} else {
		out = t.Output.Advertised()
	}
	if f.Outputs == BoundedOutputSchemas && (len(out) > maxListedOutput || schema.IsRecursive(out)) {
		return nil
	}
	return out
}

// ListForm returns how lists show the schemas.
func (c *Catalog) ListForm() ListForm { return c.listed }

// HasOwnTitle reports whether the title says more than the name of the tool does.
func (t *Tool) HasOwnTitle() bool {
	title := lettersOf(t.Title)
	return title != "" && !strings.HasSuffix(lettersOf(t.Name), title)
}

// lettersOf are the letters and digits of a text in lower case.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}

// lists are the lists that a catalog returns, sorted by name. Immutable.
type lists struct {
	visible, all []*Tool
	services     []Service
}

const (
	// nearestInput bounds the part of an unknown name that is compared: twice the longest name in MCP form, so that a
	// name with a prefix still finds its tool, while a name of a megabyte costs no more than one of 128 bytes.
	nearestInput = 2 * mcpNameLimit
	// nearestShare is the part of a name that may differ before it is another name altogether: one character in three.
	nearestShare = 3
)

// Nearest returns the canonical names of at most n listed tools with names similar to the given one, nearest first, ties
// by name. It returns none if nothing is similar. It compares both forms and ignores case. A name that matches the end of
// a tool's name (the caller left out the service) counts as similar. The time is bounded by the number of tools,
// whatever the name is.
func (c *Catalog) Nearest(name string, n int) []string { return nearestOf(c.Tools(), name, n) }

// nearestOf is Nearest among some tools.
func nearestOf(tools []*Tool, name string, n int) []string {
	if n <= 0 || name == "" {
		return nil
	}
	if len(name) > nearestInput {
		name = name[:nearestInput]
	}
	asked := flatName(name)
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	var rows editRows
	for _, t := range tools {
		d, near := rows.near(asked, strings.ReplaceAll(t.Name, ".", "_"))
		if t.Native {
			// Its name in MCP is no form of the canonical one.
			if other, isNearer := rows.near(asked, flatName(t.MCPName)); isNearer && (!near || other < d) {
				d, near = other, true
			}
		}
		if near {
			found = append(found, candidate{t.Name, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	out := make([]string, 0, min(n, len(found)))
	for _, f := range found[:min(n, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// flatName makes names comparable across forms, spellings and cases: GetFeature, get-feature and get.feature meet.
func flatName(name string) string {
	if strings.ContainsAny(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		name = snakeCase(name)
	}
	return strings.NewReplacer(".", "_", "-", "_", "/", "_", ":", "_").Replace(name)
}

// isTail reports whether the one name is the other one's last words, as get_feature is of route_guide_get_feature.
func isTail(asked, known string) bool {
	return strings.HasSuffix(known, "_"+asked) || strings.HasSuffix(asked, "_"+known)
}

// editRows is the working memory of distance, reused from name to name.
type editRows struct{ before, last, next []int }

// near is how far a known name is from the one that was asked for, and whether that is near.
func (r *editRows) near(asked, known string) (int, bool) {
	if len(known) > nearestInput {
		known = known[:nearestInput]
	}
	most := max(len(asked), len(known)) / nearestShare
	d, near := r.distance(asked, known, most)
	if !near && isTail(asked, known) {
		d, near = most+1, true
	}
	return d, near
}

// distance is the number of insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal
// string alignment), and whether it is at most the given bound. It gives up as soon as it cannot be.
func (r *editRows) distance(a, b string, most int) (int, bool) {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return 0, false
	}
	width := len(b) + 1
	if cap(r.last) < width {
		r.before, r.last, r.next = make([]int, width), make([]int, width), make([]int, width)
	}
	before, last, next := r.before[:width], r.last[:width], r.next[:width]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		least := i
		for j := 1; j < width; j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			best := min(last[j]+1, next[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				best = min(best, before[j-2]+1)
			}
			next[j] = best
			least = min(least, best)
		}
		if least > most {
			return 0, false
		}
		before, last, next = last, next, before
	}
	return last[width-1], last[width-1] <= most
}
