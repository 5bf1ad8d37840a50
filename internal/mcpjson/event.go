// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"slices"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// AppendProgress appends the params of notifications/progress. The token is the
// caller's progressToken as it came: raw JSON, a string or an integer.
func AppendProgress(dst, token []byte, p *outriggerv1.Progress) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw(`{"progressToken":`)
	w.dst = append(w.dst, token...)
	w.number("progress", "progress", p.GetProgress())
	if p != nil && p.Total != nil {
		w.number("total", "total", p.GetTotal())
	}
	w.text("message", p.GetMessage())
	w.raw("}")
	return w.done()
}

// AppendLog appends the params of notifications/message.
func AppendLog(dst []byte, m *outriggerv1.LogMessage) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw("{")
	level := LogLevelName(m.GetLevel())
	w.need("level", "level", level)
	w.text("logger", m.GetLogger())
	if !w.value("data", "data", m.GetDataJson(), m.GetData()) {
		w.failIn("data", "MCP requires it; give any JSON value.")
	}
	w.raw("}")
	return w.done()
}

// levelNames are MCP's words (LoggingLevel), by the numbers of LogLevel.
func levelNames() []string {
	return []string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// ReadLogLevel returns the level that MCP calls so, and false for another word.
func ReadLogLevel(name string) (outriggerv1.LogLevel, bool) {
	i := slices.Index(levelNames(), name)
	if i <= 0 {
		return outriggerv1.LogLevel_LOG_LEVEL_UNSPECIFIED, false
	}
	return outriggerv1.LogLevel(i), true
}

// LogLevelName returns MCP's word for a level; empty for one that is not set or
// not known.
func LogLevelName(l outriggerv1.LogLevel) string {
	names := levelNames()
	if l < 0 || int(l) >= len(names) {
		return ""
	}
	return names[l]
}
