// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Resources are the methods of a catalog that resources come from. Immutable and safe for concurrent use.
type Resources struct {
	fixed, templates, listings []*ResourceMethod // by URI or template, then procedure
	byURI                      map[string]*ResourceMethod
	byPrecision                []*ResourceMethod // templates, the most specific first
	fingerprint                string
}

// Fixed are the methods that are one resource each, sorted by URI.
func (r *Resources) Fixed() []*ResourceMethod { return r.fixed }

// Templates are the methods that are a family of resources each, sorted by template.
func (r *Resources) Templates() []*ResourceMethod { return r.templates }

// Listings are the methods that list resources, sorted by template.
func (r *Resources) Listings() []*ResourceMethod { return r.listings }

// IsEmpty reports whether no method is a source of resources.
func (r *Resources) IsEmpty() bool { return len(r.fixed)+len(r.templates)+len(r.listings) == 0 }

// Fingerprint is the SHA-256 over all that callers can see of the resources before any is read, 64 lower-case hex digits.
func (r *Resources) Fingerprint() string { return r.fingerprint }

// Match finds the method that reads a URI, and the values of its template's variables. A URI that is given in full wins
// over templates, and of those the one with the most characters given.
//
// URIs are compared as they are written: no case is folded, no dot segment is resolved, and nothing is decoded before
// the template is chosen. So a value reaches the method whatever it holds, and never chooses the method; a "/" within
// it has to be percent-encoded. Values are not empty. Whether they fit the method's fields is for Request to say.
func (r *Resources) Match(uri string) (method *ResourceMethod, variables map[string]string, ok bool) {
	if len(uri) > contract().uri {
		return nil, nil, false
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

// newResources orders the methods. Two that could both read one URI are a problem, unless one is more specific.
func newResources(methods []*ResourceMethod) (*Resources, []Problem) {
	r := &Resources{byURI: map[string]*ResourceMethod{}}
	slices.SortFunc(methods, func(a, b *ResourceMethod) int {
		return cmp.Or(cmp.Compare(a.template.text, b.template.text), cmp.Compare(a.Tool.Method.Procedure, b.Tool.Method.Procedure))
	})
	var problems []Problem
	ambiguous := func(one, two *ResourceMethod) {
		problems = append(problems, Problem{two.Tool.subject(), fmt.Sprintf(
			"option (outrigger.v1.resource) or overlay: %q can be the same URI as %q of %s, and neither is more specific; change one of them",
			two.template.text, one.template.text, one.Tool.subject())})
	}
	for _, m := range methods {
		switch {
		case m.items != nil:
			r.listings = append(r.listings, m)
		case len(m.variables) == 0:
			r.fixed = append(r.fixed, m)
			if other := r.byURI[m.template.text]; other != nil {
				ambiguous(other, m)
			}
			r.byURI[m.template.text] = m
		default:
			r.templates = append(r.templates, m)
		}
	}
	r.byPrecision = slices.Clone(r.templates)
	slices.SortStableFunc(r.byPrecision, func(a, b *ResourceMethod) int { return cmp.Compare(b.template.literals, a.template.literals) })
	for i, m := range r.byPrecision {
		for _, other := range r.byPrecision[i+1:] {
			if other.template.literals < m.template.literals {
				break
			}
			if m.template.overlaps(other.template) {
				ambiguous(m, other)
			}
		}
	}
	r.fingerprint = resourcesFingerprint(methods)
	return r, problems
}

// unreadable are the listings whose resources no method reads, as far as can be told.
func (r *Resources) unreadable() []*ResourceMethod {
	return slices.DeleteFunc(slices.Clone(r.listings), func(listing *ResourceMethod) bool {
		return slices.ContainsFunc(slices.Concat(r.fixed, r.templates), func(m *ResourceMethod) bool {
			return m.template.overlaps(listing.template)
		})
	})
}

// resourcesFingerprint is the SHA-256 over what callers can see of the methods, which are sorted.
func resourcesFingerprint(methods []*ResourceMethod) string {
	hash := sha256.New()
	for _, m := range methods {
		for _, seen := range []proto.Message{m.options, m.resource, m.family} {
			raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(seen)
			if err != nil {
				raw = []byte(err.Error()) // texts of descriptors are UTF-8, so there is none
			}
			fmt.Fprintf(hash, "%s %d\n", m.Tool.Method.Procedure, len(raw))
			hash.Write(raw)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// ResourceMethod is a method that resources come from: one, a family, or a list. Immutable and safe for concurrent use.
type ResourceMethod struct {
	// Tool is the method's tool, whose In and Out do the transcoding. It may be hidden.
	Tool *Tool

	options  *outriggerv1.ResourceOptions
	template *uriTemplate
	resource *outriggerv1.Resource
	family   *outriggerv1.ResourceTemplate

	// variables are those of the template, as fields of the request, or of an item of a list.
	variables []resourceVariable
	// arguments are the members of the request that the variables fill in.
	arguments []*argument
	// content and mimeType lead to fields of the response; nil where the whole response is the contents.
	content, mimeType *responseField
	// items leads to the list of a listing method, label to the name of an item; nil where there is none.
	items, label *responseField
}

// Resource describes the resource of a method among Fixed; nil for all others. Not to be changed.
func (m *ResourceMethod) Resource() *outriggerv1.Resource { return m.resource }

// Template describes the resources of a method among Templates; nil for all others. Not to be changed.
func (m *ResourceMethod) Template() *outriggerv1.ResourceTemplate { return m.family }

// URITemplate is the template of a method's URIs, which is a URI itself for a method among Fixed.
func (m *ResourceMethod) URITemplate() string { return m.template.text }
