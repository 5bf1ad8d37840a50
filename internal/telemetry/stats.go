// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
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

// Stats holds the counters. Make one with [NewStats]. Nil counts nothing.
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

// NewStats returns a Stats with separate counters for up to maxTools tools (0:
// DefaultMaxTools) and for the given operations.
func NewStats(maxTools int, operations ...string) *Stats {
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

// Operation returns the series of the nth operation given to NewStats. For any other number
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
	// Tools are sorted by name. Operations are in the order given to NewStats.
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

// family is the histograms of one metric by their attributes. Make one with newFamily.
type family[K comparable] struct {
	// series is replaced when attributes are seen for the first time, so that code that
	// counts takes no lock.
	series atomic.Pointer[map[K]*histogram]
	mu     sync.Mutex // held to replace series, and for bound
	// bound returns the attributes to count as, while there are so many series. It must
	// return one of a limited number, whatever it gets.
	bound func(key K, series int) K
}

func newFamily[K comparable](bound func(key K, series int) K) *family[K] {
	f := &family[K]{bound: bound}
	f.series.Store(&map[K]*histogram{})
	return f
}

// of returns the histogram to count a key in.
func (f *family[K]) of(key K) *histogram {
	if h, ok := (*f.series.Load())[key]; ok {
		return h
	}
	return f.newSeries(key)
}

func (f *family[K]) newSeries(key K) *histogram {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := *f.series.Load()
	key = f.bound(key, len(known))
	if h, ok := known[key]; ok {
		return h
	}
	more := maps.Clone(known)
	h := new(histogram)
	more[key] = h
	f.series.Store(&more)
	return h
}

// all returns the histograms. They must not be changed.
func (f *family[K]) all() map[K]*histogram { return *f.series.Load() }

// names are the values of one attribute, up to a number.
type names struct {
	most  int
	known map[string]string
}

func newNames(most int) *names { return &names{most, map[string]string{}} }

// bound returns the name, or anyOther if there are too many others. It copies a name, which
// may be part of a message.
func (n *names) bound(name string) string {
	if name == "" {
		return ""
	}
	if kept, ok := n.known[name]; ok {
		return kept
	}
	if len(n.known) >= n.most {
		return anyOther
	}
	kept := strings.Clone(name)
	n.known[kept] = kept
	return kept
}

// Edge is the interface through which a request arrived.
type Edge uint8

// The edges. EdgeTyped is the typed pass-through in any protocol. The three before it
// are the tool API. EdgeAdmin is the listeners for operators and for probes. EdgeOther
// is everything else, such as a command that makes one call.
const (
	EdgeMCP Edge = iota
	EdgeRPC
	EdgeStdio
	EdgeConnect
	EdgeGRPC
	EdgeGRPCWeb
	EdgeTyped
	EdgeAdmin
	EdgeOther
	edges int = iota
)

// EdgeOf returns the edge of a request from its transport and route. isTyped marks
// requests of the typed pass-through.
func EdgeOf(transport, route string, isTyped bool) Edge {
	if isTyped {
		return EdgeTyped
	}
	switch transport {
	case "http":
		if route == "/rpc" {
			return EdgeRPC
		}
		return EdgeMCP
	case "stdio":
		return EdgeStdio
	case "connect":
		return EdgeConnect
	case "grpc":
		return EdgeGRPC
	case "grpcweb":
		return EdgeGRPCWeb
	}
	return EdgeOther
}

// Transport returns OpenTelemetry's name of the transport of an edge (network.transport), or ""
// for the edges that have none. Callers reach all others by TCP.
func (e Edge) Transport() string {
	switch e {
	case EdgeStdio:
		return "pipe"
	case EdgeMCP, EdgeRPC, EdgeConnect, EdgeGRPC, EdgeGRPCWeb, EdgeTyped:
		return "tcp"
	}
	return ""
}

// IsJSONRPC reports whether messages of the edge are JSON-RPC, in MCP or in the canonical dialect.
func (e Edge) IsJSONRPC() bool { return e == EdgeMCP || e == EdgeRPC || e == EdgeStdio }

// String returns the name of the edge, for logs and metrics.
func (e Edge) String() string {
	switch e {
	case EdgeMCP:
		return "mcp"
	case EdgeRPC:
		return "rpc"
	case EdgeStdio:
		return "stdio"
	case EdgeConnect:
		return "connect"
	case EdgeGRPC:
		return "grpc"
	case EdgeGRPCWeb:
		return "grpcweb"
	case EdgeTyped:
		return "typed"
	case EdgeAdmin:
		return "admin"
	}
	return "other"
}

// maxSessionSeries bounds the series of sessions: every revision on every transport.
const maxSessionSeries = 64

// Session is a session that has ended. A text that is empty is an attribute that it does not
// have.
type Session struct {
	// Version is the revision of the protocol. Transport is that of [Edge.Transport].
	Version, Transport string
	// ErrorType is why the session ended, if neither side wanted that.
	ErrorType string
	Took      time.Duration
}

type sessionKey struct{ version, transport, errorType string }

// EndSession counts the end of a session.
func (t *Stats) EndSession(s Session) {
	if t != nil {
		t.sessions.of(sessionKey{s.Version, s.Transport, s.ErrorType}).add(mcpBounds[:], s.Took, Trace{})
	}
}

func newSessions() *family[sessionKey] {
	versions, transports, errorTypes := newNames(maxVersions), newNames(maxTransports), newNames(maxErrorTypes)
	return newFamily(func(k sessionKey, series int) sessionKey {
		if series >= maxSessionSeries {
			return sessionKey{version: anyOther}
		}
		return sessionKey{versions.bound(k.version), transports.bound(k.transport), errorTypes.bound(k.errorType)}
	})
}

// SessionNumbers are the numbers of the sessions with the same attributes.
type SessionNumbers struct {
	Version, Transport, ErrorType string
	Took                          Histogram
}

func (t *Stats) sessionNumbers() []SessionNumbers {
	var out []SessionNumbers
	for k, h := range t.sessions.all() {
		out = append(out, SessionNumbers{k.version, k.transport, k.errorType, h.snapshot(mcpBounds[:])})
	}
	slices.SortFunc(out, func(a, b SessionNumbers) int {
		return cmp.Or(strings.Compare(a.Version, b.Version), strings.Compare(a.Transport, b.Transport), strings.Compare(a.ErrorType, b.ErrorType))
	})
	return out
}

// limitCounts are how often each of [errmap.Limits] was met. The keys are fixed
// when it is made.
type limitCounts map[errmap.Limit]*atomic.Uint64

func newLimitCounts() limitCounts {
	counts := limitCounts{}
	for _, l := range errmap.Limits() {
		counts[l] = new(atomic.Uint64)
	}
	return counts
}

// Over counts a request that was refused or cut short because of a limit. A value that
// is not in [errmap.Limits] counts nothing.
func (t *Stats) Over(l errmap.Limit) {
	if t == nil || l == "" {
		return
	}
	if n, ok := t.limits[l]; ok {
		n.Add(1)
	}
}

// TimesOver returns how many times Over has counted a limit.
func (t *Stats) TimesOver(l errmap.Limit) uint64 {
	if t == nil || t.limits[l] == nil {
		return 0
	}
	return t.limits[l].Load()
}

// HTTPRefused counts an HTTP request that was rejected at the HTTP level: for its path,
// its method, its headers, its size, or its sender.
func (t *Stats) HTTPRefused(edge Edge, code errmap.Code) {
	if t != nil {
		t.http.Count(edge, code)
	}
}
