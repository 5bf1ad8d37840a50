// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// stateKinds is the list of kinds for help and errors.
func stateKinds() string { return strings.Join(report.StateKindNames(), ", ") }

// completeKinds completes the name of a kind.
func completeKinds(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return report.StateKindNames(), cobra.ShellCompDirectiveNoFileComp
}

// kindOf finds a kind by its name.
func kindOf(name string) (report.StateKind, error) {
	k, ok := report.FindStateKind(name)
	if !ok {
		return k, usageError(fmt.Sprintf("KIND: there is no kind %q; want one of %s", name, stateKinds()))
	}
	return k, nil
}

// withState connects to the shared state and runs fn with it.
func (env environment) withState(cmd *cobra.Command, fn func(context.Context, *state.Inspector, *configv1.Config) error) error {
	cfg, err := env.read(cmd, config.State)
	if err != nil {
		return err
	}
	i, err := report.OpenState(cfg.Config)
	if err != nil {
		return stateError(err)
	}
	defer i.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), clientTimeout)
	defer cancel()
	return stateError(fn(ctx, i, cfg.Config))
}

// stateError gives an error of the store its exit code.
func stateError(err error) error {
	var key *report.StateKeyError
	var exit *exitError
	switch {
	case err == nil, errors.As(err, &exit):
		return err
	case errors.As(err, &key):
		return usageError(err.Error())
	case errors.Is(err, state.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &exitError{code: exitRefused, text: fmt.Sprintf("%v\nrun `sidecar state verify` with the same flags for details", err)}
	}
	return err
}

// elapsed is a time since a moment, for people.
func elapsed(since, now time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return max(now.Sub(since), 0).Truncate(time.Second).String()
}

// remaining is the time until a moment, for people.
func remaining(until, now time.Time) string {
	if until.IsZero() {
		return "never"
	}
	return max(until.Sub(now), 0).Truncate(time.Second).String()
}

// byteText is a number of bytes, for people.
func byteText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1fGiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1fMiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1fKiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%dB", n)
}

// optionalTime is a time in JSON, or null.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
