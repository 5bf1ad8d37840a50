// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// nativeNameLimit is the longest name that MCP admits for a tool (MCP 2026-07-28, Tools).
	nativeNameLimit = 128
	// maxServiceBytes is the most of a backend's name that its tools' names begin with: half of a canonical name.
	maxServiceBytes = 64
	// unnamedService stands for a native backend whose name has nothing that a canonical name can be made of.
	unnamedService = "native"
)

// isMCPName reports whether MCP admits the name for a tool: 1 to 128 of A-Z a-z 0-9 _ - and dots.
func isMCPName(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isUpper(c) && !isLower(c) && !isDigit(c) && strings.IndexByte("_-.", c) < 0 {
			return false
		}
	}
	return name != "" && len(name) <= nativeNameLimit
}

// nativeService is the first part of the canonical names of a native backend's tools, made of the backend's name: in
// snake case, with an underscore for everything else. "Weather Desk" is weather_desk.
func nativeService(name string) string {
	flat := strings.Map(func(r rune) rune {
		if r < 0x80 && (isUpper(byte(r)) || isLower(byte(r)) || isDigit(byte(r))) {
			return r
		}
		return '_'
	}, name)
	var parts []string
	for part := range strings.SplitSeq(flat, "_") {
		if part != "" {
			parts = append(parts, snakeCase(part))
		}
	}
	if len(parts) == 0 {
		return unnamedService
	}
	service := strings.Join(parts, "_")
	return service[:min(len(service), maxServiceBytes)]
}

// nativeName is the canonical name of a native tool: the declared one where that is canonical already, else the service
// before it, in snake case. Underscores stay as they are, hyphens become such, and dots part it further. A name over the
// limit is cut, and ends as MCPName has it.
func nativeName(service, declared string, limit int) string {
	if IsCanonicalName(declared) && len(declared) <= limit {
		return declared
	}
	name := service
	for segment := range strings.SplitSeq(strings.ReplaceAll(declared, "-", "_"), ".") {
		if segment != "" {
			name += "." + snakeCase(segment)
		}
	}
	if name == service {
		name += "._"
	}
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail := "_" + hex.EncodeToString(sum[:])[:hashDigits]
	return name[:max(0, limit-len(tail))] + tail
}
