// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// Part is one of several backends whose catalogs a [Live] shows as one.
type Part struct {
	// Name is the name of the backend, which its catalogs have as BuildOptions.Backend.
	Name string
	Live *Live
}

const (
	// joinSettle is how long the first catalog waits for further parts after one has tools: the backends of one machine start
	// together, and each change makes clients list again.
	joinSettle = time.Second
	// joinGap is the shortest time between two joins: parts that change together become one change.
	joinGap = 100 * time.Millisecond
)

// NewJoint makes a Live that shows the catalogs of parts as one. Parts load and fail by themselves: one that is away keeps its last
// good tools, and takes nothing from the others. Of two tools of one name, that of the earlier part is shown, except that a name never
// changes its backend while that has the tool. Options of the build but for the lock are those of the parts.
func NewJoint(parts []Part, o LiveOptions) *Live {
	l := NewLive(nil, o)
	l.parts, l.stirred = slices.Clone(parts), make(chan struct{}, 1)
	return l
}

// runParts is Run of a Live that has parts. It returns an error if no part can ever have a catalog.
func (l *Live) runParts(ctx context.Context) error {
	ended := make(chan error, len(l.parts))
	for _, part := range l.parts {
		defer part.Live.OnChange(func(_, _ *Catalog) { l.stir() })()
		go func() { ended <- part.Live.Run(ctx) }()
	}
	left, hopeless := len(l.parts), []error(nil)
	finish := func(err error) {
		if left--; err != nil {
			hopeless = append(hopeless, err)
			l.stir()
		}
	}
	defer func() {
		for left > 0 {
			finish(<-ended)
		}
	}()
	var settle <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			finish(err)
			if len(hopeless) == len(l.parts) {
				l.failed(ctx, errors.Join(hopeless...), nil)
				l.giveUp()
				return errors.Join(hopeless...)
			}
			continue
		case <-settle:
		case <-l.stirred:
			if l.Current() == nil && !l.areSettled() {
				if settle == nil {
					settle = time.After(joinSettle)
				}
				continue
			}
		}
		settle = nil
		if err := l.join(ctx); err != nil && ctx.Err() == nil {
			l.failed(ctx, err, nil)
		}
		l.sleep(ctx, joinGap)
	}
}

// stir has parts joined again, soon.
func (l *Live) stir() {
	select {
	case l.stirred <- struct{}{}:
	default:
	}
}

// areSettled reports whether each part has had tools, or has failed.
func (l *Live) areSettled() bool {
	return !slices.ContainsFunc(l.parts, func(p Part) bool {
		s := p.Live.Status()
		return !s.Ready && s.Err == nil
	})
}

// refreshParts loads all parts at once, and joins what there is. Parts that fail are an error, after the others are in use.
func (l *Live) refreshParts(ctx context.Context) error {
	errs := make([]error, len(l.parts))
	var all sync.WaitGroup
	for i, p := range l.parts {
		all.Go(func() {
			if err := p.Live.Refresh(ctx); err != nil {
				errs[i] = fmt.Errorf("backend %s: %w", p.Name, err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if slices.ContainsFunc(l.parts, func(p Part) bool { return p.Live.Current() != nil }) {
		errs = append(errs, l.join(ctx))
	}
	err := errors.Join(errs...)
	if l.onLoad != nil {
		l.onLoad(err)
	}
	return err
}

// join puts the catalogs of the parts into use that have one.
func (l *Live) join(ctx context.Context) error {
	select {
	case l.loading <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.loading }()
	by := l.plan.Load()
	l.began()
	var parts []*Catalog
	for _, p := range l.parts {
		if c := p.Live.Current(); c != nil {
			parts = append(parts, c)
		}
	}
	if len(parts) == 0 {
		return fmt.Errorf("%w: no backend has any yet", ErrEmpty)
	}
	joint, err := joined(parts, l.Current(), by.build.Limits.withDefaults().MaxTools)
	if err != nil {
		return err
	}
	return l.use(joint, by, nil)
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
	out.resources = out.jointResources(parts)
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

// Of returns the catalog of the backend that has a tool: the one that its types are in. It is c itself where there is one backend.
func (c *Catalog) Of(t *Tool) *Catalog {
	if c == nil || t == nil || c.parts[t.Method.Backend] == nil {
		return c
	}
	return c.parts[t.Method.Backend]
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
