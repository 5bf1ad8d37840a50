// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// maxTail is how much of the end of a trail or a record is read to find a line.
	maxTail = 4 << 20
	// maxFound bounds the lines of one invocation: its begin, its end and that of its task, and some to spare.
	maxFound = 8
	// isNear is how far the time of a line of the run record may be from the beginning of its call, which follows at once.
	isNear = 250 * time.Millisecond
)

// Lines returns the lines of an invocation, the oldest first, without arguments and results: of the end of the current file, and
// where that is short, of the one before. If there are none, note says why.
func (t *Audit) Lines(id ID) (lines []string, note string) {
	switch {
	case t == nil:
		return nil, "There is no audit trail (--audit)."
	case t.writer.opts.Out != nil:
		return nil, "The audit trail goes to standard output, which cannot be read back."
	}
	want := string(t.encoder.ids.append(nil, id))
	quoted := []byte(strconv.Quote(want))
	files, err := Files(t.writer.opts.Path)
	if err != nil {
		return nil, unreadable("audit trail", err)
	}
	left := int64(maxTail)
	for i := len(files) - 1; i >= 0 && left > 0; i-- {
		read, err := tail(files[i], left, func(raw []byte) bool {
			if !bytes.Contains(raw, quoted) {
				return true
			}
			if line, fault := parse(raw); fault == "" && line.ID == want {
				lines = append(lines, without(raw, "arguments", "result"))
			}
			return len(lines) < maxFound
		})
		if err != nil {
			return nil, unreadable("audit trail", err)
		}
		left -= read
	}
	if len(lines) == 0 {
		return nil, notFound("audit trail")
	}
	slices.Reverse(lines)
	return lines, ""
}

// Wanted says which line of a run record is that of a call: the line has no id of the call, but what its caller sent.
type Wanted struct {
	// RequestID is the id of the request, without JSON quotes. TraceID is that of the trace that the caller sent, or empty.
	RequestID, TraceID string
	// Tool is the canonical name of the tool, or empty. Caller is the name of the caller.
	Tool, Caller string
	// Began is when the call began.
	Began time.Time
}

// Line returns the line of a call, without payloads and the details of its error, from the end of the current file. If there is
// none, or more than one line may be it, note says so.
func (r *Run) Line(w Wanted) (line, note string) {
	if r == nil {
		return "", "There is no run record (--record-dir)."
	}
	var found [][]byte
	_, err := tail(r.folder.current(), maxTail, func(raw []byte) bool {
		switch isIt, isExact := r.matches(raw, &w); {
		case isExact:
			found = [][]byte{bytes.Clone(raw)}
			return false
		case isIt:
			found = append(found, bytes.Clone(raw))
		}
		return len(found) < 2
	})
	switch {
	case err != nil:
		return "", unreadable("run record", err)
	case len(found) == 0:
		return "", notFound("run record")
	case len(found) > 1:
		return "", "More than one line of the run record may be that of the call: other calls at the same time had the same id."
	}
	return withoutDetails(found[0]), ""
}

// recordLine is a line of a run record, as far as it is needed to choose it.
type recordLine struct {
	Timestamp time.Time       `json:"timestamp"`
	RequestID json.RawMessage `json:"requestId"`
	TraceID   string          `json:"traceId"`
	Tool      string          `json:"tool"`
	Caller    string          `json:"caller"`
}

// matches reports whether a line may be that of a call, and whether it can be no other's.
func (r *Run) matches(raw []byte, w *Wanted) (isIt, isExact bool) {
	var line recordLine
	if !bytes.Contains(raw, []byte(`"requestId":`)) || json.Unmarshal(raw, &line) != nil {
		return false, false
	}
	id, ok := jsontext.Text(line.RequestID)
	if !ok && !jsontext.IsNull(line.RequestID) {
		id = string(line.RequestID)
	}
	apart := w.Began.Sub(line.Timestamp).Abs()
	isSame := id == w.RequestID && line.Tool == w.Tool && (line.Caller == "" || line.Caller == w.Caller) && (r.opts.Deterministic || apart <= isNear)
	return isSame, isSame && w.TraceID != "" && line.TraceID == w.TraceID
}

// tail calls each for the whole lines in the last bytes of a file, the newest first, until it returns false. It returns how many
// bytes it has read. A file that is gone has none.
func tail(path string, most int64, each func(line []byte) bool) (read int64, err error) {
	about, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	case !about.Mode().IsRegular():
		return 0, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	from := max(about.Size()-most, 0)
	text := make([]byte, about.Size()-from)
	n, err := f.ReadAt(text, from)
	if n < len(text) {
		return 0, err
	}
	if from > 0 { // a piece of a line
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // nor one that is being written
	for len(text) > 0 {
		rest := text[:len(text)-1]
		at := bytes.LastIndexByte(rest, '\n') + 1
		if !each(rest[at:]) {
			break
		}
		text = text[:at]
	}
	return int64(n), nil
}

// without is a line without some of its members.
func without(line []byte, names ...string) string {
	out := []byte{'{'}
	for name, value := range jsontext.Fields(line) {
		if !slices.Contains(names, string(name)) {
			out = appendMember(out, name, value)
		}
	}
	return valid(append(out, '}'))
}

// withoutDetails is a line of a run record without its payloads, and without what callers and tools wrote in its error.
func withoutDetails(line []byte) string {
	out := []byte{'{'}
	for name, value := range jsontext.Fields(line) {
		switch string(name) {
		case "params", "result":
			continue
		case "error":
			if jsontext.IsObject(value) {
				value = []byte(without(value, "violations", "details", "backendStatus"))
			}
		}
		out = appendMember(out, name, value)
	}
	return valid(append(out, '}'))
}

// valid is a line that a message can hold: others may have written to the file.
func valid(line []byte) string { return string(bytes.ToValidUTF8(line, []byte("\uFFFD"))) }

func appendMember(dst, name, value []byte) []byte {
	if len(dst) > 1 {
		dst = append(dst, ',')
	}
	return append(append(jsontext.AppendText(dst, name), ':'), value...)
}

func unreadable(what string, err error) string {
	return fmt.Sprintf("The %s cannot be read: %v.", what, err)
}

func notFound(what string) string {
	return fmt.Sprintf("There is no line of the call in the last %d MB of the %s: it is not written yet, or further back.", maxTail>>20, what)
}
