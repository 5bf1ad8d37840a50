// SPDX-License-Identifier: Apache-2.0

// Package saturation measures what the sidecar does with more work than it can do: more callers and higher rates than
// fit, slow tools and slow backends, and callers that disturb others. The process in the middle has a lower scheduling
// priority than the load generator and the backend, so that it is the one that runs out of CPU. Every answer's id and
// nonce are checked; a wrong one ends the run.
package saturation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// Options say what is measured, and for how long.
type Options struct {
	// Binary is the sidecar, Other another build of it or "", Dir a folder that processes may work in.
	Binary, Other, Dir string
	Rounds             int
	Warmup, Window     time.Duration
	// Callers are the numbers of callers that call in closed loops, in ascending order.
	Callers []int
	// Multiples of the capacity are offered as rates. Connections is how many calls can be in flight then.
	Multiples   []float64
	Connections int
	// Crowd is how many callers call the slow tool, or are noisy.
	Crowd int
	// CatalogRest is how long a sidecar is left alone before its memory is read: it gives back what it does not need after
	// 10 to 20 s. CatalogScale divides the sizes of catalogs; 0 leaves them.
	CatalogRest  time.Duration
	CatalogScale int
	// Only are the steps to make, by name; none for all.
	Only []string
}

// Steps are the names of what is measured, in their order.
func Steps() []string {
	var names []string
	for _, s := range new(measurement).steps() {
		names = append(names, s.name)
	}
	return names
}

// step is a part of the measurement.
type step struct {
	name string
	run  func(context.Context, *report.Saturation) error
}

func (m *measurement) steps() []step {
	return []step{
		{"curves", m.curves},
		{"costs", m.costs},
		{"slow-tool", m.slowTool},
		{"slow-backend", m.slowBackend},
		{"neighbours", m.neighbours},
		{"grpc", m.grpc},
		{"catalogs", m.catalogs},
	}
}

// payload of the small call, in bytes.
const payload = 36

// niceness of the process in the middle.
const niceness = 5

// subject is a process in the middle, and the message that its callers send.
type subject struct {
	name    string
	process *proc.Process
	message *message
}

func (s *subject) clients(n int) []*client {
	out := make([]*client, n)
	for i := range out {
		out[i] = s.message.client(i)
	}
	return out
}

type measurement struct {
	Options

	say  func(string, ...any)
	stop []func() error
}

// Measure makes all rounds. Head is left to the caller.
func Measure(ctx context.Context, o Options, say func(string, ...any)) (out *report.Saturation, err error) {
	m := &measurement{Options: o, say: say}
	defer func() { err = errors.Join(err, m.end()) }()
	out = &report.Saturation{Rounds: o.Rounds, Window: o.Window, Crowd: o.Crowd, Connections: o.Connections}
	for _, step := range m.steps() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, step.name) {
			continue
		}
		if err := step.run(ctx, out); err != nil {
			return nil, err
		}
		if err := m.end(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// end stops what a step has started, the last first.
func (m *measurement) end() error {
	var errs []error
	for len(m.stop) > 0 {
		last := len(m.stop) - 1
		errs = append(errs, m.stop[last]())
		m.stop = m.stop[:last]
	}
	return errors.Join(errs...)
}

// start starts this executable in a role.
func (m *measurement) start(ctx context.Context, args ...string) (*proc.Process, string, error) {
	p, addr, err := peer.Start(ctx, m.Dir, args...)
	if err == nil {
		m.stop = append(m.stop, p.Stop)
	}
	return p, addr, err
}

// sidecar starts a build of the sidecar with a lower priority.
func (m *measurement) sidecar(ctx context.Context, binary, backend string, args ...string) (*sidecar.Sidecar, error) {
	s, err := sidecar.Start(ctx, binary, m.Dir, append([]string{"--backend", "grpc://" + backend, "--log-level", "error"}, args...)...)
	if err != nil {
		return nil, err
	}
	m.stop = append(m.stop, s.Stop)
	return s, s.Renice(niceness)
}

// subjects are the sidecar, the empty proxy, and the other build where there is one, in front of one backend.
func (m *measurement) subjects(ctx context.Context) ([]*subject, error) {
	_, backend, err := m.start(ctx, peer.RoleBackend)
	if err != nil {
		return nil, err
	}
	var out []*subject
	for _, build := range []struct{ name, binary string }{{report.OfSidecar, m.Binary}, {report.OfOther, m.Other}} {
		if build.binary == "" {
			continue
		}
		s, err := m.sidecar(ctx, build.binary, backend)
		if err != nil {
			return nil, err
		}
		out = append(out, &subject{name: build.name, process: s.Process, message: echoCall(s.Addr, "", payload)})
	}
	proxy, addr, err := m.start(ctx, peer.RoleProxy, backend, peer.EchoMethod)
	if err != nil {
		return nil, err
	}
	call, err := proxyCall(addr, payload)
	if err != nil {
		return nil, err
	}
	return append(out, &subject{name: report.OfProxy, process: proxy, message: call}), proxy.Renice(niceness)
}

func (m *measurement) window(s *subject) window {
	return window{warmup: m.Warmup, length: m.Window, cpu: s.process.CPU}
}

// closed measures a subject with callers in closed loops.
func (m *measurement) closed(ctx context.Context, s *subject, callers int) (*Sample, error) {
	clients := s.clients(callers)
	defer closeAll(clients)
	sample, err := closed(ctx, clients, m.window(s))
	if err != nil {
		return nil, fmt.Errorf("%s, %d callers: %w", s.name, callers, err)
	}
	m.say("%-8s %5d callers: %6.0f/s answered, %6.0f/s rejected, %d failed, CPU %v each, p50 %v, p99 %v", s.name, callers, sample.Goodput(),
		float64(sample.Rejected)/m.Window.Seconds(), sample.Failed, sample.CPUPer().Round(100*time.Nanosecond), sample.Percentile(0.5).Round(10*time.Microsecond), sample.Percentile(0.99).Round(10*time.Microsecond))
	return sample, nil
}

// open measures a subject at a rate.
func (m *measurement) open(ctx context.Context, s *subject, connections int, rate float64) (*Sample, error) {
	clients := s.clients(connections)
	defer closeAll(clients)
	sample, err := open(ctx, clients, rate, m.window(s))
	if err != nil {
		return nil, fmt.Errorf("%s at %.0f/s: %w", s.name, rate, err)
	}
	m.say("%-8s %6.0f/s offered: %6.0f/s answered, %6.0f/s rejected, %d failed, %d unsent, CPU %v each, p50 %v, p99 %v", s.name, rate, sample.Goodput(),
		float64(sample.Rejected)/m.Window.Seconds(), sample.Failed, sample.Unsent, sample.CPUPer().Round(100*time.Nanosecond), sample.Percentile(0.5).Round(10*time.Microsecond), sample.Percentile(0.99).Round(10*time.Microsecond))
	return sample, nil
}

func closeAll(clients []*client) {
	for _, c := range clients {
		c.close()
	}
}

// point is a sample as the report shows it.
func point(x float64, s *Sample) report.LoadPoint {
	seconds := s.Window.Seconds()
	return report.LoadPoint{
		X: x, Answered: s.Goodput(), Rejected: float64(s.Rejected) / seconds, Failed: float64(s.Failed) / seconds, Unsent: float64(s.Unsent) / seconds,
		P50: s.Percentile(0.5), P99: s.Percentile(0.99), CPU: s.CPUPer(),
	}
}
