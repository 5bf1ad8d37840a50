// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), see -update:\n%s", name, diff)
	}
}

// normal hides addresses and durations in texts.
func normal(text string) string {
	text = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllString(text, "127.0.0.1:(port)")
	return regexp.MustCompile(`within [0-9.]+m?s`).ReplaceAllString(text, "within (duration)")
}
