// SPDX-License-Identifier: Apache-2.0

// Package many measures what backends take from each other behind one sidecar: one backend alone, fifty that are sound, and fifty of
// which one is dead, one slow, one changes and one refuses. All of it are ratios of one round.
package many

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/load"
	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// Odd is how many of the backends are not sound in the last stage.
const Odd = 4

// Options say what is measured.
type Options struct {
	// Binary is the sidecar; Dir is a folder that processes may work in.
	Binary, Dir string
	Rounds      int
	// Backends are all backends of a sidecar, the odd ones among them.
	Backends int
	// Callers call at a time, each one backend after the other.
	Callers int
	Window  time.Duration
	// Hanging calls wait for the slow backend meanwhile.
	Hanging int
}

// settings let a backend that changes be seen in each second, have the slow one reach its share of the slots, and keep the log of calls out of the figures.
const settings = "catalog: {refresh_interval: 1s}\nlimits: {max_concurrent_calls: 200, max_queued_calls: 50}\nlog: {calls: 'off'}\n"

// payload is that of small calls: about 170 bytes of JSON.
const payload = 36

// lists is how often the tools are listed in a stage.
const lists = 15

// Measure makes the rounds. Head is left to the caller.
func Measure(ctx context.Context, opts Options, say func(string, ...any)) (out *report.Many, err error) {
	out = &report.Many{Backends: opts.Backends, Odd: Odd, Callers: opts.Callers, Rounds: opts.Rounds, Hanging: opts.Hanging}
	kinds := append([]string{peer.Slow, peer.Changing, peer.Refusing}, slices.Repeat([]string{peer.Sound}, opts.Backends)...)
	fleet, line, err := peer.Start(ctx, opts.Dir, append([]string{peer.RoleFleet}, kinds...)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	addrs := strings.Fields(line)
	odd, sound := addrs[:Odd-1], addrs[Odd-1:]
	for round := range opts.Rounds {
		stages := []func() error{
			func() error { return opts.stage(ctx, &out.One, sound[:1], nil, 1) },
			func() error { return opts.stage(ctx, &out.Sound, sound, nil, opts.Backends-Odd) },
			func() error { return opts.stage(ctx, &out.Beside, sound[:opts.Backends-Odd], odd, opts.Backends-Odd) },
		}
		for i := range stages {
			if err := stages[(i+round)%len(stages)](); err != nil {
				return nil, fmt.Errorf("round %d: %w", round+1, err)
			}
		}
		say("round %d of %d: a call takes %.0f us with one backend, %.0f with %d, %.0f beside %d odd ones", round+1, opts.Rounds,
			out.One[round].P50, out.Sound[round].P50, opts.Backends, out.Beside[round].P50, Odd)
	}
	return out, nil
}

// stage measures a sidecar with some sound backends and the odd ones, of which the first are called, and adds what it finds.
func (o *Options) stage(ctx context.Context, into *[]report.ManyFigure, sound, odd []string, called int) (err error) {
	var config strings.Builder
	config.WriteString("backends:\n")
	for i, addr := range sound {
		fmt.Fprintf(&config, "- {name: %[1]s, url: 'grpc://%[2]s', prefix: %[1]s}\n", name(i), addr)
	}
	var dead *proc.Process
	if len(odd) > 0 {
		var addr string
		if dead, addr, err = peer.Start(ctx, o.Dir, peer.RoleFleet, peer.Sound); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dead.Stop()) }()
		for i, addr := range append(slices.Clone(odd), addr) {
			fmt.Fprintf(&config, "- {name: odd%[1]d, url: 'grpc://%[2]s', prefix: odd%[1]d}\n", i, addr)
		}
	}
	file := filepath.Join(o.Dir, "many.yaml")
	if err := os.WriteFile(file, []byte(config.String()+settings), 0o600); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	s, err := sidecar.Start(ctx, o.Binary, o.Dir, "--config", file, "--log-level", "error")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	listed := len(sound)
	if len(odd) > 0 {
		listed += Odd - 1 // the one that refuses has none
	}
	names, err := awaitList(ctx, s, listed)
	if err != nil {
		return err
	}
	if dead != nil {
		if err := dead.Stop(); err != nil {
			return err
		}
		end, err := o.hang(ctx, s)
		defer end()
		if err != nil {
			return err
		}
	}
	figure, err := o.calls(ctx, s, called)
	if err != nil {
		return err
	}
	if figure.List, err = timeLists(ctx, s, names); err != nil {
		return err
	}
	figure.Tools = len(names) / len(sound) * called
	if figure.InUse, err = inUse(ctx, s.Admin); err != nil {
		return err
	}
	*into = append(*into, figure)
	return nil
}

// name is that of a sound backend, and its prefix.
func name(i int) string { return "b" + strconv.Itoa(i) }

// prefixed is a call of the tool that one backend has.
type prefixed struct {
	path.Work

	prefix string
}

func (p prefixed) Tool() (canonical, mcp string) {
	canonical, mcp = p.Work.Tool()
	return p.prefix + "." + canonical, p.prefix + "_" + mcp
}

// rotating calls one backend after the other.
type rotating struct {
	callers []load.Caller
	next    int
}

func (r *rotating) Call(ctx context.Context) error {
	r.next++
	return r.callers[r.next%len(r.callers)].Call(ctx)
}

// calls lets the callers call the first backends in turn.
func (o *Options) calls(ctx context.Context, s *sidecar.Sidecar, called int) (out report.ManyFigure, err error) {
	way, err := path.Named("rpc")
	if err != nil {
		return out, err
	}
	callers := make([]load.Caller, o.Callers)
	for i := range callers {
		callers[i] = &rotating{next: i * called / o.Callers}
	}
	for i := range called {
		session, err := way.Open(ctx, path.Addrs{Sidecar: s.Addr}, o.Callers, prefixed{path.Echo(make([]byte, payload)), name(i)})
		if err != nil {
			return out, err
		}
		defer session.Close()
		for n, caller := range session.Callers {
			one, _ := callers[n].(*rotating)
			one.callers = append(one.callers, caller)
		}
	}
	const process = "sidecar"
	sample, err := load.Whole(ctx, callers, load.Options{
		Warmup: o.Window, Window: o.Window, Longest: 4 * o.Window, AtLeast: 2 * called,
		Clocks: []load.Clock{{Name: process, Read: s.CPU}},
	})
	if err != nil {
		return out, err
	}
	return report.ManyFigure{P50: sample.Percentile(0.5), P99: sample.Percentile(0.99), CPU: sample.CPUPerCall(process)}, nil
}

// hang has calls wait for the slow backend, the first of the odd ones, and returns what ends them. Those beyond its share are rejected
// at once; until that has happened they take slots, so that calls to others could be rejected too.
func (o *Options) hang(ctx context.Context, s *sidecar.Sidecar) (end func(), err error) {
	calling, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	var answered atomic.Int64
	transport := &http.Transport{}
	for i := range o.Hanging {
		calls.Go(func() {
			_, _ = ask(calling, transport, s.Addr, `{"jsonrpc":"2.0","id":"hangs-`+strconv.Itoa(i)+`","method":"tools/call","params":{"name":"odd0.lab.echo","arguments":{}}}`)
			answered.Add(1)
		})
	}
	end = func() {
		cancel()
		calls.Wait()
		transport.CloseIdleConnections()
	}
	for before := -1; ; {
		text, err := fetch(ctx, http.DefaultTransport, http.MethodGet, "http://"+s.Admin+"/readyz?verbose", nil)
		if err != nil {
			return end, err
		}
		inFlight := 0
		if found := underWay.FindSubmatch(text); found != nil {
			inFlight, _ = strconv.Atoi(string(found[1])) // digits
		}
		if inFlight+int(answered.Load()) >= o.Hanging && inFlight == before {
			return end, nil
		}
		before = inFlight
		if err := pause(ctx); err != nil {
			return end, err
		}
	}
}

// underWay is what /readyz says of the calls that were begun.
var underWay = regexp.MustCompile(`(\d+) requests in flight`)

// pause passes the time between two looks.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// awaitList waits until tools of so many backends are listed, and returns those of the sound ones.
func awaitList(ctx context.Context, s *sidecar.Sidecar, backends int) ([]string, error) {
	// A backend has at least one tool. Then all of each are there, because a backend's tools come together.
	if err := s.AwaitTools(ctx, backends); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("the tools of %d backends are not listed after a minute", backends))
	defer cancel()
	for {
		all, err := list(ctx, s.Addr)
		if err != nil {
			return nil, err
		}
		prefixes := map[string]bool{}
		for _, tool := range all {
			prefix, _, _ := strings.Cut(tool, ".")
			prefixes[prefix] = true
		}
		if len(prefixes) >= backends {
			return ofSound(all), nil
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

func ofSound(tools []string) []string {
	return slices.DeleteFunc(tools, func(tool string) bool { return !strings.HasPrefix(tool, "b") })
}

// timeLists lists the tools some times and returns the median time of a list, in microseconds. Those of the sound backends have to be the same.
func timeLists(ctx context.Context, s *sidecar.Sidecar, want []string) (float64, error) {
	var took []time.Duration
	for range lists {
		began := time.Now()
		got, err := list(ctx, s.Addr)
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
		if got = ofSound(got); !slices.Equal(got, want) {
			return 0, fmt.Errorf("the sound backends have %d tools, had %d: %q", len(got), len(want), got)
		}
	}
	slices.Sort(took)
	return float64(took[len(took)/2].Nanoseconds()) / 1e3, nil
}

// list returns the names of all tools, sorted.
func list(ctx context.Context, addr string) ([]string, error) {
	var out []string
	for cursor := ""; ; {
		params := "{}"
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, cursor) // of ASCII
		}
		text, err := ask(ctx, http.DefaultTransport, addr, `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":`+params+`}`)
		if err != nil {
			return nil, err
		}
		var reply struct {
			Result struct {
				Tools []struct {
					Name string `json:"name"`
				} `json:"tools"`
				NextCursor string `json:"nextCursor"`
			} `json:"result"`
		}
		if err := json.Unmarshal(text, &reply); err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		for _, tool := range reply.Result.Tools {
			out = append(out, tool.Name)
		}
		if cursor = reply.Result.NextCursor; cursor == "" {
			slices.Sort(out)
			return out, nil
		}
	}
}

func ask(ctx context.Context, transport http.RoundTripper, addr, body string) ([]byte, error) {
	return fetch(ctx, transport, http.MethodPost, "http://"+addr+"/rpc", []byte(body))
}

// found are the lines of a heap profile that tell what heap and stacks need: what is resident beside them is what the collector has not given back.
var found = regexp.MustCompile(`(?m)^# (?:HeapInuse|Stack) = (\d+)`)

func inUse(ctx context.Context, admin string) (total int64, err error) {
	text, err := fetch(ctx, http.DefaultTransport, http.MethodGet, "http://"+admin+"/debug/pprof/heap?debug=1&gc=1", nil)
	if err != nil {
		return 0, err
	}
	for _, figure := range found.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseInt(string(figure[1]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("heap profile: %w", err)
		}
		total += n
	}
	return total, nil
}

func fetch(ctx context.Context, transport http.RoundTripper, method, url string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	return text, nil
}
