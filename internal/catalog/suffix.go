// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// aliasOf is the other spelling of a canonical name that was derived from a method; empty where it was not, or where
// there is none.
func aliasOf(name, service, method string) string {
	short, long := canonicalNames(service[strings.LastIndexByte(service, '.')+1:], method)
	switch {
	case short == long:
		return ""
	case name == short:
		return long
	case name == long:
		return short
	}
	return ""
}

// derivedNames are the canonical name that a method has if none is declared, and its alias.
type derivedNames struct{ name, alias string }

// forms are all forms of both.
func (n derivedNames) forms() []string {
	out := []string{n.name, MCPName(n.name)}
	if n.alias != "" {
		out = append(out, n.alias, MCPName(n.alias))
	}
	return out
}

// derivedNames says what keepSuffixes decided. An alias that is another method's name is none, so that a glob over that
// name does not mean both.
func (b *builder) derivedNames(md protoreflect.MethodDescriptor) derivedNames {
	short, long := b.canonicalNames(md)
	out := derivedNames{short, long}
	if b.suffixed[string(md.Parent().FullName())] {
		out = derivedNames{long, short}
	}
	if b.versions[string(md.Parent().FullName())] != "" {
		out.alias = CanonicalName(md) // as it would be without the other versions
	}
	if _, isTaken := b.plain[MCPName(out.alias)]; isTaken || out.name == out.alias {
		out.alias = ""
	}
	return out
}

// canonicalNames are those of a method, with its service's version where tellVersions decided so.
func (b *builder) canonicalNames(md protoreflect.MethodDescriptor) (short, long string) {
	if known := b.claims[string(md.Parent().FullName())]; known != nil {
		return known.names[md.Index()].short, known.names[md.Index()].long
	}
	short, long = canonicalNames(string(md.Parent().Name()), string(md.Name()))
	if version := b.versions[string(md.Parent().FullName())]; version != "" {
		return withVersion(short, version), withVersion(long, version)
	}
	return short, long
}

// claim is a method's wish for its short name.
type claim struct{ short, long string }

// claims are those of the methods of a service, which has a version in its names or none.
type claims struct {
	service, version string
	names            []claim
}

// claim makes the claims of a service, or takes them over from the last build.
func (b *builder) claim(of protoreflect.ServiceDescriptor) *claims {
	service := string(of.FullName())
	version := b.versions[service]
	if b.before != nil && b.linked.isKept(of.ParentFile().Path()) {
		if known := b.before.claims[service]; known != nil && known.version == version {
			return known
		}
	}
	out := &claims{service: service, version: version, names: make([]claim, of.Methods().Len())}
	for i := range out.names {
		out.names[i].short, out.names[i].long = b.canonicalNames(of.Methods().Get(i))
	}
	return out
}

// keepSuffixes finds the services that keep the suffix in all their names: those of which one method would have, without
// it, the name of a method that has another one with it. Names are compared in MCP's form, because equal canonical names
// are equal there too. Both services keep it where both have one. It depends only on which services there are, not on
// their order, on what is hidden or on which methods are chosen.
func (b *builder) keepSuffixes(offers []offer) {
	isUseful := len(b.versions) > 0
	all, n := map[string]*claims{}, 0
	for _, of := range offers {
		if of.isTyped {
			continue
		}
		c := b.claim(of.service)
		all[c.service] = c
		n += len(c.names)
		isUseful = isUseful || slices.ContainsFunc(c.names, func(c claim) bool { return c.short != c.long })
	}
	b.claims = all
	if !isUseful {
		return // as in most catalogs
	}
	b.suffixed = map[string]bool{}
	for b.keepMore(n) {
	}
}

// holder is a method that would have a name.
type holder struct {
	*claims

	method int
}

func (h holder) claim() claim { return h.names[h.method] }

// keepMore finds services that have to keep the suffix in view of those that do so already. A name that comes back may
// be somebody else's short name, so it is asked until nothing changes. n is how many names there are. The names of the
// last round are those that methods have.
func (b *builder) keepMore(n int) bool {
	isKept := maps.Clone(b.suffixed)
	first, others := make(map[string]holder, n), map[string][]holder{}
	for _, c := range b.claims {
		for i := range c.names {
			name, h := MCPName(c.names[i].name(isKept[c.service])), holder{c, i}
			if _, isTaken := first[name]; isTaken {
				others[name] = append(others[name], h)
			} else {
				first[name] = h
			}
		}
	}
	b.plain = first
	found := false
	for name, more := range others {
		same := slices.Concat(more, []holder{first[name]})
		for _, h := range same {
			c := h.claim()
			if c.name(isKept[h.service]) != c.long && slices.ContainsFunc(same, func(o holder) bool { return MCPName(o.claim().long) != MCPName(c.long) }) {
				found, b.suffixed[h.service] = true, true
			}
		}
	}
	return found
}

func (c claim) name(isSuffixed bool) string {
	if isSuffixed {
		return c.long
	}
	return c.short
}

// settleNames returns the collisions, or the tools by their names, and warns of every suffix that stays. A declared name
// never changes a derived one: an entry of the overlay for one tool would otherwise rename all others of a service.
func (b *builder) settleNames() ([]Collision, map[string]*Tool) {
	for _, service := range shown.SortedKeys(b.suffixed) {
		b.warn(service, "its tools keep the Service suffix in their names, because without it one would have the name of "+
			"another tool; set (outrigger.v1.tool).name to choose names that stay")
	}
	return findCollisions(b.tools)
}
