// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

const (
	// mcpNameLimit is the longest tool name that every model provider accepts.
	mcpNameLimit = 64
	// hashDigits is how many hex digits of a name's SHA-256 stand in for what was cut off.
	hashDigits = 8
)

// CanonicalName returns the canonical name of a method, before collisions are considered. It is the service's simple name
// without a Service suffix and the method's name, both in snake case, joined by a dot: "route_guide.get_feature".
// The package is left out, because it rarely tells two tools apart and always costs a model tokens. If only the package
// tells two tools apart, the build reports a collision.
func CanonicalName(md protoreflect.MethodDescriptor) string {
	short, _ := canonicalNames(string(md.Parent().Name()), string(md.Name()))
	return short
}

// MCPName returns the form of a canonical name that MCP callers see, with "_" for ".", because model providers refuse
// dots. A name longer than 64 characters is cut and ends in an underscore and 8 hex digits of the SHA-256 of the whole
// canonical name. Long names with a common prefix therefore stay distinct.
func MCPName(canonical string) string {
	flat := strings.ReplaceAll(canonical, ".", "_")
	if len(flat) <= mcpNameLimit {
		return flat
	}
	sum := sha256.Sum256([]byte(canonical))
	digits := hex.EncodeToString(sum[:])[:hashDigits]
	return flat[:mcpNameLimit-hashDigits-1] + "_" + digits
}

// IsCanonicalName reports whether the name matches ^[a-z0-9_]+(\.[a-z0-9_]+)+$, the pattern of canonical names.
func IsCanonicalName(name string) bool {
	segments, length := 0, 0
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '.':
			if length == 0 {
				return false
			}
			segments, length = segments+1, 0
		case isLower(c), isDigit(c), c == '_':
			length++
		default:
			return false
		}
	}
	return segments > 0 && length > 0
}

// snakeCase turns a Protobuf identifier into lower-case words joined by underscores. A word begins at an upper-case
// letter that follows a lower-case letter or a digit, and at the last upper-case letter of an acronym that a lower-case
// letter follows: GetHTTPInfo is get_http_info. A digit belongs to the word before it: GetV2Item is get_v2_item.
// Underscores stay as they are, so that Get and Get_ remain two names.
func snakeCase(ident string) string {
	out := make([]byte, 0, len(ident)+8)
	for i := range len(ident) {
		if startsWord(ident, i) {
			out = append(out, '_')
		}
		c := ident[i]
		if isUpper(c) {
			c += 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}

// words splits an identifier where snakeCase would put or find an underscore, keeping the case of the letters.
func words(ident string) []string {
	var out []string
	start := 0
	for i := range len(ident) {
		switch {
		case ident[i] == '_':
			if i > start {
				out = append(out, ident[start:i])
			}
			start = i + 1
		case startsWord(ident, i):
			if i > start {
				out = append(out, ident[start:i])
			}
			start = i
		}
	}
	if start < len(ident) {
		out = append(out, ident[start:])
	}
	return out
}

// humanName makes a title of an identifier: "GetHTTPInfo" is "Get HTTP info".
func humanName(ident string) string {
	parts := words(ident)
	for i, w := range parts {
		isAcronym := len(w) > 1 && strings.ToUpper(w) == w
		switch {
		case isAcronym:
		case i == 0:
			parts[i] = strings.ToUpper(w[:1]) + strings.ToLower(w[1:])
		default:
			parts[i] = strings.ToLower(w)
		}
	}
	if len(parts) == 0 {
		return ident
	}
	return strings.Join(parts, " ")
}

// startsWord reports whether a new word begins at i without an underscore before it.
func startsWord(ident string, i int) bool {
	if i == 0 || !isUpper(ident[i]) {
		return false
	}
	before := ident[i-1]
	if isLower(before) || isDigit(before) {
		return true
	}
	return isUpper(before) && i+1 < len(ident) && isLower(ident[i+1])
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// canonicalNames are the names that a method may have: without its service's Service suffix, and with it. They are the
// same where there is no suffix, or nothing in front of it.
func canonicalNames(service, method string) (short, long string) {
	service, method = snakeCase(service), snakeCase(method)
	long = service + "." + method
	if without, ok := strings.CutSuffix(service, serviceSuffix); ok && strings.Trim(without, "_") != "" {
		return without + "." + method, long
	}
	return long, long
}

// serviceSuffix ends the names of most services, says nothing, and costs a model tokens in every tool's name.
const serviceSuffix = "_service"

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
		if !of.isTyped {
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

const (
	// nativeNameLimit is the longest name that MCP admits for a tool (MCP 2026-07-28, Tools).
	nativeNameLimit = 128
	// maxServiceBytes is the most of a backend's name that its tools' names begin with: half of a canonical name.
	maxServiceBytes = 64
	// unnamedService represents a native backend whose name has nothing that a canonical name can be made of.
	unnamedService = "native"
)

// isMCPName reports whether MCP admits the name for a tool: 1 to 128 of A-Z a-z 0-9 _ - and dots.
func isMCPName(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isUpper(c) && !isLower(c) && !isDigit(c) && strings.IndexByte("_-.", c) < 0 {
			return false
		}
	}
	return name != "" && len(name) <= nativeNameLimit
}

// nativeService is the first part of the canonical names of a native backend's tools, made of the backend's name: in
// snake case, with an underscore for everything else. "Weather Desk" is weather_desk.
func nativeService(name string) string {
	flat := strings.Map(func(r rune) rune {
		if r < 0x80 && (isUpper(byte(r)) || isLower(byte(r)) || isDigit(byte(r))) {
			return r
		}
		return '_'
	}, name)
	var parts []string
	for part := range strings.SplitSeq(flat, "_") {
		if part != "" {
			parts = append(parts, snakeCase(part))
		}
	}
	if len(parts) == 0 {
		return unnamedService
	}
	service := strings.Join(parts, "_")
	return service[:min(len(service), maxServiceBytes)]
}

// nativeName is the canonical name of a native tool: the declared one where that is canonical already, else the service
// before it, in snake case. Underscores stay as they are, hyphens become such, and dots part it further. A name over the
// limit is cut, and ends as MCPName has it.
func nativeName(service, declared string, limit int) string {
	if IsCanonicalName(declared) && len(declared) <= limit {
		return declared
	}
	name := service
	for segment := range strings.SplitSeq(strings.ReplaceAll(declared, "-", "_"), ".") {
		if segment != "" {
			name += "." + snakeCase(segment)
		}
	}
	if name == service {
		name += "._"
	}
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail := "_" + hex.EncodeToString(sum[:])[:hashDigits]
	return name[:max(0, limit-len(tail))] + tail
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
