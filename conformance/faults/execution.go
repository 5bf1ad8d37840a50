// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Execution is one run of a method, as the backend wrote it down when it began.
type Execution struct {
	Nonce  string    `json:"nonce"`
	Method string    `json:"method"`
	At     time.Time `json:"at"`
	// Process is the id of the process that ran it: a backend that was started
	// anew has another.
	Process int `json:"process"`
}

// Journal is the backend's book: a file of one JSON line for each execution, which is
// only appended to. It outlives a process that is killed, and several processes can write
// one after the other. A line counts once its end is there: the kernel writes page by page,
// so that a reader can see half of the last line, and a process that is killed can leave
// half of it. It is safe for concurrent use.
type Journal struct {
	mu   sync.Mutex
	file *os.File
}

// OpenJournal opens or makes the file. Half a line that a killed process left is cut off:
// it had not begun the execution. No other process may have the file open to write.
func OpenJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // the rig names the file
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the rig names the file
	if err == nil {
		err = f.Truncate(int64(len(whole(text))))
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("journal: %w", err)
	}
	return &Journal{file: f}, nil
}

// whole is a text without what follows the end of its last line.
func whole(text []byte) []byte { return text[:bytes.LastIndexByte(text, '\n')+1] }

// Begin writes down an execution. The backend calls it before it does anything
// else: what is not in the journal did not run.
func (j *Journal) Begin(method, nonce string) error {
	line, err := json.Marshal(Execution{Nonce: nonce, Method: method, At: time.Now(), Process: os.Getpid()})
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// ReadJournal returns what is in the file, in the order of its lines, without a last line
// that is still being written.
func ReadJournal(path string) ([]Execution, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var all []Execution
	for line := range bytes.Lines(whole(text)) {
		var e Execution
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("journal, line %d: %w", len(all)+1, err)
		}
		all = append(all, e)
	}
	return all, nil
}
