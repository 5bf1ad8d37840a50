// SPDX-License-Identifier: Apache-2.0

// Package memory keeps the process within its memory limit: it determines the
// limit, configures Go's garbage collector, and monitors usage, so that new work
// can be rejected before the kernel kills the process.
//
// It rejects nothing itself: [Guard.Short] is for code that admits work. A Guard is
// safe for concurrent use.
package memory

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// share is the part of a container's limit that is for Go's heap and stacks; the
// rest is for what Go does not count: the binary's pages and the kernel's own.
const share = 0.9

// unlimited is above what any control group means by a number: the first version
// has one near 1<<63 for "none".
const unlimited = 1 << 60

// Limit returns the number of bytes that Go may use and the source of this limit, or
// zero if there is none. A configured number has precedence over goMemLimit, which is
// the runtime's value of GOMEMLIMIT ([math.MaxInt64] for none). goMemLimit has
// precedence over a share of the limit of the process's control group.
func Limit(configured, goMemLimit int64, root fs.FS) (bytes int64, source string) {
	if configured > 0 {
		return configured, "--memory-limit"
	}
	if goMemLimit > 0 && goMemLimit < math.MaxInt64 {
		return goMemLimit, "GOMEMLIMIT"
	}
	if group := groupLimit(root); group > 0 {
		return int64(float64(group) * share), "the control group"
	}
	return 0, ""
}

// groupLimit is the least limit of the control groups that the process is in, of
// either version; zero for none. Where the files cannot be read there is none: not
// every system has them.
func groupLimit(root fs.FS) int64 {
	least := int64(0)
	for _, file := range groupFiles(root) {
		raw, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		if err != nil || n <= 0 || n >= unlimited {
			continue // "max"
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}

// groupFiles are the files that may hold a limit: of the group of the process and
// those around it, and of the root, which is the process' own group inside a
// container.
func groupFiles(root fs.FS) []string {
	files := []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}
	raw, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(raw)) {
		// cgroups(7): hierarchy, controllers, path; version 2 is hierarchy 0 without
		// controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var base, name string
		switch {
		case parts[0] == "0" && parts[1] == "":
			base, name = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+parts[1]+",", ",memory,"):
			base, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for at := path.Clean("/" + parts[2]); at != "/"; at = path.Dir(at) {
			files = append(files, path.Join(base, at, name))
		}
	}
	return files
}
