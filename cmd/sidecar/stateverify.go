// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

const (
	// maxStateValues is the most values of a kind that verify can be told to open.
	maxStateValues = 10_000_000
	// verifyTimeout bounds the whole of verify, which may read all that is stored.
	verifyTimeout = 10 * time.Minute
)

func newStateVerifyCommand(env environment) *cobra.Command {
	var asJSON bool
	var values int
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the shared state: servers, streams, copies, room, permissions, keys",
		Long: `Verify checks all that can be seen of the shared state from here: whether each server
answers, its version and max_payload, whether JetStream is enabled, whether each stream
exists with the right settings and all its copies, how full it is, whether the account
may read and write, whether --state-key opens the values, and whether the clocks agree.
It changes nothing. Each problem comes with its fix.

How often the servers write to the disk (sync_interval) is not visible to an account:
a note says so. With --json it prints {"ok", "findings": [{"level", "text", "fix"}]};
levels are ok, note, warn and fail.

Exit codes: 0 no finding of level fail, 1 a finding of level fail, 2 invalid usage or
configuration.`,
		Example: `  sidecar state verify --state nats://127.0.0.1:4222 --state-key state.key
  sidecar state verify --config sidecar.yaml --json`,
		Args: noArguments,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	cmd.Flags().IntVar(&values, "values", 10_000, "maximum number of values of each kind that are opened; 0: none")
	config.RegisterFlags(cmd.Flags(), config.State)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if values < 0 || values > maxStateValues {
			return usageError(fmt.Sprintf("--values: must be 0 to %d, is %d", maxStateValues, values))
		}
		cfg, err := env.read(cmd, config.State)
		if err != nil {
			return err
		}
		return env.verifyState(cmd.Context(), cfg.Config, values, asJSON)
	}
	return cmd
}

// verifyState prints the findings, and fails where one of them is a problem.
func (env environment) verifyState(ctx context.Context, cfg *configv1.Config, values int, asJSON bool) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	found := report.Diagnoses{OK: true, Findings: []report.Diagnosis{}}
	tell := func(f state.Finding) {
		shown := report.Diagnosis{Level: string(f.Level), Text: f.Text, Fix: f.Fix}
		found.Findings = append(found.Findings, shown)
		found.OK = found.OK && f.Level != state.LevelFail
		if !asJSON {
			shown.Print(env.stdout)
		}
	}
	i, err := report.OpenState(cfg)
	var key *report.StateKeyError
	switch {
	case errors.As(err, &key):
		return usageError(err.Error())
	case err != nil:
		tell(state.Finding{Level: state.LevelFail, Text: "cannot connect: " + err.Error(), Fix: "start the servers, or correct --state, the credentials or state.tls"})
	default:
		defer i.Close()
		i.Verify(ctx, state.VerifyOptions{MaxResultBytes: cfg.GetLimits().GetMaxResultBytes(), MaxValues: values}, tell)
	}
	if asJSON {
		if err := printJSON(env.stdout, found); err != nil {
			return err
		}
	}
	if !found.OK {
		return exitWith(exitToolFailed)
	}
	return nil
}
