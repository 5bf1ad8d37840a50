// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// kind is what a tool does, by the verbs of its name.
type kind uint8

const (
	unknownKind kind = iota
	reads
	changes
	deletes
)

// kindOf reads the name of a method. A method that reads has a verb of reading first, and none of changing anywhere:
// read_modify_write_row changes. Words behind the verb are objects: list_deleted_items only lists.
func kindOf(t *Tool) kind {
	words := t.words()
	isDestroying := catalog.DestroyingVerb(strings.Join(words, "_")) != ""
	for len(words) > 0 && slices.Contains([]string{"batch", "bulk", "stream", "multi"}, words[0]) {
		words = words[1:]
	}
	switch {
	case isDestroying:
		return deletes
	case len(words) == 0:
		return unknownKind
	case slices.Contains(changingVerbs(), words[0]):
		return changes
	case slices.Contains(readingVerbs(), words[0]) && !slices.ContainsFunc(words[1:], func(w string) bool {
		return catalog.IsDestroying(w) || slices.Contains(changingVerbs(), w)
	}):
		return reads
	default:
		return unknownKind
	}
}

func changingVerbs() []string {
	return []string{"add", "append", "assign", "cancel", "create", "disable", "enable", "import", "insert", "modify", "move", "mutate", "patch",
		"pause", "place", "put", "register", "rename", "replace", "restore", "resume", "send", "set", "start", "stop", "update", "upsert", "write"}
}

func readingVerbs() []string {
	return []string{"count", "describe", "download", "expand", "explain", "export", "fetch", "find", "get", "list", "lookup", "poll", "query", "range",
		"read", "search", "show", "status", "tail", "view", "watch"}
}

func is(hint *bool) bool { return hint != nil && *hint }

func isNot(hint *bool) bool { return hint != nil && !*hint }

func (c *check) hintsConflict(t *Tool) {
	if is(t.Hints.ReadOnly) && is(t.Hints.Destructive) {
		c.add(t, "/annotations", c.entry(t, "say which of the two holds", "read_only", "false"), "it is shown as read-only and as destructive")
	}
}

func (c *check) hintNotDestructive(t *Tool) {
	if kindOf(t) != deletes || is(t.Hints.Destructive) {
		return
	}
	said := "it is not shown as destructive"
	if isNot(t.Hints.Destructive) {
		said = "it is shown as not destructive"
	}
	c.add(t, "/annotations/destructiveHint", c.entry(t, "mark it, unless it can be undone; the gate then blocks it for untrusted callers", "destructive", "true"), "its name says that it deletes, and %s", said)
}

func (c *check) hintNotReadOnly(t *Tool) {
	if k := kindOf(t); k != deletes && k != changes || !is(t.Hints.ReadOnly) {
		return
	}
	c.add(t, "/annotations/readOnlyHint", c.entry(t, "take the hint back, unless the name misleads", "read_only", "false"), "its name says that it changes something, and it is shown as read-only")
}

func (c *check) hintDestructive(t *Tool) {
	if kindOf(t) == reads && is(t.Hints.Destructive) {
		c.add(t, "/annotations/destructiveHint", c.entry(t, "take the mark back, unless the name misleads", "destructive", "false"), "its name says that it reads, and it is shown as destructive")
	}
}

func (c *check) hintMissing(t *Tool) {
	if kindOf(t) == reads && t.Hints.ReadOnly == nil && !is(t.Hints.Destructive) {
		c.add(t, "/annotations/readOnlyHint", c.entry(t, "mark it if it changes nothing (option idempotency_level = NO_SIDE_EFFECTS, or here)", "read_only", "true"),
			"its name says that it reads, and it is not shown as read-only")
	}
}
