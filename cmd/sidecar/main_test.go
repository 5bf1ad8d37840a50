// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/outrigger-mcp/outrigger/internal/server/lastresort"
)

var update = flag.Bool("update", false, "rewrite what tests and scripts compare with")

func TestMain(m *testing.M) {
	testscript.Main(stateful{m}, map[string]func(){"sidecar": main})
}

// stateful runs the tests with a state directory that they leave nothing behind in, because serve writes records by default.
type stateful struct{ *testing.M }

func (m stateful) Run() int {
	// Dozens of sidecars share the heap of this process. Each of them would set the percentage for itself.
	const garbage = 400
	debug.SetGCPercent(garbage)
	if err := os.Setenv("GOGC", strconv.Itoa(garbage)); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "sidecar-state")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Setenv("XDG_STATE_HOME", dir); err != nil {
		panic(err)
	}
	return m.M.Run()
}

// run is the whole process but for its last resort, which would end all tests: many sidecars that share a busy machine may
// need more time than one has. conformance/abuse has a process that it ends.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	late := func(int) { fmt.Fprintf(os.Stderr, "sidecar %q did not end in time\n", args) }
	if !slices.Contains(args, "--config") { // which a variable would override
		environ = append([]string{patientCatalog}, environ...)
	}
	if slices.Contains(args, "stdio") { // its input often ends before it has a catalog
		environ = append([]string{"OUTRIGGER_GRACE=4m"}, environ...)
	}
	return runWith(ctx, lastresort.New(stderr, late), args, stdin, stdout, stderr, environ)
}

// patientCatalog has a call wait for the first catalog until a sidecar that shares a busy machine with dozens of others has it.
const patientCatalog = "OUTRIGGER_CATALOG_WAIT=5m"

// TestScripts runs testdata/script/*.txtar against the real binary.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_STATE_HOME", env.Getenv("WORK")+"/state")
			env.Vars = append(env.Vars, patientCatalog)
			demo, err := filepath.Abs("../../internal/demo/demo.binpb")
			if err != nil {
				return err
			}
			env.Setenv("DEMO_DESCRIPTORS", demo)
			env.Setenv("GOGC", "1000") // hundreds of processes that end after one command
			return nil
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "result": result},
	})
}

// exits runs a program and checks its exit code, as in "exits 2 sidecar serve --oops".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// onRecord compares a text with a file of testdata, or writes the file.
func onRecord(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("go test ./cmd/sidecar -run '%s$' -update writes %s (-on record +now):\n%s", t.Name(), path, diff)
	}
}

// result writes the result of the one JSON-RPC response on the last command's output to a file, as in "result list.json".
func result(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: result FILE")
	}
	var response struct {
		Result json.RawMessage `json:"result"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &response))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), response.Result, 0o600))
}
