// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

// Set holds the methods of a catalog that provide resources. It is immutable and safe for concurrent use.
type Set struct {
	fixed, templates, listings []*Method // by URI or template, then procedure
	byURI                      map[string]*Method
	watches                    map[string]*Method // by URI without a query
	byPrecision                []*Method          // templates, the most specific first
	fingerprint                string
}

// Fixed returns the methods that each provide one resource, sorted by URI. A watch may be among Templates, too.
func (r *Set) Fixed() []*Method { return r.fixed }

// Templates returns the methods that each provide a family of resources, sorted by template.
func (r *Set) Templates() []*Method { return r.templates }

// Listings returns the methods that list resources, sorted by template.
func (r *Set) Listings() []*Method { return r.listings }

// HasWatches reports whether there is a watch.
func (r *Set) HasWatches() bool { return len(r.watches) > 0 }

// IsEmpty reports whether no method provides resources.
func (r *Set) IsEmpty() bool { return len(r.fixed)+len(r.templates)+len(r.listings) == 0 }

// Fingerprint returns the SHA-256 of everything visible to callers before a resource is read, as 64 lowercase hex digits.
func (r *Set) Fingerprint() string { return r.fingerprint }

// Match finds the method that reads a URI, and the values of its template's variables. An exact URI wins over
// templates. Among templates, the one with the most literal characters wins.
//
// URIs are compared as written: no case folding, no resolution of dot segments, and no decoding before the template is
// chosen. A value therefore reaches the method unchanged and never affects which method is chosen. A "/" within a value
// must be percent-encoded. Values are not empty. Request checks whether they fit the method's fields.
//
// A watch is found by its URI without the query. There are no variables then: [Method.WatchRequest] reads the query.
func (r *Set) Match(uri string) (method *Method, variables map[string]string, ok bool) {
	if len(uri) > limits().uri {
		return nil, nil, false
	}
	if base, _, _ := strings.Cut(uri, "?"); r.watches[base] != nil {
		return r.watches[base], nil, true
	}
	if m := r.byURI[uri]; m != nil {
		return m, nil, true
	}
	for _, m := range r.byPrecision {
		if variables, ok := m.template.match(uri); ok {
			return m, variables, true
		}
	}
	return nil, nil, false
}

// Ambiguity is a pair of methods that could both read the same URI, neither of them more specific.
type Ambiguity struct{ One, Two *Method }

// NewSet orders the methods and returns the ambiguous pairs among them.
func NewSet(methods []*Method) (*Set, []Ambiguity) {
	r := &Set{byURI: map[string]*Method{}, watches: map[string]*Method{}}
	slices.SortFunc(methods, func(a, b *Method) int {
		return cmp.Or(cmp.Compare(a.template.text, b.template.text), cmp.Compare(a.rpc.Procedure, b.rpc.Procedure))
	})
	methods = slices.Compact(methods)
	var ambiguous []Ambiguity
	for _, m := range methods {
		switch {
		case m.isWatch:
			r.addWatch(m)
		case m.items != nil:
			r.listings = append(r.listings, m)
		case len(m.variables) == 0:
			r.fixed = append(r.fixed, m)
			if other := r.byURI[m.template.text]; other != nil {
				ambiguous = append(ambiguous, Ambiguity{other, m})
			}
			r.byURI[m.template.text] = m
		default:
			r.templates = append(r.templates, m)
		}
	}
	r.byPrecision = slices.DeleteFunc(slices.Clone(r.templates), (*Method).IsWatch)
	slices.SortStableFunc(r.byPrecision, func(a, b *Method) int { return cmp.Compare(b.template.literals, a.template.literals) })
	for i, m := range r.byPrecision {
		for _, other := range r.byPrecision[i+1:] {
			if other.template.literals < m.template.literals {
				break
			}
			if m.template.overlaps(other.template) {
				ambiguous = append(ambiguous, Ambiguity{m, other})
			}
		}
	}
	r.fingerprint = fingerprintOf(methods)
	return r, ambiguous
}

func (r *Set) addWatch(m *Method) {
	r.watches[m.template.text] = m
	if m.resource != nil {
		r.fixed = append(r.fixed, m)
	}
	if m.family != nil {
		r.templates = append(r.templates, m)
	}
}

// Only returns the subset of methods that keep accepts. A subset of an unambiguous set is never ambiguous.
func (r *Set) Only(keep func(m *Method) bool) *Set {
	methods := slices.DeleteFunc(slices.Concat(r.fixed, r.templates, r.listings), func(m *Method) bool { return !keep(m) })
	out, _ := NewSet(methods)
	return out
}

// Unreadable returns the listings whose resources no method reads, as far as can be determined.
func (r *Set) Unreadable() []*Method {
	return slices.DeleteFunc(slices.Clone(r.listings), func(listing *Method) bool {
		return slices.ContainsFunc(slices.Concat(r.fixed, r.templates), func(m *Method) bool {
			return m.template.overlaps(listing.template)
		})
	})
}

// fingerprintOf is the SHA-256 over what callers can see of the methods, which are sorted.
func fingerprintOf(methods []*Method) string {
	hash := sha256.New()
	for _, m := range methods {
		for _, seen := range []proto.Message{m.options, m.resource, m.family} {
			raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(seen)
			if err != nil {
				raw = []byte(err.Error()) // texts of descriptors are UTF-8, so there is none
			}
			fmt.Fprintf(hash, "%s %d\n", m.rpc.Procedure, len(raw))
			hash.Write(raw)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}
