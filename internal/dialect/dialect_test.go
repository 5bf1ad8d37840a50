// SPDX-License-Identifier: Apache-2.0

package dialect_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/dialect"
)

func TestClaimsModern(t *testing.T) {
	t.Parallel()
	const key = `"io.modelcontextprotocol/protocolVersion"`
	for _, tc := range []struct {
		name, params string
		want         bool
	}{
		{"nothing", ``, false},
		{"no meta", `{}`, false},
		{"meta is no object", `{"_meta":[]}`, false},
		{"meta without a version", `{"_meta":{"progressToken":1}}`, false},
		{"the modern version", `{"_meta":{` + key + `:"2026-07-28"}}`, true},
		{"an escaped name", `{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}`, true},
		{"a version to come", `{"_meta":{` + key + `:"2099-01-01"}}`, true},
		{"no version", `{"_meta":{` + key + `:"x"}}`, true},
		{"a version that is no string", `{"_meta":{` + key + `:7}}`, true},
		{"null", `{"_meta":{` + key + `:null}}`, true},
		{"a legacy version", `{"_meta":{` + key + `:"2025-11-25"}}`, false},
		{"an old legacy version", `{"_meta":{` + key + `:"2024-11-05"}}`, false},
		{"the version elsewhere", `{` + key + `:"2026-07-28"}`, false},
	} {
		if got := dialect.ClaimsModern([]byte(tc.params)); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// What is offered must be what is served, or a client picks what it is refused.
func TestVersionsThatAreOfferedAreServed(t *testing.T) {
	t.Parallel()
	for i, v := range dialect.Versions() {
		if dialect.IsLegacyVersion(v) == (v == dialect.VersionModern) || (i == 0) != (v == dialect.VersionModern) {
			t.Errorf("%s at %d", v, i)
		}
	}
}
