// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
	"github.com/outrigger-mcp/outrigger/bench/internal/subject"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1/adminv1connect"
)

// entrant is one row of the benchmark: a way to the backend, and the process in the middle of it.
type entrant struct {
	report.Subject

	// path names the way of package path; process names what is in the middle, "" where nothing does.
	path, process string
}

// Processes that are no server of package subject.
const (
	processProxy   = "proxy"
	processSidecar = "sidecar"
	processOther   = "sidecar-other"
	// Sidecars that export their telemetry, and sample 1 % or all of their traces.
	processFewTraces = "sidecar-otel-1"
	processAllTraces = "sidecar-otel-100"
	// A sidecar whose operators look on, with what the console's live page and `sidecar top` read.
	processWatched = "sidecar-watched"
)

// Names of subjects that others are chosen beside.
const (
	subjectOther = "other"
)

// entrants lists every row in the order of the tables.
func entrants() []entrant {
	row := func(name string, kind report.Kind, path, process, title string) entrant {
		return entrant{Subject: report.Subject{Name: name, Title: title, Kind: kind}, path: path, process: process}
	}
	return []entrant{
		row("direct", report.Direct, "direct", "", "grpc-go directly to the backend"),
		row("proxy", report.Floor, "proxy", processProxy, "empty net/http to grpc-go proxy: wire bytes in, wire bytes out, untouched"),
		row(peer.FloorClient, report.Beside, "proxy", peer.FloorClient, "empty proxy of net/http and the sidecar's own client for unary gRPC calls"),
		row(peer.FloorBoth, report.Beside, "proxy", peer.FloorBoth, "empty proxy of fasthttp and the sidecar's own client for unary gRPC calls"),
		row("sidecar", report.Measured, "mcp", processSidecar, "the sidecar, `/mcp`, MCP 2026-07-28"),
		row("sidecar-legacy", report.Beside, "mcp-legacy", processSidecar, "the sidecar, `/mcp`, MCP 2025-11-25"),
		row(subjectOther, report.Beside, "mcp", processOther, "another build of the sidecar (`-other`), `/mcp`, MCP 2026-07-28"),
		above(3, row(processFewTraces, report.Beside, "mcp", processFewTraces, "the sidecar, `/mcp`, MCP 2026-07-28, which exports metrics, and the traces of 1 % of the calls, over OTLP to a sink")),
		above(15, row(processAllTraces, report.Beside, "mcp", processAllTraces, "the same with the traces of all calls")),
		row(processWatched, report.Beside, "mcp", processWatched, "the sidecar, `/mcp`, MCP 2026-07-28, while a console is open"),
		row("gosdk", report.HandWritten, "mcp", subject.SDKModern, "hand-written on the official Go SDK, typed tool, MCP 2026-07-28"),
		row("gosdk-legacy", report.HandWritten, "mcp-legacy", subject.SDKLegacy, "hand-written on the official Go SDK, typed tool, MCP 2025-11-25 with sessions"),
		row("mcpgo-typed", report.HandWritten, "mcp", subject.MCPGoTyped, "hand-written on mcp-go, typed tool, MCP 2026-07-28"),
		row("mcpgo-typed-legacy", report.HandWritten, "mcp-legacy", subject.MCPGoTyped, "hand-written on mcp-go, typed tool, MCP 2025-11-25"),
		row("mcpgo-raw", report.HandWritten, "mcp", subject.MCPGoRaw, "hand-written on mcp-go, raw arguments and protojson, MCP 2026-07-28"),
		row("mcpgo-raw-legacy", report.HandWritten, "mcp-legacy", subject.MCPGoRaw, "hand-written on mcp-go, raw arguments and protojson, MCP 2025-11-25"),
	}
}

// above sets how much CPU time a small call may cost more than through the sidecar without telemetry, in µs.
func above(most float64, e entrant) entrant {
	e.Above = most
	return e
}

// Names lists every subject in the order of the tables.
func Names() []string {
	var out []string
	for _, e := range entrants() {
		out = append(out, e.Name)
	}
	return out
}

// isExtra holds for what is measured only where it is named: the further floors, which tell what the parts of a proxy cost
// and nothing about goals, and sidecars with telemetry or under observation, which have commands of their own.
func (e entrant) isExtra() bool {
	return e.process == peer.FloorClient || e.process == peer.FloorBoth || e.process == processWatched || e.exports()
}

// exports holds for sidecars that send telemetry to the sink.
func (e entrant) exports() bool {
	return e.process == processFewTraces || e.process == processAllTraces
}

// Usual lists the subjects that are measured where none is named; "other" is one where there is another binary.
func Usual() []string {
	var out []string
	for _, e := range entrants() {
		if !e.isExtra() {
			out = append(out, e.Name)
		}
	}
	return out
}

// choose keeps the named subjects, the usual ones where none is named; "other" only where there is another binary.
func choose(names []string, other string) ([]entrant, error) {
	all := entrants()
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("-subjects: %q: want some of %s", name, strings.Join(Names(), ","))
		}
	}
	if slices.Contains(names, subjectOther) && other == "" {
		return nil, errors.New("-subjects: other wants a second binary, see -other")
	}
	return slices.DeleteFunc(all, func(e entrant) bool {
		if e.Name == subjectOther {
			return other == ""
		}
		if len(names) == 0 {
			return e.isExtra()
		}
		return !slices.Contains(names, e.Name)
	}), nil
}

// CheckSubjects tells whether the names and the other binary go together.
func CheckSubjects(names []string, other string) error {
	_, err := choose(names, other)
	return err
}

// server is a running process in the middle.
type server struct {
	*proc.Process

	addr string
}

// stage is the set of processes of one payload size, each started afresh, so that its memory is of that size.
type stage struct {
	backend *proc.Process
	addr    string
	servers map[string]*server
	order   []string // as started
	// sink takes the telemetry; nil where there is none. Its CPU time counts for none.
	sink     *proc.Process
	sinkAddr string
}

// set starts the backend and what the entrants need.
func (r *run) set(ctx context.Context, entrants []entrant) (*stage, error) {
	st := &stage{servers: map[string]*server{}}
	err := func() (err error) {
		if st.backend, st.addr, err = peer.Start(ctx, r.Dir, peer.RoleBackend); err != nil {
			return err
		}
		if slices.ContainsFunc(entrants, entrant.exports) {
			if st.sink, st.sinkAddr, err = peer.Start(ctx, r.Dir, peer.RoleSink); err != nil {
				return err
			}
		}
		for _, e := range entrants {
			if e.process == "" || st.servers[e.process] != nil {
				continue
			}
			s, err := r.start(ctx, e.process, st)
			if err != nil {
				return fmt.Errorf("%s: %w", e.Name, err)
			}
			st.servers[e.process] = s
			st.order = append(st.order, e.process)
		}
		return nil
	}()
	if err != nil {
		return nil, errors.Join(err, st.stop())
	}
	return st, nil
}

func (r *run) start(ctx context.Context, process string, st *stage) (*server, error) {
	backend := st.addr
	switch process {
	case processSidecar:
		return startSidecar(ctx, nil, r.Binary, r.Dir, backend)
	case processOther:
		return startSidecar(ctx, nil, r.Other, r.Dir, backend)
	case processWatched:
		return startWatched(ctx, r.Binary, r.Dir, backend)
	case processFewTraces:
		return startSidecar(ctx, Exporting(st.sinkAddr, 0.01), r.Binary, r.Dir, backend)
	case processAllTraces:
		return startSidecar(ctx, Exporting(st.sinkAddr, 1), r.Binary, r.Dir, backend)
	case processProxy:
		return startPeer(ctx, r.Dir, peer.RoleProxy, backend, work(sizes()[0]).Method())
	case peer.FloorClient, peer.FloorBoth:
		return startPeer(ctx, r.Dir, peer.RoleFloor, process, backend, work(sizes()[0]).Method())
	default:
		return startPeer(ctx, r.Dir, peer.RoleSubject, process, backend)
	}
}

// Exporting has a sidecar export metrics, and the traces of a share of its calls, to the host:port of a collector.
func Exporting(addr string, share float64) []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + addr, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_LOGS_EXPORTER=none",
		"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=" + strconv.FormatFloat(share, 'f', -1, 64),
	}
}

func startSidecar(ctx context.Context, env []string, binary, dir, backend string) (*server, error) {
	s, err := sidecar.StartWith(ctx, env, binary, dir, "--backend", "grpc://"+backend)
	if err != nil {
		return nil, err
	}
	return &server{Process: s.Process, addr: s.Addr}, nil
}

// startWatched starts a sidecar and looks on, until ctx ends.
func startWatched(ctx context.Context, binary, dir, backend string) (*server, error) {
	s, err := sidecar.StartWith(ctx, nil, binary, dir, "--backend", "grpc://"+backend)
	if err != nil {
		return nil, err
	}
	api := adminv1connect.NewAdminServiceClient(http.DefaultClient, "http://"+s.Admin)
	stream, err := api.Watch(ctx, connect.NewRequest(&adminv1.WatchRequest{}))
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	go func() {
		for stream.Receive() {
			continue // a page reads all of it
		}
		_ = stream.Close()
	}()
	return &server{Process: s.Process, addr: s.Addr}, nil
}

func startPeer(ctx context.Context, dir string, args ...string) (*server, error) {
	p, addr, err := peer.Start(ctx, dir, args...)
	if err != nil {
		return nil, err
	}
	return &server{Process: p, addr: addr}, nil
}

// stop ends callers before callees.
func (st *stage) stop() error {
	var errs []error
	for _, name := range slices.Backward(st.order) {
		errs = append(errs, st.servers[name].Stop())
	}
	if st.sink != nil {
		errs = append(errs, st.sink.Stop())
	}
	if st.backend != nil {
		errs = append(errs, st.backend.Stop())
	}
	return errors.Join(errs...)
}

// addrs are where an entrant's calls go.
func (st *stage) addrs(e entrant) path.Addrs {
	if e.process == "" {
		return path.Addrs{Backend: st.addr}
	}
	addr := st.servers[e.process].addr
	return path.Addrs{Backend: st.addr, Proxy: addr, Sidecar: addr}
}
