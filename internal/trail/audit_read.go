// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxLine bounds a line that [ReadAudit] reads: both payloads of the maximum size, grown by
// redaction and escapes, and the rest.
const maxLine = 16 << 20

// AuditLine is one line of a trail, as far as it is needed to choose and to show it.
type AuditLine struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"`
	ID     string    `json:"id"`
	Phase  Phase     `json:"phase"`
	Caller struct {
		Name     string `json:"name"`
		Subject  string `json:"subject"`
		Issuer   string `json:"issuer"`
		ClientID string `json:"client_id"`
		Source   string `json:"source"`
		Address  string `json:"address"`
		Operator string `json:"operator"`
	} `json:"caller"`
	Edge       string   `json:"edge"`
	Operation  string   `json:"operation"`
	Tool       string   `json:"tool"`
	Target     string   `json:"target"`
	Decision   Decision `json:"decision"`
	Rule       string   `json:"rule"`
	Code       string   `json:"code"`
	Outcome    string   `json:"outcome"`
	DurationMS *float64 `json:"duration_ms"`
	Before     string   `json:"before"`
	After      string   `json:"after"`
	Detail     string   `json:"detail"`
	// Raw is the line as it is, without its line feed. It is valid until the next one.
	Raw []byte `json:"-"`
}

// Fault is a line that cannot be read.
type Fault struct {
	// Number counts from 1.
	Number int
	// IsPartial is set for an incomplete last line, which a killed process leaves and a
	// running one is about to complete.
	IsPartial bool
	Reason    string
}

// String returns the place and the reason.
func (f Fault) String() string { return fmt.Sprintf("line %d: %s", f.Number, f.Reason) }

// ReadAudit reads a trail line by line, in bounded memory, and calls each for every line that
// can be read, and fault for the others. It stops at the first error of each.
func ReadAudit(r io.Reader, each func(*AuditLine) error, fault func(Fault)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var buffer []byte
	for number := 1; ; number++ {
		raw, isWhole, err := readLine(in, &buffer)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if len(raw) == 0 && !isWhole {
			return nil
		}
		line, reason := parse(raw)
		switch {
		case reason == "":
			if err := each(line); err != nil {
				return err
			}
		case isWhole:
			fault(Fault{Number: number, Reason: reason})
		default:
			fault(Fault{Number: number, IsPartial: true, Reason: "the last line is incomplete: the process was killed, or is writing"})
		}
		if !isWhole {
			return nil
		}
	}
}

// readLine reads up to a line feed, which is not returned. Of a line that is too long the
// beginning is returned, one byte more than there may be. Not whole is what the end of the
// trail ends.
func readLine(in *bufio.Reader, buffer *[]byte) (line []byte, isWhole bool, err error) {
	*buffer = (*buffer)[:0]
	for {
		piece, err := in.ReadSlice('\n')
		piece, isWhole = bytes.CutSuffix(piece, []byte{'\n'})
		*buffer = append(*buffer, piece[:min(len(piece), maxLine+1-len(*buffer))]...)
		switch {
		case isWhole:
			return *buffer, true, nil
		case errors.Is(err, io.EOF):
			return *buffer, false, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

// parse reads one line.
func parse(raw []byte) (line *AuditLine, reason string) {
	if len(raw) > maxLine {
		return nil, fmt.Sprintf("the line is longer than %d bytes", maxLine)
	}
	line = &AuditLine{}
	if err := json.Unmarshal(raw, line); err != nil {
		return nil, "no JSON object of an audit trail"
	}
	switch {
	case line.Schema != Schema:
		return nil, fmt.Sprintf("schema %.64q is not %s", line.Schema, Schema)
	case line.ID == "" || line.Phase == "":
		return nil, "no line of an audit trail: it has no id or no phase"
	}
	line.Raw = raw
	return line, ""
}
