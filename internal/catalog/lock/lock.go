// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	ownjsontext "github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// Version is the version of the file format that [Lock.JSON] writes and [Parse] reads.
	Version = 1
	// MaxFileBytes is the largest lock file that is read. A tool takes about 350 bytes.
	MaxFileBytes = 64 << 20
)

// Lock is a list of tools with their digests. Make one with [New], [Parse] or [Read].
type Lock struct {
	entries []Entry // by name
}

// New makes a lock of tools. Their names must differ.
func New(entries []Entry) *Lock {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return &Lock{entries: entries}
}

// Len returns the number of tools.
func (l *Lock) Len() int { return len(l.entries) }

// Digest returns the digest of all tools together: the SHA-256 of the RFC 8785 form of one object with the digest of each
// tool under its name.
func (l *Lock) Digest() string {
	object := []byte{'{'}
	for i, e := range l.entries {
		if i > 0 {
			object = append(object, ',')
		}
		object = append(ownjsontext.AppendString(object, e.Name), `:"`+e.Digest+`"`...)
	}
	// Names and digests are ASCII, and the names differ, so it has a canonical form.
	canonical, err := canonicalise(append(object, '}'))
	if err != nil {
		return ""
	}
	return sum(canonical)
}

// document is a lock file.
type document struct {
	Version int     `json:"version"`
	Tools   []Entry `json:"tools"`
}

// JSON returns the lock as a file: sorted by name, indented, with a line feed at the end. Equal locks have equal bytes.
func (l *Lock) JSON() ([]byte, error) {
	entries := l.entries
	if entries == nil {
		entries = []Entry{}
	}
	raw, err := json.MarshalIndent(document{Version: Version, Tools: entries}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("catalog lock: %w", err)
	}
	return append(raw, '\n'), nil
}

// Read reads a lock file. The error names the file.
func Read(path string) (*Lock, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("catalog lock: %s is not a regular file", path) // to open a pipe waits for a writer
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("catalog lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("catalog lock: %w", err)
	}
	lock, err := Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("catalog lock %s: %w", path, err)
	}
	return lock, nil
}

// Parse reads the text of a lock file. It refuses unknown members, so that a misspelled one is not taken for a missing
// tool.
func Parse(raw []byte) (*Lock, error) {
	if len(raw) > MaxFileBytes {
		return nil, fmt.Errorf("the file is larger than %d bytes", MaxFileBytes)
	}
	var version struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return nil, fmt.Errorf("not a lock file: %w", err)
	}
	switch {
	case version.Version == nil:
		return nil, errors.New(`not a lock file: it has no "version"`)
	case *version.Version != Version:
		return nil, fmt.Errorf("version %d is not supported; this sidecar reads version %d", *version.Version, Version)
	}
	var file document
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("not a lock file: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not a lock file: text follows the JSON object")
	}
	if file.Tools == nil {
		return nil, errors.New(`not a lock file: it has no "tools"`)
	}
	lock := New(file.Tools)
	for i, e := range lock.entries {
		if err := e.check(); err != nil {
			return nil, err
		}
		if i > 0 && lock.entries[i-1].Name == e.Name {
			return nil, fmt.Errorf("tool %q is listed twice", e.Name)
		}
	}
	return lock, nil
}

// check finds faults of an entry that was read from a file.
func (e Entry) check() error {
	switch {
	case e.Name == "":
		return errors.New("a tool has no name")
	case !isHex(e.Digest, 2*32):
		return fmt.Errorf("tool %q: digest is not 64 lowercase hex digits", e.Name)
	}
	for member, digest := range e.Members {
		if !slices.Contains(covered(), member) {
			return fmt.Errorf("tool %q: unknown member %q", e.Name, member)
		}
		if !isHex(digest, shortDigits) {
			return fmt.Errorf("tool %q: digest of %s is not %d lowercase hex digits", e.Name, member, shortDigits)
		}
	}
	return nil
}

// covered are the members with digests of their own, sorted.
func covered() []string { return []string{Annotations, Description, InputSchema, OutputSchema} }

func isHex(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}
