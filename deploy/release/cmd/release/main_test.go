// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestUsage has commands that are wrong. Each ends with its code and says what to do.
func TestUsage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":             {nil, 2, "want build, check, publish, tag or github"},
		"an unknown command":  {[]string{"ship"}, 2, `release "ship" is unknown`},
		"an unknown flag":     {[]string{"build", "-vers", "1"}, 2, "flag provided but not defined"},
		"an unknown platform": {[]string{"build", "-platforms", "linux/z80"}, 2, `"linux/z80" is unknown; want some of`},
		"an argument":         {[]string{"tag", "v1"}, 2, "takes no arguments"},
		"help":                {[]string{"publish", "-h"}, 0, "npm-registry"},
		"a wrong version":     {[]string{"build", "-version", "one", "-out", t.TempDir(), "-root", t.TempDir()}, 1, `version is "one"; want one such as 0.1.0`},
		"no release":          {[]string{"publish", "-version", "0.1.0", "-out", t.TempDir()}, 1, "make release VERSION=0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			if code := run(tt.args, &stdout, &stderr); code != tt.code || !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("exit code %d: %s", code, stderr.String())
			}
		})
	}
}
