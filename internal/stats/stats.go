// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

const (
	// DefaultMaxTools is the maximum number of tools with separate counters: as many as a
	// person can read on a metrics page. All other tools share one series.
	DefaultMaxTools = 256
	// Other is the name of the shared series. No tool has this name, because tool names
	// contain a dot.
	Other = "other"
	// OK is the code of success.
	OK = "OK"
)

// Stats holds the counters. Make one with [New]. Nil counts nothing.
type Stats struct {
	most  int
	codes codeTable

	// tools is replaced when a tool is seen for the first time, so that code that
	// counts takes no lock.
	tools atomic.Pointer[map[string]*Series]
	mu    sync.Mutex // held to replace tools
	other *Series

	// ended hears of the end of each call; nil tells no one.
	ended      func(CallEnd)
	operations []*Series
	overhead   [edges]histogram
	// http is what was refused before it became a message, limits what was refused
	// for its size and the like.
	http   *Series
	limits limitCounts
	// mcp and sessions are the metrics of OpenTelemetry's conventions for MCP.
	mcp      *family[mcpKey]
	sessions *family[sessionKey]
	began    time.Time
}

// New returns a Stats with separate counters for up to maxTools tools (0:
// DefaultMaxTools) and for the given operations.
func New(maxTools int, operations ...string) *Stats {
	t := &Stats{most: maxTools, codes: newCodeTable(), limits: newLimitCounts(), sessions: newSessions(), began: time.Now()}
	defaults.Fill(&t.most, DefaultMaxTools)
	t.other = &Series{stats: t, name: Other}
	t.mcp = newMCP(t.most, t.other)
	t.http = &Series{stats: t}
	t.tools.Store(&map[string]*Series{})
	for _, name := range operations {
		t.operations = append(t.operations, &Series{stats: t, name: name})
	}
	return t
}

// CallEnd is the end of one tool call.
type CallEnd struct {
	// Tool is the canonical name, or "" for a tool that does not exist.
	Tool string
	End
}

// OnEnd makes f run at the end of each tool call, on the goroutine of the call. Call it
// before the first call.
func (t *Stats) OnEnd(f func(CallEnd)) { t.ended = f }

// Tool returns the series of a tool by its canonical name. The empty name is for calls
// of tools that do not exist, because text from callers must not become a label.
func (t *Stats) Tool(name string) *Series {
	if t == nil {
		return nil
	}
	if s, ok := (*t.tools.Load())[name]; ok {
		return s
	}
	return t.newTool(name)
}

// newTool adds a tool while there is room.
func (t *Stats) newTool(name string) *Series {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := *t.tools.Load()
	if s, ok := known[name]; ok {
		return s
	}
	if len(known) >= t.most {
		return t.other
	}
	more := maps.Clone(known)
	s := &Series{stats: t, name: name}
	more[name] = s
	t.tools.Store(&more)
	return s
}

// Operation returns the series of the nth operation given to New. For any other number
// it returns nil, which counts nothing.
func (t *Stats) Operation(n int) *Series {
	if t == nil || n < 0 || n >= len(t.operations) {
		return nil
	}
	return t.operations[n]
}

// edge keeps the number of an edge within bounds.
func (t *Stats) edge(e Edge) Edge { return min(e, EdgeOther) }

// Ends is the number of requests that ended in one way.
type Ends struct {
	Code  string
	Edge  Edge
	Count uint64
}

// Numbers are the numbers of one tool or operation. They may include only part of the
// counts of a request.
type Numbers struct {
	Name     string
	InFlight int
	// Ends are the counts of ended requests, by edge and code.
	Ends []Ends
	Took Histogram
}

// Snapshot holds all counts.
type Snapshot struct {
	// Tools are sorted by name. Operations are in the order given to New.
	Tools, Operations []Numbers
	// Overhead is the sidecar's own time in calls that reached the backend, for each edge
	// with such calls.
	Overhead map[Edge]Histogram
	// HTTP is the counts of HTTPRefused.
	HTTP []Ends
	// MCP is the counts of EndMCP, Sessions those of EndSession, both sorted.
	MCP      []MCPNumbers
	Sessions []SessionNumbers
	// Began is when counting began.
	Began time.Time
}

// Snapshot returns the current counts. For nil it is empty.
func (t *Stats) Snapshot() Snapshot {
	if t == nil {
		return Snapshot{}
	}
	out := Snapshot{Overhead: map[Edge]Histogram{}, MCP: t.mcpNumbers(), Sessions: t.sessionNumbers(), Began: t.began}
	for _, s := range *t.tools.Load() {
		out.Tools = append(out.Tools, s.numbers())
	}
	if other := t.other.numbers(); len(other.Ends) > 0 || other.InFlight != 0 {
		out.Tools = append(out.Tools, other)
	}
	slices.SortFunc(out.Tools, func(a, b Numbers) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range t.operations {
		out.Operations = append(out.Operations, s.numbers())
	}
	out.HTTP = t.http.numbers().Ends
	for e := range Edge(edges) {
		if h := t.overhead[e].snapshot(overheadBounds[:]); h.Count() > 0 {
			out.Overhead[e] = h
		}
	}
	return out
}

func (s *Series) numbers() Numbers {
	n := Numbers{Name: s.name, InFlight: int(s.inFlight.Load()), Took: s.took.snapshot(callBounds[:])}
	for e := range Edge(edges) {
		counts := s.ends[e].Load()
		if counts == nil {
			continue
		}
		for code, name := range s.stats.codes.names {
			if c := counts[code].Load(); c > 0 {
				n.Ends = append(n.Ends, Ends{Code: name, Edge: e, Count: c})
			}
		}
	}
	return n
}
