// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bufio"
	"debug/elf"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"unsafe"
)

// Release returns memory that is not needed at rest: free heap, and pages of the
// executable. Most of those pages were read only once, at startup (package tables,
// descriptors, the compiler of rules). In a pod they count towards the container's
// memory until the kernel is short of it. Pages that are needed again come from the page
// cache. Release returns the number of unmapped bytes of the executable.
func Release() (int, error) {
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
