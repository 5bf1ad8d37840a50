// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// AppendAnnotations appends MCP's annotations of the tool, a JSON object. It has only hints that are known; a client takes
// the protocol's defaults for the rest. A title that says no more than the name is left out: without one, clients show the
// name.
func (t *Tool) AppendAnnotations(dst []byte) []byte {
	dst = append(dst, '{')
	before := len(dst)
	if t.HasOwnTitle() {
		dst = append(dst, `,"title":`...)
		dst = jsontext.AppendString(dst, t.Title)
	}
	for _, hint := range [...]struct {
		name  string
		value *bool
	}{
		{"readOnlyHint", t.Annotations.ReadOnly},
		{"destructiveHint", t.Annotations.Destructive},
		{"idempotentHint", t.Annotations.Idempotent},
		{"openWorldHint", t.Annotations.OpenWorld},
	} {
		if hint.value == nil {
			continue
		}
		dst = append(dst, `,"`+hint.name+`":`...)
		dst = strconv.AppendBool(dst, *hint.value)
	}
	if len(dst) > before {
		dst = slices.Delete(dst, before, before+1) // the first comma
	}
	return append(dst, '}')
}

// LockEntry returns the digests of the tool: of its canonical name, description, advertised schemas and annotations. The
// first call derives the schemas. The error says which part of a declared tool has no RFC 8785 form; the entry then has
// no digest.
func (t *Tool) LockEntry() (lock.Entry, error) {
	return lock.NewEntry(lock.Members{
		Name: t.Name, Description: t.Description,
		InputSchema: t.Input.Advertised(), OutputSchema: t.Output.Advertised(), Annotations: t.AppendAnnotations(nil),
	})
}

// Digest returns the SHA-256 over everything that a client approves of the tool, 64 lowercase hex digits: see
// [Tool.LockEntry]. It is empty if the tool has none.
func (t *Tool) Digest() string {
	entry, err := t.LockEntry()
	if err != nil {
		return ""
	}
	return entry.Digest
}

// LockEntries returns the digests of the tools that callers see, without registered ones. The error joins those of
// [Tool.LockEntry].
func (c *Catalog) LockEntries() ([]lock.Entry, error) {
	var faults []error
	visible := c.ungrown().own.visible
	out := make([]lock.Entry, 0, len(visible))
	for _, t := range visible {
		entry, err := t.LockEntry()
		if err != nil {
			faults = append(faults, err)
		}
		out = append(out, entry)
	}
	return out, errors.Join(faults...)
}

// Drift returns the difference between the tools of the backend and the lock, and whether there is a lock. Tools that were
// left out because of it are part of the difference.
func (c *Catalog) Drift() (lock.Drift, bool) {
	if c.drift == nil {
		return lock.Drift{}, false
	}
	return *c.drift, true
}

// hold compares a fresh catalog, which has no registered tools yet, with the lock. It returns the catalog without the
// tools that the lock refuses: they are neither listed nor found, and nothing can be registered for their RPCs.
func (c *Catalog) hold(o BuildOptions) (*Catalog, error) {
	if o.Lock == nil {
		return c, nil
	}
	entries, _ := c.LockEntries() // a tool without a digest is drift
	drift := o.Lock.Compare(entries)
	var held *Catalog
	if refused := drift.Unapproved(); o.RefuseDrift && len(refused) > 0 {
		if len(refused) == len(entries) {
			return nil, &emptyError{cause: fmt.Errorf("%w: the catalog lock refuses all %d tools (%v); review them and run `sidecar lock update`",
				ErrEmpty, len(refused), drift)}
		}
		held = c.Only(func(t *Tool) bool { return !refused[t.Name] })
	} else {
		copied := *c // the build keeps c for the next one, which may have another lock
		held = &copied
	}
	held.drift = &drift
	return held, nil
}

// tellDrift tells of a drift that is new.
func (l *Live) tellDrift(old, now *Catalog) {
	drift, isLocked := now.Drift()
	if l.onDrift == nil || !isLocked {
		return
	}
	if old != nil && old.drift != nil && old.drift.Equal(drift) {
		return
	}
	l.onDrift(drift)
}
