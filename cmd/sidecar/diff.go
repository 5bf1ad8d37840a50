// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func newDiffCommand(env environment) *cobra.Command {
	var asJSON, asMarkdown, allowUnclear bool
	servers := &configv1.Catalog{}
	timeout := defaults.CatalogFetchTimeout
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two catalogs and report breaking changes",
		Long: `Diff compares two catalogs and lists breaking changes first, then those that may
break: changes that are not plain, such as another pattern or another oneof. OLD and NEW are output of ` + "`sidecar tools --json`" + ` or descriptor sets (` + "`buf build -o`, `protoc -o`" + `),
in any mix. "-" reads one of them, as JSON, from standard input. Descriptor sets may
also be folders, https:// URLs and oci:// references, as for serve --descriptors. Diff
also names tools with either kind of changes whose major version did not change.

Exit codes: 0 no breaking changes, 1 changes that break or may break (with
--allow-unclear only those that break), 2 invalid usage, 3 unreadable file.`,
		Example: `  sidecar tools --backend http://127.0.0.1:50051 --json | sidecar diff catalog.json -
  sidecar diff old.binpb new.binpb --markdown > MIGRATION.md`,
		Args: between(2, 2),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: {breaking, unclear, changes, versions}")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print a migration note: the changes per tool, and what callers must do")
	cmd.Flags().BoolVar(&allowUnclear, "allow-unclear", false, "exit with 0 if changes may break and none does")
	cmd.Flags().DurationVar(&timeout, "descriptors-timeout", timeout, "maximum time to fetch descriptors from a server")
	cmd.Flags().StringVar(&servers.FetchCaFile, "descriptors-ca", "", "PEM file of CAs trusted to sign the certificates of servers; unset: the system's CAs")
	cmd.Flags().StringVar(&servers.FetchCredentialsFile, "descriptors-credentials", "", "file with credentials of servers, one \"HOST bearer TOKEN\" or \"HOST basic USER:PASSWORD\" per line")
	cmd.Flags().BoolVar(&servers.FetchDockerHelpers, "descriptors-docker-helpers", false, "run the helper programs that Docker's config.json names for credentials")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asJSON && asMarkdown {
			return usageError("--json and --markdown exclude each other; choose one")
		}
		if args[0] == "-" && args[1] == "-" {
			return usageError("only one of OLD and NEW can be standard input")
		}
		if timeout <= 0 {
			return usageError("--descriptors-timeout must be positive")
		}
		bounds := source.Limits{MaxBytes: maxCatalogFile, FetchTimeout: timeout}
		before, err := env.readCatalog(cmd.Context(), args[0], bounds, servers)
		if err != nil {
			return err
		}
		after, err := env.readCatalog(cmd.Context(), args[1], bounds, servers)
		if err != nil {
			return err
		}
		found := report.Compare(before, after, report.DiffLimits{})
		write := found.WriteText
		switch {
		case asJSON:
			write = found.WriteJSON
		case asMarkdown:
			write = found.WriteMarkdown
		}
		if err := write(env.stdout); err != nil {
			return &exitError{code: exitRefused, text: "write report: " + err.Error()}
		}
		if found.Breaking || found.Unclear && !allowUnclear {
			return exitWith(exitToolFailed)
		}
		return nil
	}
	return cmd
}

// maxCatalogFile is the largest file that diff reads: a list of as many tools as a catalog holds by default.
const maxCatalogFile = 512 << 20

// readCatalog reads a list of tools or descriptors, whichever there are. Errors end with the code for what cannot be read.
func (env environment) readCatalog(ctx context.Context, ref string, bounds source.Limits, servers *configv1.Catalog) ([]report.Tool, error) {
	tools, err := env.parseCatalog(ctx, ref, bounds, servers)
	if err != nil {
		return nil, &exitError{code: exitRefused, text: fmt.Sprintf("%s: %v", shownRef(ref), err)}
	}
	return tools, nil
}

func (env environment) parseCatalog(ctx context.Context, ref string, bounds source.Limits, servers *configv1.Catalog) ([]report.Tool, error) {
	if source.IsRemote(ref) || isFolder(ref) {
		return env.describedTools(ctx, ref, bounds, servers)
	}
	raw, err := env.readWhole(ref)
	if err != nil {
		return nil, err
	}
	tools, notList := report.ReadTools(raw, report.DiffLimits{MaxBytes: maxCatalogFile})
	if notList == nil {
		return tools, nil
	}
	// No descriptor set begins with either bracket: they are the tags of groups that it does not have.
	if ref == "-" || len(raw) > 0 && (raw[0] == '[' || raw[0] == '{') {
		return nil, notList
	}
	if tools, err = env.describedTools(ctx, ref, bounds, servers); err != nil {
		return nil, fmt.Errorf("neither output of `sidecar tools --json` (%w) nor a descriptor set (%w)", notList, err)
	}
	return tools, nil
}

// describedTools are the tools of what serve takes as --descriptors.
func (env environment) describedTools(ctx context.Context, ref string, bounds source.Limits, servers *configv1.Catalog) ([]report.Tool, error) {
	from, err := source.FromReference(ref, bounds, source.FetchOptions{Config: servers})
	if err != nil {
		return nil, err
	}
	loaded, err := from.Load(ctx)
	if err != nil {
		if source, ok := errors.AsType[*source.Error](err); ok {
			err = source.Cause // It names the source, and so does the caller.
		}
		return nil, err
	}
	cat, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
	if err != nil {
		return nil, err
	}
	for _, w := range cat.Warnings() {
		fmt.Fprintf(env.stderr, "warning: %s: %s\n", shownRef(ref), w)
	}
	return report.FromCatalog(cat), nil
}

// shownRef is a reference without what may be secret in a URL: a user with a password, and the query.
func shownRef(ref string) string {
	if !source.IsRemote(ref) {
		return ref
	}
	ref, _, _ = strings.Cut(ref, "?")
	if u, err := url.Parse(ref); err == nil && u.Scheme != "oci" {
		u.User = nil
		return u.String()
	}
	return ref
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// bareError is the error of a file without its path, which is said by the caller.
func bareError(err error) error {
	var fault *os.PathError
	if errors.As(err, &fault) {
		return fault.Err
	}
	return err
}

func (env environment) readWhole(path string) ([]byte, error) {
	in := env.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, bareError(err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxCatalogFile+1))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if len(raw) > maxCatalogFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxCatalogFile)
	}
	return raw, nil
}
