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
