// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
)

// TestLintIsSARIF: another implementation of SARIF 2.1.0 reads what `sidecar lint --sarif` prints, and its schema admits it.
func TestLintIsSARIF(t *testing.T) {
	t.Parallel()
	list := filepath.Join(t.TempDir(), "catalog.json")
	saved, err := exec.CommandContext(t.Context(), built.binary, "tools", "--demo", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, saved, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"live":     {"--demo"},
		"saved":    {"catalog.json"},
		"nothing":  {"--demo", "--client", "vscode", "--schema-profile", "strict"},
		"one only": {"--demo", "--max-findings", "1"},
	} {
		cmd := exec.CommandContext(t.Context(), built.binary, append([]string{"lint", "--sarif"}, args...)...)
		cmd.Dir = filepath.Dir(list)
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			t.Fatalf("%s: %v", name, err)
		}
		report, err := sarif.FromBytes(out)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, run := range report.Runs {
			run.NewlineSequences = []string{"\n"} // the default; the library has an empty list, which the schema refuses
		}
		if err := report.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(report.Runs) != 1 || (len(report.Runs[0].Results) == 0) != (name == "nothing") || len(report.Runs[0].Tool.Driver.Rules) < 30 {
			t.Errorf("%s: %d bytes, no run with results and rules", name, len(out))
		}
	}
	// The test can fail.
	report, err := sarif.FromString(`{"version":"2.0.0","runs":[]}`)
	if err == nil {
		err = report.Validate()
	}
	if err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("a document of another version is admitted: %v", err)
	}
}
