// SPDX-License-Identifier: Apache-2.0

// Package machine says what a measurement was made on, and of.
package machine

import (
	"bufio"
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Describe returns what is known of the machine, one line. The load average tells whether others were at work on it.
func Describe() string {
	return fmt.Sprintf("%d cores, %s, %s of memory, Linux %s, %s, load average %s before",
		runtime.NumCPU(), cpuModel(), memory(), kernel(), runtime.Version(), loadAverage())
}

// loadAverage is the one of the last minute.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	minute, _, _ := strings.Cut(string(text), " ")
	return minute
}

// Commit returns the revision in root, with "and changes" where the Go code differs from it, and "unknown" without git.
func Commit(ctx context.Context, root string) string {
	head, err := git(ctx, root, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "unknown"
	}
	if changed, err := git(ctx, root, "status", "--porcelain", "--", "*.go", "go.mod"); err == nil && changed != "" {
		return head + " and changes"
	}
	return head
}

// GoVersion is the toolchain that a binary was built with.
func GoVersion(binary string) string {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "unknown"
	}
	return info.GoVersion
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	// Without --no-optional-locks, status would write the index while somebody commits.
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks"}, args...)...) //nolint:gosec // arguments of this file
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

func cpuModel() string {
	model, ok := field("/proc/cpuinfo", "model name")
	if !ok {
		return runtime.GOARCH
	}
	return model
}

func memory() string {
	text, _ := field("/proc/meminfo", "MemTotal")
	var kib int64
	if _, err := fmt.Sscanf(text, "%d kB", &kib); err != nil {
		return "an unknown amount"
	}
	return fmt.Sprintf("%d GiB", (kib+1<<19)>>20)
}

// field reads the first "name : value" line of a file of /proc.
func field(path, name string) (string, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		if key, value, ok := strings.Cut(scan.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}
