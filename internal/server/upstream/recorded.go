// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"strings"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend/recorded"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
)

// CheckRecorded reads the recording that a configuration names.
func CheckRecorded(cfg *configv1.Config, report func(path, message string)) {
	dir := cfg.GetReplay().GetDir()
	if dir == "" {
		return
	}
	recording, err := recorded.Open(dir)
	if err == nil {
		err = recording.Close()
	}
	if err != nil {
		report("replay.dir", err.Error())
	}
}

// openRecorded opens what answers in place of a backend; nil for nothing.
func (s *Service) openRecorded(cfg *configv1.Config) (*recorded.Upstream, error) {
	if cfg.GetReplay().GetDir() == "" && !cfg.GetMock() {
		return nil, nil //nolint:nilnil // a nil one is none
	}
	o := recorded.Options{
		Match: recorded.Match(cfg.GetReplay().GetMatch()), Latency: cfg.GetReplay().GetLatency() == "recorded",
		Invents: cfg.GetMock(), Seed: uint64(cfg.GetMockSeed()), //nolint:gosec // a rule of the field: at least 0
		Catalog: func() *catalog.Catalog {
			if s.live == nil {
				return nil
			}
			return s.live.Current()
		},
	}
	if dir := cfg.GetReplay().GetDir(); dir != "" {
		var err error
		if o.Recording, err = recorded.Open(dir); err != nil {
			return nil, fmt.Errorf("--replay: %w", err)
		}
	}
	return recorded.New(o), nil
}

// sayRecorded logs where answers come from, and what of a recording cannot be replayed with the catalog of now.
func (s *Service) sayRecorded() {
	if s.recorded == nil {
		return
	}
	what, problems := s.recorded.Says()
	s.opts.Log.Warn("no backend: "+notReal, zap.String("source", what))
	for _, text := range problems {
		s.opts.Log.Warn("recorded calls cannot be replayed as they were", zap.String("warning", text))
	}
	if s.opts.Tell != nil {
		s.opts.Tell(strings.Join(append([]string{"No backend: " + notReal + ": " + what + "."}, problems...), "\n  ") + "\n")
	}
}

// notReal is what a person has to know who reads an answer.
const notReal = "answers are not real"

// recordedChecks say the same, for /readyz.
func (s *Service) recordedChecks() []admin.Check {
	what, problems := s.recorded.Says()
	return []admin.Check{{Name: "replay", Info: true, OK: len(problems) == 0, Detail: strings.Join(append([]string{notReal + ": " + what}, problems...), "; ")}}
}
