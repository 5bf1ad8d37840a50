// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime/debug"
	"testing"
)

func TestBuildFallsBackOnWhatGoRecorded(t *testing.T) {
	t.Parallel()
	info := func(version, revision string) *debug.BuildInfo {
		return &debug.BuildInfo{
			Main:     debug.Module{Version: version},
			Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision}},
		}
	}
	tests := []struct {
		name            string
		linked          build
		info            *debug.BuildInfo
		version, commit string
	}{
		{"go install", build{Version: "devel"}, info("v1.2.3", ""), "v1.2.3", ""},
		{"go build in a working copy", build{Version: "devel"}, info("(devel)", "abc"), "devel", "abc"},
		{"the linker wins", build{Version: "2.0.0", Commit: "def"}, info("v1.2.3", "abc"), "2.0.0", "def"},
		{"nothing recorded", build{Version: "devel"}, &debug.BuildInfo{}, "devel", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := tt.linked
			b.fillFrom(tt.info)
			if b.Version != tt.version || b.Commit != tt.commit {
				t.Errorf("%s %s, want %s %s", b.Version, b.Commit, tt.version, tt.commit)
			}
		})
	}
}
