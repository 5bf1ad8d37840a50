// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// edition is one version of a service that several packages have, where only the version in their names differs:
// shop.v1.Orders and shop.v1beta1.Orders.
type edition struct {
	service protoreflect.FullName
	version string
	rank    [5]int
	methods []string // in snake case, sorted
}

// versionSegment is the part of a package's name that says its version, as in v1, v2beta, v1p3alpha2.
var versionSegment = regexp.MustCompile(`^v(\d{1,6})(?:p(\d{1,6}))?(?:(test|eap|alpha|beta)(\d{0,6}))?$`)

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
func editionOf(of protoreflect.ServiceDescriptor) (family string, e edition, ok bool) {
	segments := strings.Split(string(of.FullName()), ".")
	for at, segment := range slices.Backward(segments[:len(segments)-1]) {
		rank, isVersion := rankOf(segment)
		if !isVersion {
			continue
		}
		e = edition{service: of.FullName(), version: segment, rank: rank, methods: make([]string, of.Methods().Len())}
		for i := range e.methods {
			e.methods[i] = snakeCase(string(of.Methods().Get(i).Name()))
		}
		slices.Sort(e.methods)
		segments[at] = "*"
		return strings.Join(segments, "."), e, true
	}
	return "", edition{}, false
}

// tellVersions finds the services whose tools have a version in their names: those of which a higher version has a method
// of the same name. All their tools have it then, so that the tools of one service keep together. It depends only on which
// services there are.
func (b *builder) tellVersions(offers []offer) {
	families := map[string][]edition{}
	for _, of := range offers {
		if family, e, ok := editionOf(of.service); ok && !of.isTyped {
			families[family] = append(families[family], e)
		}
	}
	for _, editions := range families {
		slices.SortFunc(editions, func(a, b edition) int { return slices.Compare(b.rank[:], a.rank[:]) })
		for i, e := range editions {
			if slices.ContainsFunc(editions[:i], e.clashes) {
				if b.versions == nil {
					b.versions = map[string]string{}
				}
				b.versions[string(e.service)] = "_" + e.version
			}
		}
	}
	for _, service := range shown.SortedKeys(b.versions) {
		b.warn(service, fmt.Sprintf("its tools have %s in their names, because a higher version of the service has tools of the same "+
			"names; set (outrigger.v1.tool).name to choose others", b.versions[service]))
	}
}

// clashes reports whether two versions have a method of one name.
func (e edition) clashes(higher edition) bool {
	return slices.ContainsFunc(e.methods, func(name string) bool {
		_, found := slices.BinarySearch(higher.methods, name)
		return found
	})
}

// withVersion puts a version behind the service in a canonical name.
func withVersion(name, version string) string {
	service, method, _ := strings.Cut(name, ".")
	return service + version + "." + method
}
