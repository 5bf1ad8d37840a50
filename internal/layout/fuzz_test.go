// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFuzzTargetTriesAgainOnlyAtTheEndOfTime: the fuzzer's own race at the end of
// its time is no finding, and nothing else is taken for it.
func TestFuzzTargetTriesAgainOnlyAtTheEndOfTime(t *testing.T) {
	t.Parallel()
	const (
		pass     = "echo PASS; exit 0;"
		deadline = "printf -- '--- FAIL: FuzzReader (5.10s)\\n    context deadline exceeded\\nFAIL\\n'; exit 1;"
		finding  = "printf -- '--- FAIL: FuzzReader (0.02s)\\n    --- FAIL: FuzzReader (0.00s)\\n        reader_test.go:9: context deadline exceeded\\n    \\n" +
			"    Failing input written to testdata/fuzz/FuzzReader/771e938e4458e983\\nFAIL\\n'; exit 1;"
		minimised = "printf -- 'Failing input written to testdata/fuzz/FuzzReader/771e938e4458e983\\n--- FAIL: FuzzReader (5.10s)\\n    context deadline exceeded\\nFAIL\\n'; exit 1;"
		seed      = "printf -- '--- FAIL: FuzzReader (0.01s)\\n    --- FAIL: FuzzReader/seed#0 (0.00s)\\n        reader_test.go:9: wrong\\nFAIL\\n'; exit 1;"
		hung      = "printf -- '--- FAIL: FuzzReader (5.10s)\\n    fuzzing process hung or terminated unexpectedly: exit status 2\\nFAIL\\n'; exit 1;"
		broken    = "echo 'no such target' >&2; exit 2;"
	)
	tests := []struct {
		name        string
		runs        []string // what the first, second and further runs do
		code, tries int
	}{
		{"pass", []string{pass}, 0, 1},
		{"the end of time, then pass", []string{deadline, pass}, 0, 2},
		{"the end of time, twice", []string{deadline, deadline, pass}, 0, 3},
		{"the end of time, each time", []string{deadline, deadline, deadline, pass}, 1, 3},
		{"the end of time, then a finding", []string{deadline, finding, pass}, 1, 2},
		{"a finding that speaks of a deadline", []string{finding, pass}, 1, 1},
		{"a finding at the end of time", []string{minimised, pass}, 1, 1},
		{"a seed that fails", []string{seed, pass}, 1, 1},
		{"a target that hangs", []string{hung, pass}, 1, 1},
		{"no target", []string{broken, pass}, 2, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script := "echo >>tries; case $(wc -l <tries | tr -d ' ') in "
			for i, run := range test.runs {
				script += string(rune('1'+i)) + ") " + run + "; "
			}
			cmd := exec.Command("../../.ci/fuzz-target", "bash", "-c", "cd "+dir+"; "+script+"esac")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != test.code {
				t.Errorf("it ended with %d, want %d:\n%s", got, test.code, out)
			}
			// Only what counts as a failure looks like one in the log.
			if shown := bytes.Contains(out, []byte("--- FAIL")); shown != (test.code == 1) {
				t.Errorf("a failure in its output: %v, with exit code %d:\n%s", shown, test.code, out)
			}
			if tries, err := os.ReadFile(filepath.Join(dir, "tries")); err != nil || len(tries) != test.tries {
				t.Errorf("it ran %d times, want %d (%v)", len(tries), test.tries, err)
			}
		})
	}
}
