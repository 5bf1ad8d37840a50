// SPDX-License-Identifier: Apache-2.0

// Package overlay builds programs from files that differ from those on the disk, by the -overlay flag of the go command.
//
// [Runtime] are the edits with which a Go program runs the same way each time: see there. Mutations of the product are edits, too.
package overlay

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Edit replaces a text, which must be in the file exactly once. A file that begins with "$GOROOT/" is one of the Go installation,
// others are relative to the root of the main module.
type Edit struct {
	File, Old, New string
}

// Tag is the build tag of programs with the edits of [Runtime].
const Tag = "exact"

// Runtime are the edits that take chance out of the Go runtime. Random numbers (for the order of maps, of select and of timers that
// fire at the same instant, and math/rand) come from a state that the program sets. Goroutines run until they block: the runtime
// preempts none because it has run for 10 ms of real time, and a mutex does not change its mode after a wait of 1 ms of real time.
// With one processor, and without garbage collection and system calls, the order of all that happens is then the same in each run.
func Runtime() []Edit {
	const file = "$GOROOT/src/runtime/"
	return []Edit{
		// What depends on the start of the process, such as the seeds of hashes.
		{
			file + "rand.go",
			"if len(startupRand) >= 16 &&",
			"for i := range seed {\n\t\tseed[i] = byte(i + 1)\n\t}\n\tif !allZero(seed[:]) {\n\t} else if len(startupRand) >= 16 &&",
		},
		// The seeds of maps, and where an iteration begins, are the same within a simulation: a map that a process makes only once, for
		// a cache, must not change what comes after it.
		{file + "rand.go", "\tmp := getg().m\n\tc := &mp.chacha8\n", "\tif exactMaps != 0 {\n\t\treturn exactMaps\n\t}\n\tmp := getg().m\n\tc := &mp.chacha8\n"},
		{
			file + "rand.go", "var readRandomFailed bool\n",
			"var readRandomFailed bool\n\n//go:linkname exactState\nvar exactState uint64\n\n//go:linkname exactMaps\nvar exactMaps uint64\n\n" +
				"//go:nosplit\n//go:linkname exactRand\nfunc exactRand() uint64 {\n\tif exactState == 0 {\n\t\treturn rand()\n\t}\n" +
				"\texactState += 0x9e3779b97f4a7c15 // splitmix64\n\tz := exactState\n" +
				"\tz = (z ^ z>>30) * 0xbf58476d1ce4e5b9\n\tz = (z ^ z>>27) * 0x94d049bb133111eb\n\treturn z ^ z>>31\n}\n",
		},
		{"$GOROOT/src/math/rand/rand.go", "//go:linkname runtime_rand runtime.rand\n", "//go:linkname runtime_rand runtime.exactRand\n"},
		{"$GOROOT/src/math/rand/v2/rand.go", "//go:linkname runtime_rand runtime.rand\n", "//go:linkname runtime_rand runtime.exactRand\n"},
		// A new thread is no event of the program.
		{file + "rand.go", "\tmp.cheaprand = rand()\n", "\tmp.cheaprand = bootstrapRand()\n"},
		{file + "select.go", "j := cheaprandn(uint32(norder + 1))", "j := uint32(exactRand() % uint64(norder+1))"},
		{file + "time.go", "t.rand = cheaprand()", "t.rand = uint32(exactRand())"},
		{file + "proc.go", "const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 1 << 60"},
		// Nor is it one how many goroutines have run before.
		{file + "proc.go", "if pp.schedtick%61 == 0 && !sched.runq.empty() {", "if false {"},
		// A goroutine that waits for a mutex lets the time of a bubble pass, as in a program: nats.go connects with one held.
		{
			file + "runtime2.go", "\twaitReasonSyncCondWait:          true,\n",
			"\twaitReasonSyncCondWait:          true,\n\twaitReasonSyncMutexLock: true,\n\twaitReasonSyncRWMutexRLock: true,\n\twaitReasonSyncRWMutexLock: true,\n",
		},
		{"$GOROOT/src/internal/sync/mutex.go", "starvationThresholdNs = 1e6", "starvationThresholdNs = 1 << 60"},
	}
}

// Build builds the tests of a package in the directory of its module, with edits, as dir/name. The go command caches what it has
// built, so the same edits are built once.
func Build(ctx context.Context, module, pkg, root, dir, name string, edits []Edit) (string, error) {
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("overlay: go env: %w", err)
	}
	if root, err = filepath.Abs(root); err != nil { // the go command runs elsewhere
		return "", fmt.Errorf("overlay: %w", err)
	}
	texts := map[string]string{}
	for _, e := range edits {
		path := filepath.Join(root, e.File)
		if rest, ok := strings.CutPrefix(e.File, "$GOROOT/"); ok {
			path = filepath.Join(strings.TrimSpace(string(goroot)), rest)
		}
		text, ok := texts[path]
		if !ok {
			read, err := os.ReadFile(path)
			if err != nil {
				return "", fmt.Errorf("overlay: %w", err)
			}
			text = string(read)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return "", fmt.Errorf("overlay: %s has %d times %q, not once: adapt the edit", e.File, n, e.Old)
		}
		texts[path] = strings.Replace(text, e.Old, e.New, 1)
	}
	replace := map[string]string{}
	for path, text := range texts {
		at := filepath.Join(dir, fmt.Sprintf("%s-%d-%s", name, len(replace), filepath.Base(path)))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("overlay: %w", err)
		}
		replace[path] = at
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	file := filepath.Join(dir, name+".json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	out := filepath.Join(dir, name)
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", file, "-tags", Tag, "-o", out, pkg) //nolint:gosec // arguments of a test
	build.Dir = module
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("overlay: build %s: %w\n%s", name, err, said)
	}
	return out, nil
}
