// SPDX-License-Identifier: Apache-2.0

package saturation

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/apis"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// Catalogs of the page's table, as services of 20 methods each: 1,000 tools, the 9,160 to which one is added, and as many
// as googleapis has.
const (
	thousandServices = 50
	grownServices    = 458
	vastServices     = 567
)

// catalogs measures what large catalogs cost, once in every round and for each build. CPU time is that of the process, so
// that another one beside it changes little.
func (m *measurement) catalogs(ctx context.Context, out *report.Saturation) error {
	_, backend, err := m.start(ctx, peer.RoleBackend)
	if err != nil {
		return err
	}
	for range m.Rounds {
		for _, build := range []struct{ name, binary string }{{report.OfSidecar, m.Binary}, {report.OfOther, m.Other}} {
			if build.binary == "" {
				continue
			}
			var p report.CatalogPoint
			for _, row := range []func(context.Context, string, string, *report.CatalogPoint) error{m.thousand, m.vast, m.grown} {
				if err := row(ctx, build.binary, backend, &p); err != nil {
					return err
				}
			}
			out.Catalogs.Add(build.name, p)
		}
	}
	return nil
}

// scaled is a number of services, or fewer where only whether all works is of interest.
func (m *measurement) scaled(services int) int { return max(1, services/max(1, m.CatalogScale)) }

// withSet runs a sidecar with a descriptor set, and does something once it has been at rest.
func (m *measurement) withSet(ctx context.Context, binary, backend string, services int, do func(s *sidecar.Sidecar, set string, rest proc.Memory) error) (err error) {
	set := filepath.Join(m.Dir, fmt.Sprintf("apis-%d.binpb", services))
	if err := apis.Write(set, services, ""); err != nil {
		return fmt.Errorf("write descriptors: %w", err)
	}
	s, err := sidecar.Start(ctx, binary, m.Dir, "--backend", "grpc://"+backend, "--log-level", "error", "--descriptors", set)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := s.Stop(); err == nil {
			err = stopped
		}
	}()
	if !pause(ctx, m.CatalogRest) {
		return context.Cause(ctx)
	}
	memory, err := s.Memory()
	if err != nil {
		return err
	}
	m.say("%d tools: ready after %v, %.1f MB at rest", services*apis.PerService, s.Ready.Round(time.Millisecond), float64(memory.RSS)/1e6)
	return do(s, set, memory)
}

func (m *measurement) thousand(ctx context.Context, binary, backend string, p *report.CatalogPoint) error {
	return m.withSet(ctx, binary, backend, m.scaled(thousandServices), func(_ *sidecar.Sidecar, _ string, rest proc.Memory) error {
		p.Thousand, p.ThousandTools = rest.RSS, m.scaled(thousandServices)*apis.PerService
		return nil
	})
}

func (m *measurement) vast(ctx context.Context, binary, backend string, p *report.CatalogPoint) error {
	return m.withSet(ctx, binary, backend, m.scaled(vastServices), func(s *sidecar.Sidecar, _ string, rest proc.Memory) error {
		p.Vast, p.Ready, p.VastTools = rest.RSS, s.Ready, m.scaled(vastServices)*apis.PerService
		return nil
	})
}

// grown adds one small file.
func (m *measurement) grown(ctx context.Context, binary, backend string, p *report.CatalogPoint) error {
	services := m.scaled(grownServices)
	return m.withSet(ctx, binary, backend, services, func(s *sidecar.Sidecar, set string, rest proc.Memory) error {
		tools := services * apis.PerService
		before, err := s.CPU()
		if err != nil {
			return err
		}
		if err := s.ResetPeak(); err != nil {
			return err
		}
		if err := apis.Write(set, services, "More"); err != nil {
			return fmt.Errorf("write descriptors: %w", err)
		}
		if err := syscall.Kill(s.PID(), syscall.SIGHUP); err != nil {
			return fmt.Errorf("reload: %w", err)
		}
		if err := s.AwaitTools(ctx, tools+1); err != nil {
			return err
		}
		after, err := s.CPU()
		if err != nil {
			return err
		}
		memory, err := s.Memory()
		if err != nil {
			return err
		}
		p.Start, p.Grown, p.GrownTools = before, after-before, tools
		p.GrownRest, p.GrownPeak = rest.RSS, memory.Peak
		// The pages of files only became more meanwhile, so that this is the most that the rest can have been.
		p.GrownRestOwn, p.GrownPeakOwn = rest.Anon, memory.Peak-(memory.RSS-memory.Anon)
		m.say("one more file: %v of CPU, at most %.1f MB", (after - before).Round(time.Millisecond), float64(memory.Peak)/1e6)
		return nil
	})
}
