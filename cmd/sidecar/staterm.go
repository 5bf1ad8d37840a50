// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
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

// removal are the flags of rm.
type removal struct {
	yes      bool
	revision uint64
}

func newStateRemoveCommand(env environment) *cobra.Command {
	var r removal
	cmd := &cobra.Command{
		Use:   "rm KIND KEY",
		Short: "Remove one entry",
		Long: `Rm removes one entry, if it has not changed since it was shown. It says what that
means, and asks; without a terminal, --yes answers. The key is that of ` + "`sidecar state ls KIND`" + `.

` + removalText() + `
A whole stream is removed with the tools of NATS, once all replicas have stopped:
  nats stream rm KV_outrigger_NAME_tasks

Exit codes: 0 success, 1 there is no such entry, or it was changed meanwhile, 2 invalid
usage or configuration, 3 the state cannot be reached.`,
		Example: `  sidecar state rm tasks KEY --state nats://127.0.0.1:4222 --state-key state.key
  sidecar state rm switches trust --config sidecar.yaml --yes`,
		Args:              kindAndKey,
		ValidArgsFunction: completeKinds,
	}
	cmd.Flags().BoolVar(&r.yes, "yes", false, "remove it without a question")
	cmd.Flags().Uint64Var(&r.revision, "revision", 0, "revision that the entry must still have; unset: the one that is shown")
	config.RegisterFlags(cmd.Flags(), config.State)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, err := kindOf(args[0])
		switch {
		case err != nil:
			return err
		case kind.Removal == "":
			return usageError(kind.Name + " are kept in their order and cannot be removed one by one: they expire by themselves")
		case !r.yes && !isTerminal(env.stdin):
			return usageError("standard input is no terminal: confirm with --yes")
		}
		return env.withState(cmd, func(ctx context.Context, i *state.Inspector, _ *configv1.Config) error {
			return env.removeEntry(ctx, i, kind, args[1], r)
		})
	}
	return cmd
}

// removalText says what a removal means, for each kind.
func removalText() string {
	var b strings.Builder
	for _, k := range report.StateKinds() {
		text := k.Removal
		if text == "" {
			text = "cannot be removed one by one"
		}
		line := "  " + k.Name + ":"
		for word := range strings.FieldsSeq(text) {
			if len(line)+1+len(word) > helpWidth {
				b.WriteString(line + "\n")
				line = "   "
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// helpWidth is that of the text of a help.
const helpWidth = 88

// removeEntry shows an entry, asks, and removes it.
func (env environment) removeEntry(ctx context.Context, i *state.Inspector, kind report.StateKind, key string, r removal) error {
	e, err := getEntry(ctx, i, kind, key)
	if err != nil {
		return err
	}
	if r.revision != 0 && r.revision != e.Revision {
		return fmt.Errorf("%s %s: its revision is %d, not %d: it was changed meanwhile; nothing was removed", kind.Name, key, e.Revision, r.revision)
	}
	now := time.Now()
	shown := reportEntry(kind, &e, now)
	fmt.Fprintf(env.stderr, "%s %s, revision %d, %s, %s old", kind.Name, key, e.Revision, byteText(int64(e.Size)), elapsed(e.At, now))
	for n, value := range shown.row {
		fmt.Fprintf(env.stderr, ", %s %s", kind.Columns[n], cell(value))
	}
	if shown.Unreadable != "" {
		fmt.Fprintf(env.stderr, ", unreadable: %s", cell(shown.Unreadable))
	}
	fmt.Fprintf(env.stderr, "\nmeaning: %s\n", kind.Removal)
	if !r.yes {
		fmt.Fprint(env.stderr, "remove it? [y/N] ")
		answer, err := bufio.NewReader(env.stdin).ReadString('\n')
		if answer = strings.ToLower(strings.TrimSpace(answer)); err != nil && answer == "" || answer != "y" && answer != "yes" {
			return errors.New("nothing was removed")
		}
	}
	// A person may have thought about it for longer than the rest may take.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clientTimeout)
	defer cancel()
	err = i.Remove(ctx, kind.Name, key, e.Revision)
	switch {
	case errors.Is(err, state.ErrConflict):
		return fmt.Errorf("%s %s: it was changed meanwhile; nothing was removed: look at it again", kind.Name, key)
	case err != nil:
		return fmt.Errorf("%s %s: %w", kind.Name, key, err)
	}
	fmt.Fprintf(env.stdout, "removed %s %s\n", kind.Name, key)
	return nil
}
