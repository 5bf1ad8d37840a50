// SPDX-License-Identifier: Apache-2.0

package saturation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// Rates of callers beside whom others are noisy or slow: what a small service gets.
const (
	fastRate     = 500
	fastClients  = 64
	quietRate    = 100
	quietClients = 16
	slowFor      = 2 * time.Second
)

// largeNoise is the payload of noisy callers with large arguments.
const largeNoise = 300_000

// middle is a process in the middle, and how calls for it are made: small ones, those of noisy callers, and those of a slow
// tool.
type middle struct {
	name        string
	process     *proc.Process
	echo, noise func(token string, payload int) (*message, error)
	sleep       func() (*message, error)
}

// middles are the sidecar, the other build where there is one, and the empty proxy, in front of one backend. The last one is
// two sidecars, one for the small calls and one for the others: what is slower there than alone is the doing of the machine, the
// generator and the backend.
func (m *measurement) middles(ctx context.Context, args ...string) ([]middle, error) {
	_, backend, err := m.start(ctx, peer.RoleBackend)
	if err != nil {
		return nil, err
	}
	var out []middle
	for _, build := range []struct{ name, binary string }{{report.OfSidecar, m.Binary}, {report.OfOther, m.Other}} {
		if build.binary == "" {
			continue
		}
		s, err := m.sidecar(ctx, build.binary, backend, args...)
		if err != nil {
			return nil, err
		}
		out = append(out, ofSidecar(build.name, s))
	}
	proxy, addr, err := m.start(ctx, peer.RoleProxy, backend, peer.EchoMethod, peer.SleepMethod)
	if err != nil {
		return nil, err
	}
	echo := func(_ string, payload int) (*message, error) { return proxyCall(addr, payload) }
	out = append(out, middle{
		name: report.OfProxy, process: proxy, echo: echo, noise: echo,
		sleep: func() (*message, error) { return proxySleep(addr, slowFor) },
	})
	second, err := m.sidecar(ctx, m.Binary, backend, args...)
	if err != nil {
		return nil, err
	}
	apart := ofSidecar(report.OfApart, second)
	apart.noise, apart.sleep = out[0].noise, out[0].sleep
	return append(out, apart), proxy.Renice(niceness)
}

func ofSidecar(name string, s *sidecar.Sidecar) middle {
	echo := func(token string, payload int) (*message, error) { return echoCall(s.Addr, token, payload), nil }
	return middle{name: name, process: s.Process, echo: echo, noise: echo, sleep: func() (*message, error) {
		return toolCall(s.Addr, "lab_sleep", "", `,"duration":"`+slowFor.String()+`"`), nil
	}}
}

// eachMiddle measures every process in every round; each round begins with another one.
func (m *measurement) eachMiddle(all []middle, measure func(*middle) error) error {
	for round := range m.Rounds {
		for i := range all {
			if err := measure(&all[(i+round)%len(all)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// slowTool measures a fast tool alone, and while many callers wait for a slow one: all of them at the same time, so that their
// answers come at the same time, and spread over the time that the slow tool takes.
func (m *measurement) slowTool(ctx context.Context, out *report.Saturation) error {
	all, err := m.middles(ctx)
	if err != nil {
		return err
	}
	return m.eachMiddle(all, func(in *middle) error {
		echo, err := in.echo("", payload)
		if err != nil {
			return err
		}
		sleep, err := in.sleep()
		if err != nil {
			return err
		}
		fast := &subject{name: in.name, process: in.process, message: echo}
		slow := &subject{name: in.name, process: in.process, message: sleep}
		run := func() (*Sample, error) { return m.open(ctx, fast, fastClients, fastRate) }
		for _, row := range []struct {
			name    string
			callers int
			over    time.Duration
		}{{report.Alone, 0, 0}, {report.BesideSlow, m.Crowd, 0}, {report.BesideStaggered, m.Crowd, slowFor}} {
			m.say("%s, %s", in.name, row.name)
			sample, err := m.beside(ctx, slow, row.callers, row.over, run)
			if err != nil {
				return err
			}
			out.SlowTool.Add(report.Of(in.name, row.name), point(fastRate, sample))
		}
		return nil
	})
}

// beside runs a measurement while many callers of another subject call in closed loops. They begin within a time, and the
// measurement after it.
func (m *measurement) beside(ctx context.Context, others *subject, n int, over time.Duration, what func() (*Sample, error)) (*Sample, error) {
	clients := others.clients(n)
	defer closeAll(clients)
	connect(ctx, clients)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var noise sync.WaitGroup
	for i, c := range clients {
		noise.Go(func() {
			if over > 0 {
				pause(ctx, over*time.Duration(i)/time.Duration(n))
			}
			for ctx.Err() == nil {
				got, err := c.call(ctx)
				if err != nil && ctx.Err() == nil {
					cancel(err)
				}
				if got == failed {
					pause(ctx, 10*time.Millisecond)
				}
			}
		})
	}
	pause(ctx, over)
	sample, err := what()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	noise.Wait()
	return sample, err
}

// neighbours measures a caller with its own token alone, beside many that call all the time, and beside some with large
// calls. The proxy knows no tokens.
func (m *measurement) neighbours(ctx context.Context, out *report.Saturation) error {
	const quietToken, noisyToken = "token-of-the-quiet-caller", "token-of-the-noisy-caller"
	file := filepath.Join(m.Dir, "callers.yaml")
	if err := os.WriteFile(file, []byte("callers:\n"+caller("quiet", quietToken)+caller("noisy", noisyToken)), 0o600); err != nil {
		return fmt.Errorf("callers: %w", err)
	}
	all, err := m.middles(ctx, "--tokens", file)
	if err != nil {
		return err
	}
	return m.eachMiddle(all, func(in *middle) error {
		echo, err := in.echo(quietToken, payload)
		if err != nil {
			return err
		}
		quiet := &subject{name: in.name, process: in.process, message: echo}
		run := func() (*Sample, error) { return m.open(ctx, quiet, quietClients, quietRate) }
		for _, noise := range []struct {
			name    string
			callers int
			payload int
		}{{report.Alone, 0, payload}, {report.ManySmall, m.Crowd / 2, payload}, {report.FewLarge, min(16, m.Crowd), largeNoise}} {
			m.say("%s, %s", in.name, noise.name)
			call, err := in.noise(noisyToken, noise.payload)
			if err != nil {
				return err
			}
			sample, err := m.beside(ctx, &subject{process: in.process, message: call}, noise.callers, 0, run)
			if err != nil {
				return fmt.Errorf("%s: %w", noise.name, err)
			}
			out.Neighbours.Add(report.Of(in.name, noise.name), point(quietRate, sample))
		}
		return nil
	})
}

func caller(name, token string) string {
	digest := sha256.Sum256([]byte(token))
	return "  - name: " + name + "\n    token_sha256: [\"" + hex.EncodeToString(digest[:]) + "\"]\n    tools: [\"*\"]\n"
}
