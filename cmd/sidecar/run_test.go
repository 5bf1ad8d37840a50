// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestRun drives the process without being one: exit codes, and which stream
// says what.
func TestRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		args           []string
		environ        []string
		code           int
		stdout, stderr string // parts; empty for silence
	}{
		{"version", []string{"version"}, nil, 0, "contract outrigger.v1", ""},
		{"help", []string{"serve", "--help"}, nil, 0, "--backend URL", ""},
		{"help of an unknown flag's command", []string{"call", "-x"}, nil, 2, "", "see `sidecar call --help`"},
		{"no command", nil, nil, 2, "", "which command?"},
		{"unknown command", []string{"stdo"}, nil, 2, "", "did you mean stdio?"},
		{"too many arguments", []string{"doctor", "x"}, nil, 2, "", "see `sidecar doctor --help`"},
		{"faults have no prefix", []string{"tools", "--demo"}, []string{"OUTRIGGER_TIMEOUT=soon"}, 2, "", "OUTRIGGER_TIMEOUT: must be a duration"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), tt.args, strings.NewReader(""), &stdout, &stderr, tt.environ)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for stream, got := range map[string]struct{ got, want string }{
				"stdout": {stdout.String(), tt.stdout}, "stderr": {stderr.String(), tt.stderr},
			} {
				if (got.want == "") != (got.got == "") || !strings.Contains(got.got, got.want) {
					t.Errorf("%s is %q, want %q", stream, got.got, got.want)
				}
			}
		})
	}
}
