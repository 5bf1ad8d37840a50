// SPDX-License-Identifier: Apache-2.0

// Package lock computes the digests of tools, keeps them in a lock file, and tells what has changed since.
//
// A digest is the SHA-256 of the RFC 8785 form (JCS) of what clients see of a tool: name, description, schemas and
// annotations. Clients compute the same digest from a listing. docs/catalog-lock.md has the members and an example.
//
// A [Lock] lists the tools that somebody has reviewed, each with its digest and the digests of its members. The file is
// JSON, sorted by name, so that a change of one tool is a diff of a few lines. [Lock.Compare] returns the tools that were
// added, removed and changed.
//
// The package knows neither catalogs nor the network, and decides nothing: whether drift is reported or refused is up to
// the caller. All values are immutable after they were made and safe for concurrent use.
package lock

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	ownjsontext "github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// formatVersion is the version of the file format that [Lock.JSON] writes and [Parse] reads.
	formatVersion = 1
	// maxFileBytes is the largest lock file that is read. A tool takes about 350 bytes.
	maxFileBytes = 64 << 20
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
	raw, err := json.MarshalIndent(document{Version: formatVersion, Tools: entries}, "", "  ")
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
	raw, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
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
	if len(raw) > maxFileBytes {
		return nil, fmt.Errorf("the file is larger than %d bytes", maxFileBytes)
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
	case *version.Version != formatVersion:
		return nil, fmt.Errorf("version %d is not supported; this sidecar reads version %d", *version.Version, formatVersion)
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

// The members of a tool that a digest covers, as MCP names them.
const (
	Name         = "name"
	Description  = "description"
	InputSchema  = "inputSchema"
	OutputSchema = "outputSchema"
	Annotations  = "annotations"
)

// Members are the parts of a tool that its digest covers, as clients see them.
type Members struct {
	// Name is the canonical name.
	Name, Description string
	// InputSchema and Annotations are JSON objects. OutputSchema is one too, or empty if the tool has no output schema.
	InputSchema, OutputSchema, Annotations json.RawMessage
}

// shortDigits is the length of the digest of a single member. It only tells a reviewer which member changed; the digest
// of the tool decides.
const shortDigits = 16

// Entry is a tool in a lock.
type Entry struct {
	// Name is the canonical name of the tool.
	Name string `json:"name"`
	// Digest is the SHA-256 of the tool, 64 lowercase hex digits. It is empty only for a tool that has no RFC 8785 form.
	Digest string `json:"digest"`
	// Members are the first 16 hex digits of the SHA-256 of each member except the name, by the member's name. A tool
	// without an output schema has none for that.
	Members map[string]string `json:"members"`
}

// NewEntry computes the digests of a tool. If a member has no RFC 8785 form, because it is not valid JSON, has duplicate
// names or text that is not Unicode, the error names it, and the entry has no digest.
func NewEntry(m Members) (Entry, error) {
	entry := Entry{Name: m.Name, Members: map[string]string{}}
	object := append([]byte(`{"name":`), ownjsontext.AppendString(nil, m.Name)...)
	var faults []error
	for _, member := range [...]struct {
		name  string
		value []byte
	}{
		{Description, ownjsontext.AppendString(nil, m.Description)},
		{InputSchema, m.InputSchema},
		{OutputSchema, m.OutputSchema},
		{Annotations, m.Annotations},
	} {
		if len(member.value) == 0 {
			continue
		}
		canonical, err := canonicalise(member.value)
		if err != nil {
			faults = append(faults, fmt.Errorf("tool %s: %s: %w", m.Name, member.name, err))
			continue
		}
		entry.Members[member.name] = sum(canonical)[:shortDigits]
		object = append(append(object, `,"`+member.name+`":`...), canonical...)
	}
	if len(faults) > 0 {
		return entry, errors.Join(faults...)
	}
	canonical, err := canonicalise(append(object, '}'))
	if err != nil {
		return entry, fmt.Errorf("tool %s: %w", m.Name, err)
	}
	entry.Digest = sum(canonical)
	return entry, nil
}

// canonicalise returns the RFC 8785 form of a JSON text. Numbers become IEEE 754 doubles, as the RFC requires.
func canonicalise(text []byte) ([]byte, error) {
	value := append(jsontext.Value(nil), text...)
	err := value.Canonicalize()
	return value, err
}

// SumOf returns the SHA-256 of the RFC 8785 form of a JSON text, 64 lowercase hex digits.
func SumOf(text []byte) (string, error) {
	canonical, err := canonicalise(text)
	if err != nil {
		return "", err
	}
	return sum(canonical), nil
}

func sum(text []byte) string {
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])
}

// Drift is the difference between a lock and the tools that there are. The zero value is none.
type Drift struct {
	// Added are the names of tools that are not in the lock, Removed those of tools that are only in the lock. Sorted.
	Added, Removed []string
	// Changed are the tools whose digests differ, by name.
	Changed []Change
}

// Change is a tool that differs from its lock.
type Change struct {
	Name string
	// Members are the members that differ, sorted. It is empty if the lock does not tell.
	Members []string
}

// String returns the name and the members: "shop.get (description, inputSchema)".
func (c Change) String() string {
	if len(c.Members) == 0 {
		return c.Name
	}
	return c.Name + " (" + strings.Join(c.Members, ", ") + ")"
}

// Compare returns the difference between the lock and the tools that there are now. A tool without a digest counts as
// changed: no one can have approved it.
func (l *Lock) Compare(now []Entry) Drift {
	var out Drift
	locked := l.entries
	for _, e := range New(now).entries {
		for len(locked) > 0 && locked[0].Name < e.Name {
			out.Removed = append(out.Removed, locked[0].Name)
			locked = locked[1:]
		}
		if len(locked) == 0 || locked[0].Name != e.Name {
			out.Added = append(out.Added, e.Name)
			continue
		}
		if e.Digest == "" || e.Digest != locked[0].Digest {
			out.Changed = append(out.Changed, Change{Name: e.Name, Members: differ(locked[0], e)})
		}
		locked = locked[1:]
	}
	for _, e := range locked {
		out.Removed = append(out.Removed, e.Name)
	}
	return out
}

func differ(locked, now Entry) []string {
	if len(locked.Members) == 0 {
		return nil
	}
	return slices.DeleteFunc(covered(), func(member string) bool { return locked.Members[member] == now.Members[member] })
}

// IsNone reports whether there is no difference.
func (d Drift) IsNone() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

// Equal reports whether two differences are the same.
func (d Drift) Equal(other Drift) bool {
	return slices.Equal(d.Added, other.Added) && slices.Equal(d.Removed, other.Removed) &&
		slices.EqualFunc(d.Changed, other.Changed, func(a, b Change) bool { return a.Name == b.Name && slices.Equal(a.Members, b.Members) })
}

// Unapproved returns the names of the tools that were added or changed. No one has approved them as they are.
func (d Drift) Unapproved() map[string]bool {
	out := make(map[string]bool, len(d.Added)+len(d.Changed))
	for _, name := range d.Added {
		out[name] = true
	}
	for _, c := range d.Changed {
		out[c.Name] = true
	}
	return out
}

// String returns the numbers: "1 added, 0 removed, 2 changed".
func (d Drift) String() string {
	return fmt.Sprintf("%d added, %d removed, %d changed", len(d.Added), len(d.Removed), len(d.Changed))
}
