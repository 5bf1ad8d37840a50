// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

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
		out.alias = b.prefixed(CanonicalName(md)) // as it would be without the other versions
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
	if other := b.renamed[string(md.Parent().FullName())]; other != "" {
		name := b.prefixed(other + "." + snakeCase(string(md.Name())))
		return name, name
	}
	short, long = canonicalNames(string(md.Parent().Name()), string(md.Name()))
	if version := b.versions[string(md.Parent().FullName())]; version != "" {
		short, long = withVersion(short, version), withVersion(long, version)
	}
	return b.prefixed(short), b.prefixed(long)
}

// prefixed is a canonical name of a tool of the backend.
func (b *builder) prefixed(name string) string {
	if b.prefix == "" || name == "" {
		return name
	}
	return b.prefix + "." + name
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

// edition is one version of a service that several packages have, where only the version in their names differs:
// shop.v1.Orders and shop.v1beta1.Orders, api_v2.Orders and api_v3.Orders, shop.Orders and shop.v2.Orders.
type edition struct {
	service protoreflect.ServiceDescriptor
	version string // empty where the package says none
	rank    [5]int
}

// versionSegment is the part of a package's name that says its version, as in v1, v2beta, v1p3alpha2.
var versionSegment = regexp.MustCompile(`^v(\d{1,6})(?:p(\d{1,6}))?(?:(test|eap|alpha|beta)(\d{0,6}))?$`)

// versionSuffix is a part that ends in its version, as in api_v2 and shopv1.
var versionSuffix = regexp.MustCompile(`^(.+?)_?(v\d{1,6}(?:p\d{1,6})?(?:(?:test|eap|alpha|beta)\d{0,6})?)$`)

// unversioned ranks above all versions: a package without one has none to put in a name.
var unversioned = [5]int{2, 0, 0, 0, 0}

// rankOf orders versions, the preferred one highest: stable ones before all others, then by number (v2 over v1, v1p1beta1
// over v1beta1), then by stage (beta over alpha), then by the number of the stage.
func rankOf(segment string) (rank [5]int, ok bool) {
	m := versionSegment.FindStringSubmatch(segment)
	if m == nil {
		return rank, false
	}
	number := func(text string) int { n, _ := strconv.Atoi(text); return n } // absent is 0, others are short digits
	stage := slices.Index([]string{"test", "eap", "alpha", "beta"}, m[3])
	isStable := 0
	if m[3] == "" {
		isStable = 1
	}
	return [5]int{isStable, number(m[1]), number(m[2]), stage, number(m[4])}, true
}

// editionOf tells the version of a service by the last segment of its package that says one, and its family: its full name
// without that.
func editionOf(of protoreflect.ServiceDescriptor) (family string, e edition) {
	segments := strings.Split(string(of.FullName()), ".")
	for at, segment := range slices.Backward(segments[:len(segments)-1]) {
		rest, version := segments[at:at], segment // the segment is the version
		if m := versionSuffix.FindStringSubmatch(segment); m != nil {
			rest, version = []string{m[1]}, m[2]
		}
		if rank, isVersion := rankOf(version); isVersion {
			return strings.Join(slices.Concat(segments[:at], rest, segments[at+1:]), "."), edition{of, version, rank}
		}
	}
	return string(of.FullName()), edition{of, "", unversioned}
}

// tellVersions finds the services whose tools have a version in their names: those of which a preferred version has a method
// of the same name. All their tools have it then, so that the tools of one service keep together. It depends only on which
// services there are.
func (b *builder) tellVersions(offers []offer) {
	families := map[string][]edition{}
	for _, of := range offers {
		if !of.isTyped && b.renamed[string(of.service.FullName())] == "" {
			family, e := editionOf(of.service)
			families[family] = append(families[family], e)
		}
	}
	for _, editions := range families {
		if len(editions) == 1 {
			continue
		}
		slices.SortStableFunc(editions, func(a, b edition) int { return slices.Compare(b.rank[:], a.rank[:]) })
		taken := map[string]bool{}
		for _, e := range editions {
			methods, clashes := e.service.Methods(), false
			for i := range methods.Len() {
				clashes = clashes || taken[snakeCase(string(methods.Get(i).Name()))]
			}
			for i := range methods.Len() {
				taken[snakeCase(string(methods.Get(i).Name()))] = true
			}
			if clashes && e.version != "" {
				if b.versions == nil {
					b.versions = map[string]string{}
				}
				b.versions[string(e.service.FullName())] = "_" + e.version
			}
		}
	}
	for _, service := range shown.SortedKeys(b.versions) {
		b.warn(service, fmt.Sprintf("its tools have %s in their names, because another version of the service has tools of the same "+
			"names; set (outrigger.v1.tool).name to choose others", b.versions[service]))
	}
}

// withVersion puts a version behind the service in a canonical name.
func withVersion(name, version string) string {
	service, method, _ := strings.Cut(name, ".")
	return service + version + "." + method
}

// rivalName is the name that a rival gives a tool. One that agents cannot call is omitted, with a warning.
func (b *builder) rivalName(md protoreflect.MethodDescriptor, said schema.RivalTool) string {
	name := said.Name
	if name == "" {
		switch said.Of {
		case schema.RivalProtoMCP:
			name = string(md.Parent().Name()) + "_" + string(md.Name())
		case schema.RivalGateway:
			name = string(md.Name())
		case schema.RivalMCP:
			name = rivalMCPName(md)
		}
	}
	if name == "" {
		return ""
	}
	name = said.Prefix + name
	if b.prefix != "" {
		name = strings.ReplaceAll(b.prefix, ".", "_") + "_" + name
	}
	// A dot is refused by model providers, and replaced as in names of ours.
	if name = strings.ReplaceAll(name, ".", "_"); !isMCPName(name) || len(name) > mcpNameLimit {
		b.warn(methodName(md), fmt.Sprintf("the name %q of its annotation is not used: want at most %d letters, digits, \"_\" and \"-\"", shown.Clip(name), mcpNameLimit))
		return ""
	}
	return name
}

// rivalMCPName is the name that mcp.v1 makes of a method: shop.v1.OrderDesk/GetOrder is order_desk-get_order_v1. Empty where the
// package says no version.
func rivalMCPName(md protoreflect.MethodDescriptor) string {
	version := string(md.ParentFile().Package().Name())
	if !versionSegment.MatchString(version) {
		return ""
	}
	return snakeCase(string(md.Parent().Name())) + "-" + snakeCase(string(md.Name())) + "_" + version
}

// settleRivalNames gives tools the derived names again whose rival names others have too. A rival would leave out all but one.
func (b *builder) settleRivalNames() {
	if b.world.rivals == 0 {
		return
	}
	claims := map[string]int{}
	for _, t := range b.tools {
		if !t.Hidden {
			claims[t.MCPName]++
			if t.Name != t.MCPName {
				claims[t.Name]++
			}
		}
	}
	for _, t := range b.tools {
		if derived := MCPName(t.Name); !t.Hidden && !t.Native && t.MCPName != derived && claims[t.MCPName] > 1 {
			b.warn(t.Subject(), fmt.Sprintf("the name %q of its annotation is another tool's too; it is %s", t.MCPName, derived))
			t.MCPName = derived
		}
	}
}
