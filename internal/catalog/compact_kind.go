// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
)

// Compact is what one of the three tools does that stand for a whole catalog.
type Compact uint8

const (
	// NotCompact is that of all other tools.
	NotCompact Compact = iota
	// CompactSearch finds tools by words.
	CompactSearch
	// CompactDescribe returns the description of one tool.
	CompactDescribe
	// CompactCall calls a tool.
	CompactCall
)

// Names of these tools, and of their arguments.
const (
	SearchName   = "catalog.search"
	DescribeName = "catalog.describe"
	CallName     = "catalog.call"

	QueryArgument      = "query"
	LimitArgument      = "limit"
	NameArgument       = "name"
	ArgumentsArgument  = "arguments"
	FieldsArgument     = "fields"
	StreamTimeArgument = "stream_time"
)

const (
	// MaxSearchResults is the maximum number of tools that a search returns, DefaultSearchResults that of one without a limit.
	MaxSearchResults     = 10
	DefaultSearchResults = 5
	// maxQuery and maxName bound the arguments, in characters.
	maxQuery = 256
	maxName  = 256
)

// CompactOf returns what the tool of a name does in a compact catalog. It accepts canonical names and those of MCP.
func CompactOf(name string) Compact {
	switch name {
	case SearchName, "catalog_search":
		return CompactSearch
	case DescribeName, "catalog_describe":
		return CompactDescribe
	case CallName, "catalog_call":
		return CompactCall
	}
	return NotCompact
}

// reservedName says that one of a tool's names is that of a tool of the compact catalog; empty if none is.
func reservedName(names []string) string {
	at := slices.IndexFunc(names, func(name string) bool { return CompactOf(name) != NotCompact })
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("the name %q is that of a tool of the sidecar's own in compact mode; set (outrigger.v1.tool).name or name it in the overlay, "+
		"omit it with --exclude, or use --catalog-mode full", names[at])
}
