// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/server/lastresort"
	"github.com/outrigger-mcp/outrigger/internal/server/reconfigure"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// environment is what a command has of its process, so that tests can run one
// without being one.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	// resort ends the process where nothing else does.
	resort *lastresort.Timer
}

// Exit codes, as `sidecar --help` lists them.
const (
	exitOK         = 0
	exitToolFailed = 1 // the tool itself failed, doctor found something, or serving ended with an error
	exitUsage      = 2 // wrong flags, arguments or configuration; no port was opened
	exitRefused    = 3 // a canonical error: the sidecar refused the call or could not make it
)

// exitError ends the process with a code; what there was to say has been said
// where its text is empty.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

func exitWith(code int) error { return &exitError{code: code} }

func usageError(text string) error { return &exitError{code: exitUsage, text: text} }

// exitCode is the code that an error ends the process with.
func exitCode(err error) int {
	var exit *exitError
	var faults *config.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &faults):
		return exitUsage
	}
	return exitToolFailed
}

// doctorName is the command that also checks what only processes that last use.
const doctorName = "doctor"

// writesLock annotates the command that writes the lock file, so that it need not
// exist.
const writesLock = "writes-lock"

// load makes the configuration of a command and reports everything that is
// wrong with it at once.
func (env environment) load(cmd *cobra.Command, kind config.Kind) (*configv1.Config, error) {
	cfg, _, err := env.loadWatched(cmd, kind)
	return cfg, err
}

// loadWatched is load for a process that lasts.
func (env environment) loadWatched(cmd *cobra.Command, kind config.Kind) (*configv1.Config, reconfigure.Reread, error) {
	again := reconfigure.Reread{Load: func() (*config.Config, error) { return env.read(cmd, kind) }}
	cfg, err := again.Load()
	if err != nil {
		return nil, again, err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(env.stderr, "warning:", w)
	}
	again.File = cfg.File
	return cfg.Config, again, nil
}

// read makes the configuration of a command.
func (env environment) read(cmd *cobra.Command, kind config.Kind) (*config.Config, error) {
	if kind == config.State { // it uses that section alone, and other files may be elsewhere
		return config.Load(kind, cmd.Flags(), env.environ, config.Options{})
	}
	checks := server.Checks(kind == config.Once)
	if cmd.Annotations[writesLock] == "" { // one command writes the file
		checks = append(checks, catalog.CheckLock)
	}
	if kind != config.Once || cmd.Name() == doctorName {
		checks = append(checks, server.CheckTelemetry(env.environ)) // other commands export nothing
	}
	cfg, err := config.Load(kind, cmd.Flags(), env.environ, config.Options{Checks: checks})
	if err == nil {
		cfg.ResolveRecords(env.environ)
	}
	return cfg, err
}

// clientTimeout bounds commands that ask a backend once and end: a person waits.
const clientTimeout = 30 * time.Second

// patience bounds a command that uses this configuration. What servers of descriptors may take is added, so that the
// command does not end before the setting for them, whose error says more.
func patience(cfg *configv1.Config) time.Duration {
	return clientTimeout + source.FetchTime(cfg.GetCatalog())
}

// withApp assembles a sidecar for one question to its backend and runs fn with it.
func (env environment) withApp(cmd *cobra.Command, fn func(context.Context, *server.App) error) error {
	return env.withPrepared(cmd, func(*configv1.Config) error { return nil }, fn)
}

// withPrepared is withApp for a command that changes the configuration before it is
// used.
func (env environment) withPrepared(cmd *cobra.Command, prepare func(*configv1.Config) error, fn func(context.Context, *server.App) error) error {
	cfg, err := env.load(cmd, config.Once)
	if err != nil {
		return err
	}
	if err := prepare(cfg); err != nil {
		return err
	}
	a, err := server.New(cmd.Context(), cfg, server.Options{Version: currentBuild().Version, Once: true})
	if err != nil {
		return err
	}
	defer func() { _ = a.Close(cmd.Context()) }()
	limit := patience(cfg)
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), limit, fmt.Errorf("the command took longer than %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	return fn(ctx, a)
}

// withCatalog loads the catalog once and runs fn with it. Of several backends, one that is away takes nothing from the tools of the
// others: fn runs with those, and the exit code says afterwards that some are missing.
func (env environment) withCatalog(cmd *cobra.Command, fn func(*server.App, *catalog.Catalog) error) error {
	return env.withApp(cmd, func(ctx context.Context, a *server.App) error {
		cat, err := a.Load(ctx)
		if cat == nil {
			return notLoaded(err)
		}
		if err == nil {
			return fn(a, cat)
		}
		fmt.Fprintln(env.stderr, "warning: tools are missing: "+harmless(err.Error()))
		if failed := fn(a, cat); failed != nil {
			return failed
		}
		return exitWith(exitRefused)
	})
}

// withWholeCatalog is withCatalog for what is kept, or decided by all tools: without some of them it fails.
func (env environment) withWholeCatalog(cmd *cobra.Command, fn func(*server.App, *catalog.Catalog) error) error {
	return env.withApp(cmd, func(ctx context.Context, a *server.App) error { return env.loaded(ctx, a, fn) })
}

// loaded loads the whole catalog of a sidecar and runs fn with it. A catalog that cannot
// be had is what doctor is for, so the error points there.
func (environment) loaded(ctx context.Context, a *server.App, fn func(*server.App, *catalog.Catalog) error) error {
	cat, err := a.Load(ctx)
	if err != nil {
		return notLoaded(err)
	}
	return fn(a, cat)
}

// notLoaded is the error for a catalog that cannot be had.
func notLoaded(err error) error {
	return &exitError{code: exitRefused, text: fmt.Sprintf("%v\nrun `sidecar doctor` with the same flags for details", err)}
}
