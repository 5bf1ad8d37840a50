// SPDX-License-Identifier: Apache-2.0

package saturation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
)

// costCallers is how many call in closed loops where CPU time is compared.
const costCallers = 16

// costs compares the CPU time of a result, of a tool's own error and of a rejected call, beside an empty 503 of net/http.
func (m *measurement) costs(ctx context.Context, out *report.Saturation) error {
	_, backend, err := m.start(ctx, peer.RoleBackend)
	if err != nil {
		return err
	}
	open, err := m.sidecar(ctx, m.Binary, backend, "--breaker", "off")
	if err != nil {
		return err
	}
	limited, err := m.sidecar(ctx, m.Binary, backend, "--caller-rate", "1")
	if err != nil {
		return err
	}
	floor, addr, err := m.start(ctx, peer.RoleRefusal)
	if err != nil {
		return err
	}
	empty, err := proxyCall(addr, payload)
	if err != nil {
		return err
	}
	fails := &message{
		addr: open.Addr, hasID: true,
		beforeID:    []byte(`{"jsonrpc":"2.0","id":"`),
		beforeNonce: []byte(`","method":"tools/call","params":{"name":"lab_fail","arguments":{"code":"FAIL_CODE_NOT_FOUND","message":"`),
		afterNonce:  []byte(`"}` + mcpMeta + `}}`),
	}
	fails.finish("/mcp", mcpHeaders("lab_fail", ""))
	rows := []*subject{
		{name: report.CostResult, process: open.Process, message: echoCall(open.Addr, "", payload)},
		{name: report.CostError, process: open.Process, message: fails},
		{name: report.CostRejected, process: limited.Process, message: echoCall(limited.Addr, "", payload)},
		{name: report.CostFloor, process: floor, message: empty},
	}
	for range m.Rounds {
		for _, s := range rows {
			sample, err := m.closed(ctx, s, costCallers)
			if err != nil {
				return err
			}
			out.Costs.Add(s.name, point(0, sample))
		}
	}
	return nil
}

// Rates of callers beside whom others are noisy or slow: what a small service gets.
const (
	quietRate    = 100
	quietClients = 16
	slowFor      = "2s"
)

// slowTool measures a fast tool alone, and while many callers wait for a slow one.
func (m *measurement) slowTool(ctx context.Context, out *report.Saturation) error {
	_, backend, err := m.start(ctx, peer.RoleBackend)
	if err != nil {
		return err
	}
	s, err := m.sidecar(ctx, m.Binary, backend)
	if err != nil {
		return err
	}
	fast := &subject{name: "fast tool", process: s.Process, message: echoCall(s.Addr, "", payload)}
	slow := &subject{name: "slow tool", process: s.Process, message: toolCall(s.Addr, "lab_sleep", "", `,"duration":"`+slowFor+`"`)}
	for range m.Rounds {
		alone, err := m.open(ctx, fast, quietClients*4, 5*quietRate)
		if err != nil {
			return err
		}
		beside, err := m.beside(ctx, slow, m.Crowd, func() (*Sample, error) { return m.open(ctx, fast, quietClients*4, 5*quietRate) })
		if err != nil {
			return err
		}
		out.SlowTool.Add(report.Alone, point(5*quietRate, alone))
		out.SlowTool.Add(report.BesideSlow, point(5*quietRate, beside))
	}
	return nil
}

// beside runs a measurement while many callers of another subject call in closed loops.
func (m *measurement) beside(ctx context.Context, others *subject, n int, what func() (*Sample, error)) (*Sample, error) {
	clients := others.clients(n)
	defer closeAll(clients)
	connect(ctx, clients)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var noise sync.WaitGroup
	for _, c := range clients {
		noise.Go(func() {
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
	sample, err := what()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	noise.Wait()
	return sample, err
}

// limitedRate is what the slow backend answers in a second.
const limitedRate = 800

// limitedWorkers is how many calls it works on at a time.
const limitedWorkers = 8

// slowBackend offers a backend more than it can do.
func (m *measurement) slowBackend(ctx context.Context, out *report.Saturation) error {
	_, backend, err := m.start(ctx, peer.RoleBackend, strconv.Itoa(limitedRate))
	if err != nil {
		return err
	}
	s, err := m.sidecar(ctx, m.Binary, backend)
	if err != nil {
		return err
	}
	sub := &subject{name: report.OfSidecar, process: s.Process, message: echoCall(s.Addr, "", payload)}
	for range m.Rounds {
		// Timers make it a little slower than its nominal rate.
		able, err := m.closed(ctx, sub, 2*limitedWorkers)
		if err != nil {
			return err
		}
		for _, x := range []float64{0.9, 2, 4} {
			sample, err := m.open(ctx, sub, m.Connections, x*limitedRate)
			if err != nil {
				return err
			}
			p := point(x, sample)
			p.Capacity = able.Goodput()
			out.SlowBackend.Add(report.OfSidecar, p)
		}
	}
	return nil
}

// largeNoise is the payload of noisy callers with large arguments.
const largeNoise = 300_000

// neighbours measures a caller with its own token alone, beside many that call all the time, and beside some with large
// calls.
func (m *measurement) neighbours(ctx context.Context, out *report.Saturation) error {
	_, backend, err := m.start(ctx, peer.RoleBackend)
	if err != nil {
		return err
	}
	const quietToken, noisyToken = "token-of-the-quiet-caller", "token-of-the-noisy-caller"
	file := filepath.Join(m.Dir, "callers.yaml")
	if err := os.WriteFile(file, []byte("callers:\n"+caller("quiet", quietToken)+caller("noisy", noisyToken)), 0o600); err != nil {
		return fmt.Errorf("callers: %w", err)
	}
	s, err := m.sidecar(ctx, m.Binary, backend, "--tokens", file)
	if err != nil {
		return err
	}
	quiet := &subject{name: "quiet", process: s.Process, message: echoCall(s.Addr, quietToken, payload)}
	run := func() (*Sample, error) { return m.open(ctx, quiet, quietClients, quietRate) }
	for range m.Rounds {
		alone, err := run()
		if err != nil {
			return err
		}
		out.Neighbours.Add(report.Alone, point(quietRate, alone))
		for _, noise := range []struct {
			name    string
			callers int
			payload int
		}{{report.ManySmall, m.Crowd / 2, payload}, {report.FewLarge, min(16, m.Crowd), largeNoise}} {
			others := &subject{name: "noisy", process: s.Process, message: echoCall(s.Addr, noisyToken, noise.payload)}
			sample, err := m.beside(ctx, others, noise.callers, run)
			if err != nil {
				return fmt.Errorf("%s: %w", noise.name, err)
			}
			out.Neighbours.Add(noise.name, point(quietRate, sample))
		}
	}
	return nil
}

func caller(name, token string) string {
	digest := sha256.Sum256([]byte(token))
	return "  - name: " + name + "\n    token_sha256: [\"" + hex.EncodeToString(digest[:]) + "\"]\n    tools: [\"*\"]\n"
}
