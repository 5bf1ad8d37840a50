// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"strings"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend/recorded"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
)

// CheckRecorded reads the recording that a configuration names.
func CheckRecorded(cfg *configv1.Config, report func(path, message string)) {
	dir, _ := config.Unreal(cfg)
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

// openRecorded opens what answers in place of a backend; nil for nothing. current is the catalog, nil before the first.
func openRecorded(cfg *configv1.Config, current func() *catalog.Catalog) (*recorded.Upstream, error) {
	dir, invents := config.Unreal(cfg)
	if dir == "" && !invents {
		return nil, nil //nolint:nilnil // a nil one is none
	}
	o := recorded.Options{
		Match: recorded.Match(cfg.GetReplay().GetMatch()), Latency: cfg.GetReplay().GetLatency() == "recorded",
		Invents: invents, Seed: uint64(cfg.GetMockSeed()),
		Catalog: current,
	}
	if dir != "" {
		var err error
		if o.Recording, err = recorded.Open(dir); err != nil {
			return nil, fmt.Errorf("--replay: %w", err)
		}
	}
	return recorded.New(o), nil
}

// sayRecorded logs where answers come from, and what of a recording cannot be replayed with the catalog of now.
func sayRecorded(from *recorded.Upstream, log *zap.Logger, tell func(string)) {
	if from == nil {
		return
	}
	what, problems := from.Says()
	log.Warn("no backend: answers are not real", zap.String("what", what))
	for _, text := range problems {
		log.Warn("recorded calls cannot be replayed as they were", zap.String("warning", text))
	}
	if tell != nil {
		tell(strings.Join(append([]string{"No backend: answers are not real: " + what + "."}, problems...), "\n  ") + "\n")
	}
}

// recordedChecks say the same, for /readyz.
func recordedChecks(from *recorded.Upstream) []admin.Check {
	what, problems := from.Says()
	return []admin.Check{{Name: "replay", Info: true, OK: len(problems) == 0, Detail: strings.Join(append([]string{"answers are not real: " + what}, problems...), "; ")}}
}
