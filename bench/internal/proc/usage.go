// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the CPU time that the process has used so far, user and system, all its threads, ended ones included. It is
// the sum that utime and stime of /proc/PID/stat show in ticks of 10 ms, read from the process's CPU clock in
// nanoseconds instead.
func (p *Process) CPU() (time.Duration, error) { return cpuTime(p.PID()) }

// OwnCPU is the same of this process.
func OwnCPU() (time.Duration, error) { return cpuTime(os.Getpid()) }

func cpuTime(pid int) (time.Duration, error) {
	// The id of a process's CPU clock is made from its pid, as clock_getcpuclockid(3) does: the complement of the pid,
	// shifted by three bits that say "process" (0) and "scheduler time" (2).
	clock := int32(^pid<<3 | 2)
	var now unix.Timespec
	if err := unix.ClockGettime(clock, &now); err != nil {
		return 0, fmt.Errorf("cpu clock of process %d: %w", pid, err)
	}
	return time.Duration(now.Nano()), nil
}

// Memory is what a process holds, in bytes.
type Memory struct {
	// RSS is what is resident now, Peak the most that ever was.
	RSS, Peak int64
	// Anon is the part of RSS that is the process's own: heap, stacks, written data. The rest are pages of files, here
	// of the executable, which the page cache holds anyway.
	Anon int64
}

// Memory reads VmRSS, VmHWM and RssAnon.
func (p *Process) Memory() (Memory, error) {
	path := fmt.Sprintf("/proc/%d/status", p.PID())
	text, err := os.ReadFile(path)
	if err != nil {
		return Memory{}, fmt.Errorf("memory: %w", err)
	}
	var m Memory
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		name, value, _ := strings.Cut(scan.Text(), ":")
		var into *int64
		switch name {
		case "VmRSS":
			into = &m.RSS
		case "VmHWM":
			into = &m.Peak
		case "RssAnon":
			into = &m.Anon
		default:
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("memory: %s: %w", path, err)
		}
		*into = kib << 10
	}
	if m.RSS == 0 || m.Peak == 0 || m.Anon == 0 {
		return Memory{}, fmt.Errorf("memory: %s lacks VmRSS, VmHWM or RssAnon", path)
	}
	return m, nil
}

// ResetPeak has Memory.Peak count from now on.
func (p *Process) ResetPeak() error {
	const peaks = "5" // proc(5), clear_refs
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte(peaks), 0); err != nil {
		return fmt.Errorf("reset the peak of memory: %w", err)
	}
	return nil
}
