// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/program"
)

const (
	// maxJournal bounds what is kept of the answers to a program's calls, in bytes.
	maxJournal = 4 << 20
	// maxInlineState is the size up to which a journal is in the state that a caller brings back, so that any replica can go on;
	// maxInlineHandle the same for the handle of an approval. A larger one is held.
	maxInlineState  = 32 << 10
	maxInlineHandle = 4 << 10
)

// journal has the answers to the calls of a program so far. A program that is run again, with an answer of the user, gets them in the
// place of calls: it makes the same calls with the same numbers, and each of them runs once.
type journal struct {
	// Entries are the answers, and Pending the calls that wait.
	Entries []journaled   `json:"j,omitempty"`
	Pending []pendingCall `json:"p,omitempty"`
	// Asked are the calls that the user is asked about, and Granted those that the user agreed to, by tools: how many at most.
	Asked   map[string]int `json:"q,omitempty"`
	Granted map[string]int `json:"c,omitempty"`
	// Views are what the caller sees of the results of the tools that were called, by their names; see [rulebook.kept].
	Views map[string]string `json:"v,omitempty"`

	mu     sync.Mutex
	size   int
	isLost bool // not all of it is kept
	known  map[int]*journaled
	// about are the calls for people.
	about []madeCall
}

// journaled is the answer to a call.
type journaled struct {
	Number int             `json:"n"`
	Digest []byte          `json:"d"`
	Result json.RawMessage `json:"r,omitempty"`
	Err    *journaledError `json:"e,omitempty"`
}

// journaledError is what a program sees of an error, and its caller where it ends the program.
type journaledError struct {
	Code        errmap.Code        `json:"c"`
	Message     string             `json:"m"`
	Tool        string             `json:"t,omitempty"`
	BackendCode string             `json:"b,omitempty"`
	Violations  []errmap.Violation `json:"v,omitempty"`
}

// madeCall is a call of a program that was cut, for its caller.
type madeCall struct {
	Call   int             `json:"call"`
	Tool   string          `json:"tool"`
	Line   int             `json:"line"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  errmap.Code     `json:"error,omitempty"`
}

// add keeps the answer to a call.
func (j *journal) add(call *program.Call, digest, result []byte, failed *errmap.Error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.size += len(result); j.size > maxJournal || len(result) > 0 && !json.Valid(result) {
		j.isLost = true
		return
	}
	entry := journaled{Number: call.Number, Digest: digest, Result: result}
	made := madeCall{Call: call.Number, Tool: call.Tool.Name, Line: call.Line, Result: result}
	if failed != nil {
		failed = failed.Redacted()
		entry.Err = &journaledError{failed.Code, failed.Message, failed.Tool, failed.BackendCode, failed.Violations}
		for _, v := range failed.Violations {
			j.size += len(v.Path) + len(v.Keyword) + len(v.Message)
		}
		made.Error = failed.Code
	}
	j.Entries, j.about = append(j.Entries, entry), append(j.about, made)
}

// manyViews is in the place of the views of a tool whose results were not all made for one.
const manyViews = "-"

// saw notes what the caller sees of the results of a tool that is called.
func (j *journal) saw(tool, view string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if before, ok := j.Views[tool]; ok && before != view {
		view = manyViews
	}
	if j.Views == nil {
		j.Views = map[string]string{}
	}
	j.Views[tool] = view
}

// kept is the [rulebook.kept] of what is made of the results of a program's calls; see [rulebook.mayReadAll].
func (j *journal) kept() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return string(encoded(j.Views))
}

// replay is the answer that is kept for a call; ok is false if there is none.
func (j *journal) replay(req *Request, number int, digest []byte) (result []byte, failed *errmap.Error, ok bool) {
	entry := j.known[number]
	switch {
	case entry == nil:
		return nil, nil, false
	case !bytes.Equal(entry.Digest, digest):
		return nil, staleState(req.At("request_state"), "the program does not make the same calls as before its question, because tools changed; call again without the request state"), true
	case entry.Err != nil:
		failed = errmap.New(entry.Err.Code, errmap.Message(entry.Err.Message), errmap.Tool(entry.Err.Tool), errmap.WithViolations(entry.Err.Violations...))
		failed.BackendCode = entry.Err.BackendCode
		return nil, failed, true
	}
	return entry.Result, nil, true
}

// read is what was read, for the caller of a program that was cut; nil for nothing.
func (j *journal) read() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.about) == 0 {
		return nil
	}
	return encoded(struct {
		Calls []madeCall `json:"calls"`
	}{j.about})
}

// sealedJournal is a journal as it is sealed: itself, or the sealed id of a document that has it.
type sealedJournal struct {
	*journal
	Held string `json:"h,omitempty"`
}

// sealable is the journal as bytes to be sealed, of at most so many where it can be held.
func (r *programRun) sealable(most int) ([]byte, *errmap.Error) {
	j, keeper := &r.journal, r.parts.decoder.keeper
	if j.isLost {
		return nil, errmap.Because(errmap.ResourceExhausted, "what the program read before its question is too large to be kept until the answer; "+
			"make the destructive calls first, or run another program with less before them")
	}
	text := encoded(sealedJournal{journal: j})
	if len(text) <= most {
		return text, nil
	}
	if keeper.Store == nil {
		return nil, errmap.Because(errmap.ResourceExhausted, "what the program read before its question cannot be kept until the answer, because this sidecar holds no results (--max-held-bytes); "+
			"make the destructive calls first")
	}
	uri, _, failed := keeper.Hold(r.outer.req.Caller, content.Document{Tool: catalog.RunName, MediaType: "application/json", Data: text}, nil)
	if failed != nil {
		return nil, failed
	}
	return encoded(sealedJournal{Held: strings.TrimPrefix(uri, content.DocumentURI)}), nil
}

// resume reads what the caller brought back from an earlier round.
func (r *programRun) resume(ctx context.Context) *errmap.Error {
	c := r.outer
	text, member := c.state.backend, c.req.At("request_state")
	if values, ok := c.req.Header[backend.ApprovalHeader]; ok && len(text) == 0 {
		var err error
		if member = backend.ApprovalHeader; len(values) != 1 {
			err = keys.ErrExpired
		} else {
			text, err = r.sealer.Open(r.handleBinding(), values[0])
		}
		if err != nil {
			return staleState(member, "the approval handle is not that of this program, or has expired; call again without it")
		}
	}
	if len(text) == 0 {
		return nil
	}
	read := sealedJournal{journal: &r.journal}
	if json.Unmarshal(text, &read) != nil {
		return staleState(member, "the request state does not belong to this request; return it unchanged, with the same parameters")
	}
	if read.Held != "" {
		d, _, ok := r.parts.decoder.keeper.Get(c.req.Caller, read.Held)
		if !ok || json.Unmarshal(d.Data, &r.journal) != nil {
			return staleState(member, "this replica does not hold what the program had read: another replica asked, or it made way for newer results; "+
				"call again without it, and send the answer to the replica that asks")
		}
	}
	j := &r.journal
	j.known = make(map[int]*journaled, len(j.Entries))
	for i := range j.Entries {
		j.known[j.Entries[i].Number] = &j.Entries[i]
		j.size += len(j.Entries[i].Result)
	}
	r.consented = maps.Clone(j.Granted)
	return r.parts.rulebook.mayReadAll(ctx, c.catalog, j.Views)
}
