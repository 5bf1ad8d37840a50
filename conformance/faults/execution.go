// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
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

// Journal is the backend's book: a file of one JSON line for each execution. A
// line is one write to a file that is only appended to, so it outlives a process
// that is killed right after, and several processes can write one after the
// other. It is safe for concurrent use.
type Journal struct {
	mu   sync.Mutex
	file *os.File
}

// OpenJournal opens or makes the file.
func OpenJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // the rig names the file
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return &Journal{file: f}, nil
}

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

// ReadJournal returns what is in the file, in the order of its lines.
func ReadJournal(path string) ([]Execution, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	defer func() { _ = f.Close() }()
	var all []Execution
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e Execution
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("journal, line %d: %w", len(all)+1, err)
		}
		all = append(all, e)
	}
	return all, lines.Err()
}
