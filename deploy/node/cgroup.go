// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// cgroupVariable names the node's cgroup, in the environment of who is inside.
const cgroupVariable = "OUTRIGGER_NODE_CGROUP"

const cgroupMount = "/sys/fs/cgroup"

// hierarchies are the mounts of cgroups: one for each controller in version 1,
// and a single one in version 2.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{cgroupMount}, nil
	}
	found, err := filepath.Glob(filepath.Join(cgroupMount, "*", "cgroup.procs"))
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("there are no cgroups at %s (%w)", cgroupMount, err)
	}
	for i, path := range found {
		found[i] = filepath.Dir(path)
	}
	return found, nil
}

// makeCgroups makes the node's cgroup in every hierarchy.
func makeCgroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range all {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as the kernel makes them
			return fmt.Errorf("node: cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroups removes the node's cgroups, innermost first. The kernel lets go
// of them a moment after the last process has ended.
func removeCgroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range all {
		var folders []string
		_ = filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				folders = append(folders, path)
			}
			return nil // what has gone meanwhile need not be removed
		})
		slices.Reverse(folders)
		for _, folder := range folders {
			if err := removeCgroup(folder); err != nil {
				return err
			}
		}
	}
	return nil
}

func removeCgroup(folder string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := syscall.Rmdir(folder)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || wait > 2*time.Second {
			return fmt.Errorf("remove the cgroup %s: %w", folder, err)
		}
		time.Sleep(wait)
	}
}

// CgroupFile reads a control file of a process, such as "memory.limit_in_bytes"
// of version 1 or "memory.max" of version 2: the first of names that one of its
// cgroups has.
func CgroupFile(pid int, names ...string) (string, error) {
	lines, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(lines)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		folder := filepath.Join(cgroupMount, parts[1], parts[2])
		for _, name := range names {
			if text, err := os.ReadFile(filepath.Join(folder, name)); err == nil {
				return strings.TrimSpace(string(text)), nil
			}
		}
	}
	return "", fmt.Errorf("process %d has none of %v", pid, names)
}

// CPU returns the CPU time that a process's cgroup has used: that of its container.
func CPU(pid int) (time.Duration, error) {
	text, err := CgroupFile(pid, "cpuacct.usage", "cpu.stat")
	if err != nil {
		return 0, err
	}
	var used int64
	if _, err := fmt.Sscanf(text, "usage_usec %d", &used); err == nil { // version 2
		return time.Duration(used) * time.Microsecond, nil
	}
	_, err = fmt.Sscanf(text, "%d", &used)
	return time.Duration(used), err
}

// Process returns the first process of a container: the one with the lowest id
// in the container's cgroup.
func Process(containerID string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	lowest := 0
	for _, entry := range entries {
		var pid int
		if _, err := fmt.Sscanf(entry.Name(), "%d", &pid); err != nil {
			continue
		}
		lines, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cgroup"))
		if err == nil && strings.Contains(string(lines), containerID) && (lowest == 0 || pid < lowest) {
			lowest = pid
		}
	}
	if lowest == 0 {
		return 0, fmt.Errorf("container %s has no process", containerID)
	}
	return lowest, nil
}
