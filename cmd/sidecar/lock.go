// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// lockFileMode: the file is reviewed and committed like source code.
const lockFileMode = 0o644

func newLockCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lock COMMAND",
		Short: "Pin the reviewed tools in a lock file (--catalog-lock), or compare with it",
		Long: `Lock pins the tools that you have reviewed. "lock update" writes the lock file: each
tool with a SHA-256 digest of its name, description, schemas and annotations. Review
the diff of the file and commit it. "lock check" fails if the tools differ from it, for
CI. "serve --catalog-lock FILE" compares each catalog with the file while it runs, and
reports differences, or leaves such tools out with --catalog-lock-mode refuse.

Use the flags or the configuration file that serve uses: globs, overlays and
--schema-profile change what clients see, and so the digests.`,
		Example: `  sidecar lock update --demo --catalog-lock catalog.lock.json
  sidecar lock check --demo --catalog-lock catalog.lock.json
  sidecar serve --demo --catalog-lock catalog.lock.json --catalog-lock-mode refuse`,
		Args: refuseUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError("which command? `" + cmd.CommandPath() + " --help` lists them")
		},
	}
	for _, inner := range []*cobra.Command{newLockUpdateCommand(env), newLockCheckCommand(env)} {
		inner.Args = asUsageError(inner.Args)
		addHelpAll(inner)
		cmd.AddCommand(inner)
	}
	return cmd
}

func newLockUpdateCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "update",
		Short: "Write the lock file for the tools that there are now",
		Long: `Update writes --catalog-lock for the tools that there are now, and prints what has
changed since the last update. The file is JSON, sorted by name; an unchanged catalog
gives the same bytes. It is replaced as a whole, so that readers see the old or the
new one. Tools that are registered at run time are not part of it.

Exit codes: 0 written or already up to date, 1 not written, 2 invalid usage or
configuration, 3 the catalog could not be loaded.`,
		Example: `  sidecar lock update --demo --catalog-lock catalog.lock.json
  sidecar lock update --backend http://127.0.0.1:50051 --catalog-lock catalog.lock.json
  sidecar lock update --config sidecar.yaml`,
		Args:        noArguments,
		Annotations: map[string]string{writesLock: "yes"},
	}
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return env.withReviewed(cmd, env.updateLock)
	}
	return cmd
}

func newLockCheckCommand(env environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Compare the tools with the lock file; fails if they differ",
		Long: `Check compares the tools that there are now with --catalog-lock, and prints each
difference: "+" a tool that is not in the lock, "-" one that is only there, "~" one that
differs, with the members that changed. "sidecar diff" shows what changed in a schema.

With --json it prints {"ok", "added", "removed", "changed": [{"name", "members"}]}.

Exit codes: 0 no difference, 1 a difference, 2 invalid usage, configuration or lock
file, 3 the catalog could not be loaded.`,
		Example: `  sidecar lock check --demo --catalog-lock catalog.lock.json
  sidecar lock check --descriptors api.binpb --catalog-lock catalog.lock.json --json`,
		Args: noArguments,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the differences as JSON")
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return env.withReviewed(cmd, func(path string, now []lock.Entry) error { return env.checkLock(path, now, asJSON) })
	}
	return cmd
}

// withReviewed loads the catalog as if there were no lock, and runs fn with the path of
// the lock file and the digests.
func (env environment) withReviewed(cmd *cobra.Command, fn func(path string, now []lock.Entry) error) error {
	var path string
	prepare := func(cfg *configv1.Config) error {
		path = cfg.GetCatalog().GetLockFile()
		if path == "" {
			return usageError("set --catalog-lock FILE, or catalog.lock_file in the configuration file")
		}
		cfg.Catalog.LockFile = ""
		return nil
	}
	return env.withPrepared(cmd, prepare, func(ctx context.Context, a *server.App) error {
		return env.loaded(ctx, a, func(_ *server.App, cat *catalog.Catalog) error {
			now, err := cat.LockEntries()
			if err != nil {
				return err
			}
			return fn(path, now)
		})
	})
}

func (env environment) updateLock(path string, now []lock.Entry) error {
	fresh, err := lock.New(now).JSON()
	if err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return bareWriteError(path, err)
	case bytes.Equal(old, fresh):
		_, err := fmt.Fprintf(env.stdout, "%s is up to date: %d tools\n", path, len(now))
		return err
	}
	if err := replaceFile(path, fresh); err != nil {
		return bareWriteError(path, err)
	}
	if before, err := lock.Parse(old); err == nil {
		if err := env.printDrift(before.Compare(now)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(env.stdout, "wrote %s: %d tools\n", path, len(now))
	return err
}

func bareWriteError(path string, err error) error {
	return fmt.Errorf("%s: %w", path, bareError(err))
}

// replaceFile writes a file and puts it in the place of another one in one step. A
// symbolic link stays: its target is replaced.
func replaceFile(path string, content []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone by then, unless a step failed
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(lockFileMode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// driftJSON is what `sidecar lock check --json` prints.
type driftJSON struct {
	OK      bool           `json:"ok"`
	Added   []string       `json:"added"`
	Removed []string       `json:"removed"`
	Changed []changeOfTool `json:"changed"`
}

type changeOfTool struct {
	Name    string   `json:"name"`
	Members []string `json:"members"`
}

func (env environment) checkLock(path string, now []lock.Entry, asJSON bool) error {
	locked, err := lock.Read(path)
	if err != nil { // it was good a moment ago
		return &exitError{code: exitUsage, text: err.Error()}
	}
	drift := locked.Compare(now)
	switch {
	case asJSON:
		out := driftJSON{OK: drift.IsNone(), Added: orEmpty(drift.Added), Removed: orEmpty(drift.Removed), Changed: []changeOfTool{}}
		for _, c := range drift.Changed {
			out.Changed = append(out.Changed, changeOfTool{Name: c.Name, Members: orEmpty(c.Members)})
		}
		err = printJSON(env.stdout, out)
	case drift.IsNone():
		_, err = fmt.Fprintf(env.stdout, "%d tools match %s\n", locked.Len(), path)
	default:
		err = env.printDrift(drift)
	}
	if err != nil {
		return err
	}
	if !drift.IsNone() {
		text := ""
		if !asJSON {
			text = fmt.Sprintf("the tools differ from %s: %v; review them, then run `sidecar lock update`", path, drift)
		}
		return &exitError{code: exitToolFailed, text: text}
	}
	return nil
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// printDrift prints a line for each tool that differs.
func (env environment) printDrift(d lock.Drift) error {
	var out bytes.Buffer
	for _, name := range d.Added {
		fmt.Fprintf(&out, "+ %s\n", name)
	}
	for _, name := range d.Removed {
		fmt.Fprintf(&out, "- %s\n", name)
	}
	for _, c := range d.Changed {
		fmt.Fprintf(&out, "~ %v\n", c)
	}
	_, err := env.stdout.Write(out.Bytes())
	return err
}
