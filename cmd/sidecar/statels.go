// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// maxStateEntries is the most entries that ls can be told to show.
const maxStateEntries = 100_000

func newStateListCommand(env environment) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "ls [KIND]",
		Short: "List the streams, or the entries of one kind",
		Long: `Ls lists the streams of the deployment, or the entries of one kind: ` + stateKinds() + `.
Entries come in the order in which they were last written, without arguments and
results. An entry that cannot be opened, because it was sealed with another key or by a
release of another time, is listed as unreadable.

Exit codes: 0 success, 1 a stream does not exist, 2 invalid usage or configuration,
3 the state cannot be reached.`,
		Example: `  sidecar state ls --state nats://127.0.0.1:4222 --state-key state.key
  sidecar state ls tasks --config sidecar.yaml --limit 1000`,
		Args:              between(0, 1),
		ValidArgsFunction: completeKinds,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON: {"deployment", "streams": [...]} or {"kind", "entries": [...], "more"}`)
	cmd.Flags().IntVar(&limit, "limit", 100, "maximum number of entries")
	config.RegisterFlags(cmd.Flags(), config.State)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 1 || limit > maxStateEntries {
			return usageError(fmt.Sprintf("--limit: must be 1 to %d, is %d", maxStateEntries, limit))
		}
		if len(args) == 0 {
			return env.withState(cmd, func(ctx context.Context, i *state.Inspector, cfg *configv1.Config) error {
				return env.listStreams(ctx, i, cfg.GetState().GetName(), asJSON)
			})
		}
		kind, err := kindOf(args[0])
		if err != nil {
			return err
		}
		return env.withState(cmd, func(ctx context.Context, i *state.Inspector, _ *configv1.Config) error {
			return env.listEntries(ctx, i, kind, limit, asJSON)
		})
	}
	return cmd
}

// streamReport is a stream as ls prints it.
type streamReport struct {
	Kind     string     `json:"kind"`
	Stream   string     `json:"stream,omitempty"`
	Entries  uint64     `json:"entries"`
	Bytes    int64      `json:"bytes"`
	MaxBytes int64      `json:"max_bytes"`
	Replicas int        `json:"replicas"`
	Storage  string     `json:"storage,omitempty"`
	Leader   string     `json:"leader,omitempty"`
	Oldest   *time.Time `json:"oldest"`
	Newest   *time.Time `json:"newest"`
	// Missing: there is no such stream.
	Missing bool `json:"missing,omitempty"`
}

// listStreams prints the streams of the deployment.
func (env environment) listStreams(ctx context.Context, i *state.Inspector, name string, asJSON bool) error {
	var reports []streamReport
	missing := 0
	for _, kind := range i.Kinds() {
		info, err := i.Info(ctx, kind)
		switch {
		case errors.Is(err, state.ErrNotFound):
			missing++
			reports = append(reports, streamReport{Kind: kind, Missing: true})
			continue
		case err != nil:
			return err //nolint:wrapcheck // it names the stream
		}
		reports = append(reports, streamReport{
			Kind: kind, Stream: info.Name, Entries: info.Entries, Bytes: info.Bytes, MaxBytes: info.MaxBytes, Replicas: info.Replicas,
			Storage: info.Storage, Leader: info.Leader, Oldest: optionalTime(info.Oldest), Newest: optionalTime(info.Newest),
		})
	}
	if asJSON {
		err := printJSON(env.stdout, struct {
			Deployment string         `json:"deployment"`
			Streams    []streamReport `json:"streams"`
		}{name, reports})
		if err != nil {
			return err
		}
	} else if err := env.printStreams(reports); err != nil {
		return err
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d streams of the deployment %q do not exist: the first replica makes them; is --state-name right?", missing, len(reports), name)
	}
	return nil
}

func (env environment) printStreams(reports []streamReport) error {
	now := time.Now()
	table := tabwriter.NewWriter(env.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tENTRIES\tBYTES\tMAX BYTES\tREPLICAS\tSTORAGE\tLEADER\tOLDEST\tNEWEST")
	since := func(at *time.Time) string {
		if at == nil {
			return "-"
		}
		return elapsed(*at, now)
	}
	for _, r := range reports {
		if r.Missing {
			fmt.Fprintf(table, "%s\tmissing\t\t\t\t\t\t\t\n", r.Kind)
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", r.Kind, r.Entries, byteText(r.Bytes), byteText(r.MaxBytes), r.Replicas,
			r.Storage, cell(r.Leader), since(r.Oldest), since(r.Newest))
	}
	return table.Flush()
}

// entryReport is an entry as ls prints it.
type entryReport struct {
	Key      string     `json:"key"`
	Revision uint64     `json:"revision"`
	Size     int        `json:"size"`
	Stored   time.Time  `json:"stored"`
	Expires  *time.Time `json:"expires"`
	// Unreadable is why the value cannot be opened.
	Unreadable string            `json:"unreadable,omitempty"`
	Details    map[string]string `json:"details,omitempty"`

	row []string
}

// reportEntry describes an entry.
func reportEntry(kind report.StateKind, e *state.Item, now time.Time) entryReport {
	r := entryReport{Key: e.Key, Revision: e.Revision, Size: e.Size, Stored: e.At.UTC(), Expires: optionalTime(e.Expires)}
	err := e.Err
	if err == nil {
		r.row, err = kind.Row(e.Value, now)
	}
	if err != nil {
		r.Unreadable, r.row = err.Error(), nil
		return r
	}
	for n, value := range r.row {
		if r.Details == nil {
			r.Details = map[string]string{}
		}
		r.Details[kind.Columns[n]] = value
	}
	return r
}

// listEntries prints the entries of a kind.
func (env environment) listEntries(ctx context.Context, i *state.Inspector, kind report.StateKind, limit int, asJSON bool) error {
	now := time.Now()
	reports := []entryReport{}
	more, err := i.Scan(ctx, kind.Name, func(e state.Item) bool {
		reports = append(reports, reportEntry(kind, &e, now))
		return len(reports) < limit
	})
	if err != nil {
		return fmt.Errorf("%s: %w", kind.Name, err)
	}
	if asJSON {
		return printJSON(env.stdout, struct {
			Kind    string        `json:"kind"`
			Entries []entryReport `json:"entries"`
			More    uint64        `json:"more"`
		}{kind.Name, reports, more})
	}
	table := tabwriter.NewWriter(env.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, strings.ToUpper(strings.Join(append([]string{"key", "size", "age", "expires"}, kind.Columns...), "\t")))
	for _, r := range reports {
		expires := "never"
		if r.Expires != nil {
			expires = remaining(*r.Expires, now)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s", cell(r.Key), byteText(int64(r.Size)), elapsed(r.Stored, now), expires)
		if r.Unreadable != "" {
			fmt.Fprintf(table, "\tunreadable: %s", cell(r.Unreadable))
		}
		for _, value := range r.row {
			fmt.Fprintf(table, "\t%s", cell(value))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(env.stderr, "%d more entries; show them with --limit\n", more)
	}
	return nil
}
