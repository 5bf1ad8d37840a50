// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/load"
	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// idleCalls wake everything that a first call makes and keeps.
const idleCalls = 10

// harness carries what all measurements need.
type harness struct {
	opts      *options
	root, dir string
	binary    string
	progress  io.Writer
}

func (h *harness) say(format string, args ...any) {
	_, _ = fmt.Fprintf(h.progress, format+"\n", args...)
}

func (h *harness) build(ctx context.Context) error {
	if h.opts.binary != "" {
		var err error
		if h.binary, err = filepath.Abs(h.opts.binary); err != nil {
			return fmt.Errorf("-sidecar: %w", err)
		}
		return nil
	}
	h.say("building the sidecar")
	var err error
	h.binary, err = sidecar.Build(ctx, h.root, h.dir)
	return err
}

// footprint measures size, starts and idle memory, in this order: the starts also bring the binary into memory.
func (h *harness) footprint(ctx context.Context, into *report.Footprint) error {
	info, err := os.Stat(h.binary)
	if err != nil {
		return fmt.Errorf("size of the binary: %w", err)
	}
	into.Binary = info.Size()
	for i := range h.opts.starts {
		s, err := sidecar.Start(ctx, h.binary, h.dir, "--demo")
		if err != nil {
			return fmt.Errorf("start %d: %w", i+1, err)
		}
		if err := s.Stop(); err != nil {
			return fmt.Errorf("stop %d: %w", i+1, err)
		}
		into.Ready = append(into.Ready, s.Ready)
		if logged := s.Logged(); logged > 0 {
			into.Logged = append(into.Logged, logged)
		}
		h.say("start %d of %d: ready after %v", i+1, h.opts.starts, s.Ready.Round(time.Millisecond/10))
	}
	into.Calls, into.Idle = idleCalls, h.opts.idle
	if err := h.idleMemory(ctx, into); err != nil {
		return fmt.Errorf("idle memory: %w", err)
	}
	return nil
}

// warmRest is how long after the calls the memory of a sidecar at work is read.
const warmRest = 2 * time.Second

// idleMemory starts the demo, lets it rest, calls it a few times, and reads what is resident: at once, and when it has
// been idle for a while, as it is for most of a day. The latter is what the limit is for; an idle sidecar that has not been called
// yet, and one that is at work, are shown beside it.
func (h *harness) idleMemory(ctx context.Context, into *report.Footprint) (err error) {
	s, err := sidecar.Start(ctx, h.binary, h.dir, "--demo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	fresh, err := h.rest(ctx, s, warmRest)
	if err != nil {
		return err
	}
	if err := h.fewCalls(ctx, s.Addr); err != nil {
		return err
	}
	warm, err := h.rest(ctx, s, warmRest)
	if err != nil {
		return err
	}
	idle, err := h.rest(ctx, s, h.opts.idle)
	into.FreshRSS, into.WarmRSS, into.IdleRSS, into.IdleAnon = fresh.RSS, warm.RSS, idle.RSS, idle.Anon
	return err
}

// rest waits and reads the memory then.
func (h *harness) rest(ctx context.Context, s *sidecar.Sidecar, d time.Duration) (proc.Memory, error) {
	h.say("idle for %v", d)
	select {
	case <-time.After(d):
		return s.Memory()
	case <-ctx.Done():
		return proc.Memory{}, context.Cause(ctx)
	}
}

// fewCalls go the way that a program's calls go, over /rpc.
func (h *harness) fewCalls(ctx context.Context, addr string) error {
	for _, p := range path.All() {
		if p.Name != "rpc" {
			continue
		}
		session, err := p.Open(ctx, path.Addrs{Sidecar: addr}, 1, path.Echo(h.payload()))
		if err != nil {
			return err
		}
		defer session.Close()
		return repeat(ctx, session.Callers[0], idleCalls)
	}
	return nil
}

func repeat(ctx context.Context, caller load.Caller, calls int) error {
	for range calls {
		if err := caller.Call(ctx); err != nil {
			return err
		}
	}
	return nil
}

// payload has no runs that anything could compress.
func (h *harness) payload() []byte {
	out := make([]byte, payloads()[h.opts.size])
	state := uint32(1)
	for i := range out {
		state = state*1664525 + 1013904223 // any fixed sequence will do; this one is from Numerical Recipes
		out[i] = byte(state >> 24)
	}
	return out
}
