// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// maxCodes is how many codes there may be, success included: half as many again
// as the canonical table has. A test compares the two.
const maxCodes = 48

// codeTable numbers the canonical codes; success is 0. It is frozen when it is
// made.
type codeTable struct {
	names  []string
	number map[errmap.Code]int
}

func newCodeTable() codeTable {
	t := codeTable{names: []string{OK}, number: map[errmap.Code]int{}}
	for _, code := range errmap.Codes() {
		t.number[code] = len(t.names)
		t.names = append(t.names, string(code))
	}
	return t
}

// of is the code's number; a code that is not in the table counts as what it is
// answered as.
func (t codeTable) of(code errmap.Code) int {
	if code == "" {
		return 0
	}
	if n, ok := t.number[code]; ok {
		return n
	}
	return t.number[errmap.InternalError]
}

// byCode counts ends of one edge.
type byCode [maxCodes]atomic.Uint64

// Series is the counters of one tool or one operation. Nil counts nothing.
type Series struct {
	stats    *Stats
	name     string
	inFlight atomic.Int64
	// ends is made for an edge when the first request ends there: most processes
	// use one edge.
	ends [edges]atomic.Pointer[byCode]
	took histogram
	// usual is nil before the first call that is counted by the conventions for MCP.
	usual atomic.Pointer[usualEnd]
}

// Begin counts the start of a request. [Series.End] counts its end.
func (s *Series) Begin() {
	if s != nil {
		s.inFlight.Add(1)
	}
}

// End describes the end of a request.
type End struct {
	// Code is the canonical code, or empty for success.
	Code errmap.Code
	Edge Edge
	// Took is the duration of the request. Upstream is the part of it spent waiting for
	// the backend or a person.
	Took, Upstream time.Duration
	// Trace is the request's span, if it is sampled.
	Trace Trace
}

// End counts the end of a request that Begin counted.
func (s *Series) End(e End) {
	if s == nil {
		return
	}
	s.inFlight.Add(-1)
	s.Count(e.Edge, e.Code)
	if s.stats.ended != nil {
		s.stats.ended(CallEnd{Tool: s.name, End: e})
	}
	s.took.add(callBounds[:], e.Took, e.Trace)
	if e.Upstream > 0 {
		// Without a call of the backend there is nothing that could be overhead.
		s.stats.overhead[s.stats.edge(e.Edge)].add(overheadBounds[:], max(0, e.Took-e.Upstream), e.Trace)
	}
}

// Count counts only the end of a request. It is for requests that take no time, or that
// last as long as the caller wants.
func (s *Series) Count(edge Edge, code errmap.Code) {
	if s == nil {
		return
	}
	at := &s.ends[s.stats.edge(edge)]
	counts := at.Load()
	if counts == nil {
		at.CompareAndSwap(nil, new(byCode))
		counts = at.Load()
	}
	counts[s.stats.codes.of(code)].Add(1)
}
