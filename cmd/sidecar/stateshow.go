// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
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

func newStateShowCommand(env environment) *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "show KIND KEY",
		Short: "Print one entry as JSON",
		Long: `Show prints one entry with its decoded value as JSON: of ` + stateKinds() + `.
Arguments, results, answers, headers and parameters of events are replaced by their
size; "redacted" lists what was. --reveal shows them: they may be secrets of callers, so
keep them out of tickets and logs. The key of an event is its sequence.

Exit codes: 0 success, 1 there is no such entry or it cannot be opened, 2 invalid usage
or configuration, 3 the state cannot be reached.`,
		Example: `  sidecar state show tasks KEY --state nats://127.0.0.1:4222 --state-key state.key
  sidecar state show switches trust --config sidecar.yaml`,
		Args:              kindAndKey,
		ValidArgsFunction: completeKinds,
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show arguments, results, answers and headers too")
	config.RegisterFlags(cmd.Flags(), config.State)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, err := kindOf(args[0])
		if err != nil {
			return err
		}
		return env.withState(cmd, func(ctx context.Context, i *state.Inspector, _ *configv1.Config) error {
			return env.showEntry(ctx, i, kind, args[1], reveal)
		})
	}
	return cmd
}

// kindAndKey checks the arguments of show and rm.
func kindAndKey(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want KIND and KEY, found %d arguments; KIND is one of %s, and `sidecar state ls KIND` lists the keys", len(args), stateKinds())
	}
	return nil
}

// entryDocument is an entry as show prints it.
type entryDocument struct {
	Kind string `json:"kind"`
	entryReport
	// Redacted are the members of the value that were replaced by their size.
	Redacted []string        `json:"redacted,omitempty"`
	Note     string          `json:"note,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
}

// showEntry prints one entry, and fails where it cannot be opened.
func (env environment) showEntry(ctx context.Context, i *state.Inspector, kind report.StateKind, key string, reveal bool) error {
	e, err := getEntry(ctx, i, kind, key)
	if err != nil {
		return err
	}
	document := entryDocument{Kind: kind.Name, entryReport: reportEntry(kind, &e, time.Now())}
	document.Details = nil
	if document.Unreadable == "" {
		if document.Value, document.Redacted, err = kind.Document(e.Value, reveal); err != nil {
			return err //nolint:wrapcheck // it names the kind
		}
	}
	if len(document.Redacted) > 0 {
		document.Note = "--reveal shows what is redacted"
	}
	if err := printJSON(env.stdout, document); err != nil {
		return err
	}
	if document.Unreadable != "" {
		return fmt.Errorf("%s %s: %s", kind.Name, key, document.Unreadable)
	}
	return nil
}

// getEntry returns an entry, or says where to find those that there are.
func getEntry(ctx context.Context, i *state.Inspector, kind report.StateKind, key string) (state.Item, error) {
	e, err := i.Get(ctx, kind.Name, key)
	if errors.Is(err, state.ErrNotFound) {
		return e, fmt.Errorf("%s: there is no entry %q%s; `sidecar state ls %s` lists the keys", kind.Name, key, detail(err), kind.Name)
	}
	if err != nil {
		return e, fmt.Errorf("%s: %w", kind.Name, err)
	}
	return e, nil
}

// detail is what an error says beside that there is none.
func detail(err error) string {
	_, text, ok := strings.Cut(err.Error(), state.ErrNotFound.Error()+": ")
	if !ok {
		return ""
	}
	return " (" + text + ")"
}
