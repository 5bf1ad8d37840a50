// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// buildTimeout bounds all builds together: from an empty cache, the race
// detector's variant of every package has to be compiled.
const buildTimeout = 8 * time.Minute

// Main builds the sidecar into a folder that lasts as long as the tests, has built
// take the binary and build what else they need there, runs them, and looks for
// goroutines that they left but those that ignore names. It returns the exit code of TestMain.
//
// OUTRIGGER_TEST_BINARY names a sidecar that is there already: one without the race
// detector leaves more of the machine to attackers.
func Main(m *testing.M, built func(ctx context.Context, binary, dir string) error, ignore ...goleak.Option) int {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := prepare(dir, built); err != nil {
		return failed(err)
	}
	if err := os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state")); err != nil { // run records end with the tests
		return failed(err)
	}
	if code := m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(ignore...); err != nil {
		return failed(err)
	}
	return 0
}

// prepare builds everything within buildTimeout.
func prepare(dir string, built func(ctx context.Context, binary, dir string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	binary := os.Getenv("OUTRIGGER_TEST_BINARY")
	if binary == "" {
		var err error
		if binary, err = Build(ctx, dir); err != nil {
			return err
		}
	}
	binary, err := filepath.Abs(binary) // processes have folders of their own
	if err != nil {
		return err
	}
	return built(ctx, binary, dir)
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
