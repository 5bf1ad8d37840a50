// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"bufio"
	"debug/elf"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unacknowledged is how many bytes the kernel holds that the peer has not taken
// (tcp(7), SIOCOUTQ); negative where that is unknown.
func unacknowledged(c net.Conn) int {
	held := -1
	control(c, func(fd int) {
		if n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err == nil {
			held = n
		}
	})
	return held
}

// refuseNew makes the kernel drop what would begin a connection to a listener, while
// handshakes that have begun complete. A client repeats its SYN after a second, and
// finds the listener closed then. Where the kernel does not take the filter, nothing
// changes.
func refuseNew(l net.Listener) {
	const (
		flags    = 13 // offset in the TCP header
		syn      = 0x02
		synOrAck = 0x12
	)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: synOrAck},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: syn},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},          // drop
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff}, // keep all of it
	}
	control(l, func(fd int) {
		_ = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
}

// queued is how many connections wait to be accepted.
func queued(l net.Listener) int {
	waiting := 0
	control(l, func(fd int) {
		// On a listener, the kernel reports the length of its queue as Unacked.
		if info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO); err == nil {
			waiting = int(info.Unacked)
		}
	})
	return waiting
}

// receiveNow reads what is there already, also after the read deadline.
func receiveNow(conn net.Conn, p []byte) int {
	got := 0
	control(conn, func(fd int) {
		if n, _, err := unix.Recvfrom(fd, p, unix.MSG_DONTWAIT); err == nil {
			got = n
		}
	})
	return got
}

// control runs f on the file descriptor of a listener or connection that has one.
func control(of any, f func(fd int)) {
	has, ok := of.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := has.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// ReleaseMemory returns memory that is not needed at rest: free heap, and pages of the
// executable. Most of those pages were read only once, at startup (package tables,
// descriptors, the compiler of rules). In a pod they count towards the container's
// memory until the kernel is short of it. Pages that are needed again come from the page
// cache. Release returns the number of unmapped bytes of the executable.
func ReleaseMemory() (int, error) {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0, fmt.Errorf("find the executable: %w", err)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, fmt.Errorf("read the memory map: %w", err)
	}
	defer func() { _ = maps.Close() }()
	clean := cleanMappings()
	released := 0
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 6 || fields[5] != exe || !slices.Contains(clean, fields[1]) {
			continue
		}
		n, err := unmap(fields[0])
		if err != nil {
			return released, err
		}
		released += n
	}
	return released, nil
}

// cleanMappings names the permissions of mappings that no one can have written
// to: dropping a private copy would lose data. Code is never written. Read-only
// data is not either, unless the loader relocated it first.
func cleanMappings() []string {
	code := []string{"r-xp"}
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		return code
	}
	defer func() { _ = file.Close() }()
	relocated := func(p *elf.Prog) bool { return p.Type == elf.PT_GNU_RELRO || p.Type == elf.PT_DYNAMIC }
	if file.Type != elf.ET_EXEC || slices.ContainsFunc(file.Progs, relocated) {
		return code
	}
	return append(code, "r--p")
}

// unmap drops the pages of one range of the memory map ("from-to", hexadecimal).
func unmap(span string) (int, error) {
	var from, to uintptr
	if _, err := fmt.Sscanf(span, "%x-%x", &from, &to); err != nil {
		return 0, fmt.Errorf("read the memory map: %w", err)
	}
	// The range holds the executable's own pages, mapped for the life of the
	// process; its address is computed from something that lies in it.
	base := unsafe.Pointer(unsafe.StringData(anchor))
	start := unsafe.Add(base, int(from)-int(uintptr(base)))
	pages := unsafe.Slice((*byte)(start), to-from)
	if err := syscall.Madvise(pages, syscall.MADV_DONTNEED); err != nil {
		return 0, fmt.Errorf("release pages: %w", err)
	}
	return len(pages), nil
}

// anchor lies in the executable's read-only data.
const anchor = "outrigger"
