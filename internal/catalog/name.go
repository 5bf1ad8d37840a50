// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// mcpNameLimit is the longest tool name that every model provider accepts.
	mcpNameLimit = 64
	// hashDigits is how many hex digits of a name's SHA-256 stand in for what was cut off.
	hashDigits = 8
)

// CanonicalName returns the canonical name of a method, before collisions are considered. It is the service's simple name
// without a Service suffix and the method's name, both in snake case, joined by a dot: "route_guide.get_feature".
// The package is left out, because it rarely tells two tools apart and always costs a model tokens. If only the package
// tells two tools apart, the build reports a collision.
func CanonicalName(md protoreflect.MethodDescriptor) string {
	short, _ := canonicalNames(string(md.Parent().Name()), string(md.Name()))
	return short
}

// MCPName returns the form of a canonical name that MCP callers see, with "_" for ".", because model providers refuse
// dots. A name longer than 64 characters is cut and ends in an underscore and 8 hex digits of the SHA-256 of the whole
// canonical name. Long names with a common prefix therefore stay distinct.
func MCPName(canonical string) string {
	flat := strings.ReplaceAll(canonical, ".", "_")
	if len(flat) <= mcpNameLimit {
		return flat
	}
	sum := sha256.Sum256([]byte(canonical))
	digits := hex.EncodeToString(sum[:])[:hashDigits]
	return flat[:mcpNameLimit-hashDigits-1] + "_" + digits
}

// IsCanonicalName reports whether the name matches ^[a-z0-9_]+(\.[a-z0-9_]+)+$, the pattern of canonical names.
func IsCanonicalName(name string) bool {
	segments, length := 0, 0
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '.':
			if length == 0 {
				return false
			}
			segments, length = segments+1, 0
		case isLower(c), isDigit(c), c == '_':
			length++
		default:
			return false
		}
	}
	return segments > 0 && length > 0
}

// snakeCase turns a Protobuf identifier into lower-case words joined by underscores. A word begins at an upper-case
// letter that follows a lower-case letter or a digit, and at the last upper-case letter of an acronym that a lower-case
// letter follows: GetHTTPInfo is get_http_info. A digit belongs to the word before it: GetV2Item is get_v2_item.
// Underscores stay as they are, so that Get and Get_ remain two names.
func snakeCase(ident string) string {
	out := make([]byte, 0, len(ident)+8)
	for i := range len(ident) {
		if startsWord(ident, i) {
			out = append(out, '_')
		}
		c := ident[i]
		if isUpper(c) {
			c += 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}

// words splits an identifier where snakeCase would put or find an underscore, keeping the case of the letters.
func words(ident string) []string {
	var out []string
	start := 0
	for i := range len(ident) {
		switch {
		case ident[i] == '_':
			if i > start {
				out = append(out, ident[start:i])
			}
			start = i + 1
		case startsWord(ident, i):
			if i > start {
				out = append(out, ident[start:i])
			}
			start = i
		}
	}
	if start < len(ident) {
		out = append(out, ident[start:])
	}
	return out
}

// humanName makes a title of an identifier: "GetHTTPInfo" is "Get HTTP info".
func humanName(ident string) string {
	parts := words(ident)
	for i, w := range parts {
		isAcronym := len(w) > 1 && strings.ToUpper(w) == w
		switch {
		case isAcronym:
		case i == 0:
			parts[i] = strings.ToUpper(w[:1]) + strings.ToLower(w[1:])
		default:
			parts[i] = strings.ToLower(w)
		}
	}
	if len(parts) == 0 {
		return ident
	}
	return strings.Join(parts, " ")
}

// startsWord reports whether a new word begins at i without an underscore before it.
func startsWord(ident string, i int) bool {
	if i == 0 || !isUpper(ident[i]) {
		return false
	}
	before := ident[i-1]
	if isLower(before) || isDigit(before) {
		return true
	}
	return isUpper(before) && i+1 < len(ident) && isLower(ident[i+1])
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// canonicalNames are the names that a method may have: without its service's Service suffix, and with it. They are the
// same where there is no suffix, or nothing in front of it.
func canonicalNames(service, method string) (short, long string) {
	service, method = snakeCase(service), snakeCase(method)
	long = service + "." + method
	if without, ok := strings.CutSuffix(service, serviceSuffix); ok && strings.Trim(without, "_") != "" {
		return without + "." + method, long
	}
	return long, long
}

// serviceSuffix ends the names of most services, says nothing, and costs a model tokens in every tool's name.
const serviceSuffix = "_service"

// aliasOf is the other spelling of a canonical name that was derived from a method; empty where it was not, or where
// there is none.
func aliasOf(name, service, method string) string {
	short, long := canonicalNames(service[strings.LastIndexByte(service, '.')+1:], method)
	switch {
	case short == long:
		return ""
	case name == short:
		return long
	case name == long:
		return short
	}
	return ""
}

const (
	// nativeNameLimit is the longest name that MCP admits for a tool (MCP 2026-07-28, Tools).
	nativeNameLimit = 128
	// maxServiceBytes is the most of a backend's name that its tools' names begin with: half of a canonical name.
	maxServiceBytes = 64
	// unnamedService represents a native backend whose name has nothing that a canonical name can be made of.
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
