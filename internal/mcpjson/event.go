// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"slices"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// AppendProgress appends the params of notifications/progress. The token is the
// caller's progressToken, unchanged: raw JSON, a string or an integer.
func AppendProgress(dst, token []byte, p *outriggerv1.Progress) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw(`{"progressToken":`)
	w.dst = append(w.dst, token...)
	w.members(p)
	w.raw("}")
	return w.done()
}

// AppendLog appends the params of notifications/message.
func AppendLog(dst []byte, m *outriggerv1.LogMessage) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.object(m)
	return w.done()
}

// ReadLogLevel returns the level with this MCP name, and false for an unknown name.
func ReadLogLevel(name string) (outriggerv1.LogLevel, bool) {
	i := slices.Index(planOf(new(outriggerv1.LogMessage)).field("level").enum, name)
	if i <= 0 {
		return outriggerv1.LogLevel_LOG_LEVEL_UNSPECIFIED, false
	}
	return outriggerv1.LogLevel(i), true
}

// LogLevelName returns the MCP name of a level; empty for a level that is unset or
// unknown.
func LogLevelName(l outriggerv1.LogLevel) string {
	names := planOf(new(outriggerv1.LogMessage)).field("level").enum
	if l < 0 || int(l) >= len(names) {
		return ""
	}
	return names[l]
}
