// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
)

// Unrecorded returns the fields whose values records leave out: those with a class that is not recorded. Nil is none. The value is
// another one where the set in use is.
func (e *Engine) Unrecorded() *redact.Others {
	now := e.current.Load()
	if !now.set.HasViews() {
		return nil
	}
	if made := now.unrecorded.Load(); made != nil {
		return made
	}
	now.unrecorded.CompareAndSwap(nil, &redact.Others{Field: func(fd protoreflect.FieldDescriptor) bool {
		named := now.set.classes.fields[fd.FullName()]
		return now.set.classes.leavesOut(redact.ClassOf(fd)) ||
			slices.ContainsFunc(named, func(f FieldName) bool { return now.set.classes.leavesOut(f.Class) })
	}})
	return now.unrecorded.Load()
}

// UnrecordedPaths returns the paths in results of a tool at which the values have such a class, in order.
func (e *Engine) UnrecordedPaths(t *catalog.Tool) []string {
	set := e.Set()
	if !set.HasViews() {
		return nil
	}
	var out []string
	paths := set.sightOf(t.Whole()).paths
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if slices.ContainsFunc(paths[path], set.classes.leavesOut) {
			out = append(out, path)
		}
	}
	return out
}

// leavesOut reports whether records leave out the values of a class; none is empty.
func (c *classes) leavesOut(class string) bool {
	if class == "" {
		return false
	}
	i, ok := c.at[class]
	return !ok || !c.list[i].Recorded
}
