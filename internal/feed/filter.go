// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/hub"
)

// Limits of one filter, as ChangeFilter of the contract outrigger.v1 allows.
const (
	// MaxURIs is the maximum number of resource URIs.
	MaxURIs = 1024
	// MaxTaskIDs is the maximum number of task ids.
	MaxTaskIDs = 1024
)

// Filter selects changes. The zero value selects none. This is not an error: such a
// subscription waits until it ends.
type Filter struct {
	// Tools, Prompts and Resources select changes of these lists.
	Tools, Prompts, Resources bool
	// ResourceURIs selects updates of these resources and the resources below them, at
	// most [MaxURIs]. An updated URI is at or below a URI of the filter in three cases:
	// it is the same; it begins with the filter's URI followed by one of / ? #; or it
	// begins with the filter's URI and that ends in a slash. URIs are compared byte by
	// byte (RFC 3986, section 6.2.1), without normalization.
	ResourceURIs []string
	// Scoped selects updates that are published with a scope, at most [MaxURIs].
	Scoped []Scoped
	// TaskIDs selects changes of these tasks, at most [MaxTaskIDs].
	TaskIDs []string
	// Principal is the subscriber. It does not see changes of tasks of others.
	Principal string
}

// Scoped is a resource whose updates are not for everybody. Its URI is compared as a whole.
type Scoped struct{ URI, Scope string }

// FilterError says why a filter is invalid.
type FilterError struct {
	// Field is "resource URI" or "task id". Index is the index of the element, or -1 if
	// there are too many.
	Field  string
	Index  int
	Reason string
}

// Error implements error.
func (e *FilterError) Error() string {
	if e.Index < 0 {
		return fmt.Sprintf("feed: filter: %ss: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("feed: filter: %s %d: %s", e.Field, e.Index, e.Reason)
}

// want is one thing that a filter asks for.
type want = hub.Want[topicKey]

// wants takes a filter apart. Each thing comes once.
func (f *Filter) wants() ([]want, error) {
	if err := checkNames("resource URI", f.ResourceURIs, MaxURIs, MaxURIBytes); err != nil {
		return nil, err
	}
	if err := checkNames("task id", f.TaskIDs, MaxTaskIDs, MaxTaskIDBytes); err != nil {
		return nil, err
	}
	scoped, err := distinctScoped(f.Scoped)
	if err != nil {
		return nil, err
	}
	uris, ids := distinct(f.ResourceURIs), distinct(f.TaskIDs)
	out := make([]want, 0, 3+len(uris)+len(ids)+len(scoped))
	for _, list := range []struct {
		wanted bool
		kind   Kind
	}{{f.Tools, ToolsListChanged}, {f.Prompts, PromptsListChanged}, {f.Resources, ResourcesListChanged}} {
		if list.wanted {
			out = append(out, want{Key: topicKey{kind: list.kind}})
		}
	}
	out = appendURIs(out, uris)
	for _, s := range scoped {
		out = append(out, want{Key: topicKey{kind: ResourceUpdated, name: s.URI, principal: s.Scope}})
	}
	for _, id := range ids {
		out = append(out, want{Key: topicKey{kind: TaskChanged, name: id, principal: f.Principal}})
	}
	return out, nil
}

func checkNames(field string, names []string, most, mostBytes int) error {
	if len(names) > most {
		return &FilterError{Field: field, Index: -1, Reason: fmt.Sprintf("%d of them, over the limit of %d", len(names), most)}
	}
	for i, name := range names {
		switch {
		case name == "":
			return &FilterError{Field: field, Index: i, Reason: "it is empty"}
		case len(name) > mostBytes:
			return &FilterError{Field: field, Index: i, Reason: fmt.Sprintf("%d bytes, over the limit of %d", len(name), mostBytes)}
		}
	}
	return nil
}

// distinctScoped checks the scoped resources, and returns each once.
func distinctScoped(scoped []Scoped) ([]Scoped, error) {
	if len(scoped) == 0 {
		return nil, nil
	}
	uris := make([]string, len(scoped))
	for i, s := range scoped {
		uris[i] = s.URI
		if s.Scope == "" {
			return nil, &FilterError{Field: "resource URI", Index: i, Reason: "its scope is empty"}
		}
	}
	if err := checkNames("resource URI", uris, MaxURIs, MaxURIBytes); err != nil {
		return nil, err
	}
	out := slices.SortedFunc(slices.Values(scoped), func(a, b Scoped) int {
		return cmp.Or(cmp.Compare(a.URI, b.URI), cmp.Compare(a.Scope, b.Scope))
	})
	return slices.Compact(out), nil
}

// distinct returns the names in order, each once.
func distinct(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// appendURIs marks those URIs that another one covers. Of the others at most one
// covers any given URI, since covering is transitive, so no update can come
// twice.
func appendURIs(out []want, sorted []string) []want {
	// open are the uncovered URIs so far that the current one begins with: in
	// this order they stand together, the shortest first.
	var open []string
	for _, uri := range sorted {
		for len(open) > 0 && !strings.HasPrefix(uri, open[len(open)-1]) {
			open = open[:len(open)-1]
		}
		covered := slices.ContainsFunc(open, func(o string) bool { return covers(o, uri) })
		if !covered {
			open = append(open, uri)
		}
		out = append(out, want{Key: topicKey{kind: ResourceUpdated, name: uri}, Covered: covered})
	}
	return out
}

// covers is the rule of [Filter.ResourceURIs].
func covers(wanted, uri string) bool {
	return strings.HasPrefix(uri, wanted) && endsAt(uri, len(wanted))
}

// endsAt reports whether who wants the first n bytes of a URI wants all of it.
func endsAt(uri string, n int) bool {
	return n == len(uri) || uri[n-1] == '/' || uri[n] == '/' || uri[n] == '?' || uri[n] == '#'
}
