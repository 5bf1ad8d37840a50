// SPDX-License-Identifier: Apache-2.0

package config

// removed says of settings of earlier releases, by path, what to do instead.
func removed() map[string]string {
	const stateless = "removed: legacy sessions are in their ids and not stored; delete the key"
	return map[string]string{
		"access.approvals.structured_denials": "removed: set experimental: [structured-denials] instead",
		"limits.session_idle_timeout":         "removed: the id of a legacy session is valid up to an age, used or not; set max_session_age instead",
		"state.max_session_bytes":             stateless,
		"state.max_stream_bytes":              stateless,
		"state.stream_ttl":                    stateless,
	}
}

// RemovedFlag says of a flag of an earlier release what to do instead; empty for others.
func RemovedFlag(name string) string {
	return map[string]string{
		"structured-denials": "removed: use --experimental structured-denials instead",
		"session-idle":       "removed: the id of a legacy session is valid up to an age, used or not; use --session-age instead",
	}[name]
}
