// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a recording.
const (
	// maxCalls bounds the calls that are kept, some 200 bytes and their arguments each.
	maxCalls = 200_000
	// maxBytes bounds all files together: those that record.max_files and record.max_file_bytes keep by default.
	maxBytes = 20 * 64 << 20
	// maxLine bounds one line: an input and an output of the largest size that is recorded, twice over.
	maxLine = 16 << 20
	// maxBad bounds the lines that are skipped: a record that a crash cut off has one in each file, and another file has many.
	maxBad = 100
)

// line is one line of calls.jsonl.
type line struct {
	Tool       *string         `json:"tool"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output"`
	Error      *failure        `json:"error"`
	Preview    bool            `json:"preview"`
	DurationMs *float64        `json:"durationMs"`
}

// failure is the error of a line.
type failure struct {
	Message string `json:"error_message"`
	Data    struct {
		Code          string            `json:"code"`
		Retryable     *bool             `json:"retryable"`
		RetryAfterMs  int64             `json:"retryAfterMs"`
		BackendCode   string            `json:"backendCode"`
		BackendStatus uint32            `json:"backendStatus"`
		Details       []json.RawMessage `json:"details"`
	} `json:"error_details"`
}

// call is where a recorded call is.
type call struct {
	tool   string
	file   int
	offset int64
	length int
	took   time.Duration
}

// Recording are recorded calls. Make one with [Open].
type Recording struct {
	dir   string
	files []*os.File
	calls []call
	bad   []string // what was skipped, and why
	// unfinished are the calls that a run had not ended, which have no answer.
	unfinished int
}

// Open reads where the calls of a recording are: of a file, of the run in a directory, or of the newest run below it. The error names
// the file, and the line where there is one.
func Open(dir string) (*Recording, error) {
	names, err := find(dir)
	if err != nil {
		return nil, err
	}
	r := &Recording{dir: dir}
	var total int64
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.files = append(r.files, f)
		if info, err := f.Stat(); err == nil {
			total += info.Size()
		}
		if total > maxBytes {
			return nil, errors.Join(fmt.Errorf("%s: more than %d bytes in all; keep the runs that are needed", name, int64(maxBytes)), r.Close())
		}
		if err := r.read(len(r.files)-1, f); err != nil {
			return nil, errors.Join(fmt.Errorf("%s%w", name, err), r.Close())
		}
	}
	if len(r.calls) == 0 {
		return nil, errors.Join(fmt.Errorf("%s: no recorded call; record some with --record-payloads", dir), r.Close())
	}
	return r, nil
}

// find returns the files of a recording, in the order in which they were written.
func find(dir string) ([]string, error) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; --record-payloads writes a recording below --record-dir", dir)
	} else if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{dir}, nil
	}
	for _, at := range []string{dir, filepath.Join(dir, ".latest"), filepath.Join(dir, "mcp_server", "envelope_validation", ".latest")} {
		if names := files(at); len(names) > 0 {
			return names, nil
		}
	}
	return nil, fmt.Errorf("%s: no calls.jsonl; --record-payloads writes one below --record-dir", dir)
}

// files returns the files of documents in a directory: those that were set aside, by their numbers, and the last one.
func files(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // there may be another place
	}
	number := func(name string) uint64 {
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(name, "calls."), ".jsonl"), 10, 64)
		if name == "calls.jsonl" {
			return math.MaxUint64
		} else if err != nil {
			return 0
		}
		return n
	}
	for _, e := range entries {
		if !e.IsDir() && number(e.Name()) > 0 {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	for i := range names {
		names[i] = filepath.Join(dir, names[i])
	}
	return names
}

// read reads a file to its end.
func (r *Recording) read(file int, from io.Reader) error {
	in := bufio.NewReaderSize(from, 64<<10)
	var text []byte
	var offset int64
	for number := 1; ; number++ {
		var size int64
		var err error
		text, size, err = readLine(in, text[:0])
		if len(bytes.TrimSpace(text)) > 0 || size > maxLine {
			if why := r.take(file, offset, text, size); why != "" {
				if r.bad = append(r.bad, fmt.Sprintf("%s:%d: %s", filepath.Base(r.files[file].Name()), number, why)); len(r.bad) > maxBad {
					return fmt.Errorf(":%d: %s; more than %d lines are no recorded calls", number, why, maxBad)
				}
			}
			if len(r.calls) > maxCalls {
				return fmt.Errorf(":%d: more than %d calls in all; keep the runs that are needed", number, maxCalls)
			}
		}
		if offset += size; errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf(":%d: %w", number, err)
		}
	}
}

// readLine appends a line to dst, as far as it is not too long, and returns its size.
func readLine(in *bufio.Reader, dst []byte) (text []byte, size int64, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if size += int64(len(part)); size <= maxLine {
			dst = append(dst, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return dst, size, err //nolint:wrapcheck // io.EOF, or what the file says
		}
	}
}

// take keeps where a call is, and returns why a line is none.
func (r *Recording) take(file int, offset int64, text []byte, size int64) (why string) {
	if size > maxLine {
		return fmt.Sprintf("the line has %d bytes, more than %d", size, maxLine)
	}
	one, why := parse(text)
	switch {
	case why != "":
		return why
	case one.Tool == nil:
		r.unfinished++
		return ""
	}
	c := call{tool: *one.Tool, file: file, offset: offset, length: len(text)}
	if one.DurationMs != nil {
		c.took = time.Duration(min(max(*one.DurationMs, 0), maxTook.Seconds()*1000) * float64(time.Millisecond))
	}
	r.calls = append(r.calls, c)
	return ""
}

// maxTook bounds the time of one answer.
const maxTook = 10 * time.Minute

// parse reads a line, and says why it is none of a recording.
func parse(text []byte) (out *line, why string) {
	out = new(line)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, "no JSON of a recorded call: " + err.Error()
	}
	isResult := len(out.Output) > 0 && !bytes.Equal(out.Output, []byte("null"))
	switch {
	case len(out.Input) == 0 && len(out.Output) == 0:
		return nil, "no recorded call: it has neither input nor output"
	case isResult && out.Output[0] != '{':
		return nil, "the output is no object"
	case out.Tool != nil && *out.Tool == "":
		return nil, "the tool has no name"
	case !isResult:
		out.Output = nil
	}
	return out, ""
}

// line reads a call again.
func (r *Recording) line(c *call) (*line, error) {
	text := make([]byte, c.length)
	if _, err := r.files[c.file].ReadAt(text, c.offset); err != nil {
		return nil, fmt.Errorf("read the recorded call: %w", err)
	}
	out, why := parse(text)
	if why != "" || out.Tool == nil || *out.Tool != c.tool {
		return nil, fmt.Errorf("%s has changed since it was read", r.files[c.file].Name())
	}
	return out, nil
}

// Close closes the files. Calls are no longer answered then.
func (r *Recording) Close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
