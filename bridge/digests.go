// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/content"
)

const (
	// maxKnownDigests is how many former digests of one tool are known, and maxKnownTools of how many tools: about 5 MB at most.
	maxKnownDigests = 4
	maxKnownTools   = 4096
)

// digests compares the digest that a caller has of a tool with the tool's, and knows former ones, so that it can say what changed.
type digests struct {
	isOn bool

	mu sync.Mutex
	// known are the newest digests of tools by name, the oldest of each first.
	known map[string][]lock.Entry
}

// check refuses a call of a tool that is another one than its caller has seen.
func (d *digests) check(c *toolCall) *errmap.Error {
	w := &c.req.Wanted
	if w.Digest == "" {
		return nil
	}
	if !d.isOn {
		return content.NotOn(errmap.InvalidParams, w.DigestPath(), "a digest in a call", "tool-digest")
	}
	if c.tool.Compact == catalog.CompactCall {
		return nil // a call of another tool that cannot be read, whose schema says why
	}
	now, err := c.tool.LockEntry()
	if err != nil {
		return w.RefuseDigest("tool " + c.shownName() + " has no digest; call it without this member")
	}
	if now.Digest == w.Digest {
		d.keep(now)
		return nil
	}
	parts := d.changed(now, w.Digest)
	what := "what changed is not known here"
	if len(parts) > 0 {
		what = "changed: " + strings.Join(parts, ", ")
	}
	return w.RefuseDigest(fmt.Sprintf("tool %s has changed since its client read it: its digest is %s, not %s; %s. Read the tool again, then call it",
		c.shownName(), now.Digest, w.Digest, what), parts...)
}

// keep remembers a digest.
func (d *digests) keep(e lock.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[e.Name]
	for _, one := range known {
		if one.Digest == e.Digest {
			return
		}
	}
	if !ok && len(d.known) >= maxKnownTools {
		return
	}
	if len(known) >= maxKnownDigests {
		known = known[1:]
	}
	if d.known == nil {
		d.known = map[string][]lock.Entry{}
	}
	d.known[e.Name] = append(slices.Clip(known), e)
}

// changed names the parts of a tool in which it differs from a former digest; none where that is not known.
func (d *digests) changed(now lock.Entry, former string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.known[now.Name] {
		if one.Digest != former {
			continue
		}
		for _, change := range lock.New([]lock.Entry{one}).Compare([]lock.Entry{now}).Changed {
			return change.Members
		}
	}
	return nil
}

// Replaced remembers the digests of tools that are other ones in a newer catalog. It derives their schemas, if digests in calls are on.
func (b *Bridge) Replaced(old, now *catalog.Catalog) {
	d := b.parts.digests
	if !d.isOn || old == nil {
		return
	}
	kept := 0
	for _, tool := range old.Tools() {
		if newer, ok := now.Lookup(tool.Name); !ok || newer.IsSame(tool) {
			continue
		}
		if kept++; kept > maxKnownTools {
			return
		}
		if entry, err := tool.LockEntry(); err == nil {
			d.keep(entry)
		}
	}
}
