// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// MaxListedOutput is the size in bytes up to which a bounded list shows an output schema. Below it are the answers of most
// RPCs. Those above it are most of a list's tokens, and say little about when to call a tool.
const MaxListedOutput = 4000

// OutputSchemas selects the output schemas that a list of tools shows. A schema that is left out is shown for the tool
// alone, and results are held to it all the same.
type OutputSchemas uint8

const (
	// AllOutputSchemas shows every output schema.
	AllOutputSchemas OutputSchemas = iota
	// BoundedOutputSchemas leaves out those of more than MaxListedOutput bytes, and those that contain themselves by $ref:
	// a client exists that drops all tools of a server for one of them.
	BoundedOutputSchemas
	// NoOutputSchemas shows none.
	NoOutputSchemas
)

// ParseOutputSchemas parses "all", "bounded" or "none".
func ParseOutputSchemas(name string) (OutputSchemas, error) {
	switch name {
	case "all":
		return AllOutputSchemas, nil
	case "bounded":
		return BoundedOutputSchemas, nil
	case "none":
		return NoOutputSchemas, nil
	}
	return 0, fmt.Errorf("catalog: unknown output schemas %q; use all, bounded or none", name)
}

// ListForm is how a list shows the schemas of its tools. The zero value shows all of them, as the tool alone is shown. It is
// for lists that models read; a list for another sidecar has to be whole.
//
// Neither fingerprints nor digests depend on it.
type ListForm struct {
	Outputs OutputSchemas
	// SharedRefs puts messages that a schema repeats into $defs where that is smaller.
	SharedRefs bool
}

// Input returns the input schema of an entry.
func (f ListForm) Input(t *Tool) json.RawMessage {
	if f.SharedRefs {
		return t.Input.Shared()
	}
	return t.Input.Advertised()
}

// Output returns the output schema of an entry, or nil if the entry shows none.
func (f ListForm) Output(t *Tool) json.RawMessage {
	if f.Outputs == NoOutputSchemas || !t.HasOutput() {
		return nil
	}
	var out json.RawMessage
	if f.SharedRefs {
		out = t.Output.Shared()
	} else {
		out = t.Output.Advertised()
	}
	if f.Outputs == BoundedOutputSchemas && (len(out) > MaxListedOutput || schema.IsRecursive(out)) {
		return nil
	}
	return out
}

// ListForm returns how lists show the schemas.
func (c *Catalog) ListForm() ListForm { return c.listed }

// HasOwnTitle reports whether the title says more than the name of the tool does.
func (t *Tool) HasOwnTitle() bool {
	title := lettersOf(t.Title)
	return title != "" && !strings.HasSuffix(lettersOf(t.Name), title)
}

// lettersOf are the letters and digits of a text in lower case.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}
