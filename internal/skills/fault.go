// SPDX-License-Identifier: Apache-2.0

package skills

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a folder of skills.
type Fault struct {
	// Folder is the index of the folder, Path the file or folder with the fault, to show.
	Folder int
	Path   string
	// Reason says what is wrong, and what to do.
	Reason string
}

// String returns the path and the reason.
func (f Fault) String() string { return f.Path + ": " + f.Reason }

// Error has the faults of all folders, at most 20. More counts the others.
type Error struct {
	Faults []Fault
	More   int
}

// Error implements error.
func (e *Error) Error() string {
	texts := make([]string, len(e.Faults), len(e.Faults)+1)
	for i, f := range e.Faults {
		texts[i] = f.String()
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(texts, "; ")
}

// faults collects what is wrong.
type faults struct{ err Error }

func (f *faults) add(folder int, path, format string, args ...any) {
	if len(f.err.Faults) == maxFaults {
		f.err.More++
		return
	}
	f.err.Faults = append(f.err.Faults, Fault{Folder: folder, Path: path, Reason: fmt.Sprintf(format, args...)})
}

// any returns the error, nil without faults.
func (f *faults) any() error {
	if len(f.err.Faults) == 0 {
		return nil
	}
	return &f.err
}
