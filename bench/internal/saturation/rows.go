// SPDX-License-Identifier: Apache-2.0

package saturation

import (
	"context"
	"strconv"

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
