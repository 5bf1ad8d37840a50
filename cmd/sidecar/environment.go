// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/policy"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
)

// environment is what a command has of its process, so that tests can run one
// without being one.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	// resort ends the process where nothing else does.
	resort *lastResort
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

// load makes the configuration of a command and reports everything that is
// wrong with it at once.
func (env environment) load(cmd *cobra.Command, kind config.Kind) (*configv1.Config, error) {
	cfg, _, err := env.loadWatched(cmd, kind)
	return cfg, err
}

// reread is how a configuration is read again, from where it came: the same
// flags and variables, and the file as it is now.
type reread struct {
	// file is the configuration file, empty where there is none.
	file string
	load func() (*config.Config, error)
}

// loadWatched is load for a process that lasts.
func (env environment) loadWatched(cmd *cobra.Command, kind config.Kind) (*configv1.Config, reread, error) {
	again := reread{load: func() (*config.Config, error) { return env.read(cmd, kind) }}
	cfg, err := again.load()
	if err != nil {
		return nil, again, err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(env.stderr, "warning:", w)
	}
	again.file = cfg.File
	return cfg.Config, again, nil
}

// read makes the configuration of a command.
func (env environment) read(cmd *cobra.Command, kind config.Kind) (*config.Config, error) {
	checks := []config.Check{checkMetadata, checkCredentials, checkCallers, checkSelection, checkSchemas, checkFiles}
	if kind != config.Once {
		checks = append(checks, checkDoor) // who calls once needs no door
	}
	return config.Load(kind, cmd.Flags(), env.environ, config.Options{Checks: checks})
}

// checkMetadata asks the bridge about the metadata allow-lists.
func checkMetadata(cfg *configv1.Config, report func(path, message string)) {
	metadata := cfg.GetBackend().GetMetadata()
	for i, pattern := range metadata.GetInbound() {
		if _, err := bridge.NewMetadataRules([]string{pattern}, nil); err != nil {
			report(fmt.Sprintf("backend.metadata.inbound[%d]", i), err.Error())
		}
	}
	for i, pattern := range metadata.GetOutbound() {
		if _, err := bridge.NewMetadataRules(nil, []string{pattern}); err != nil {
			report(fmt.Sprintf("backend.metadata.outbound[%d]", i), err.Error())
		}
	}
}

// checkCallers asks the policy about the callers that are trusted.
func checkCallers(cfg *configv1.Config, report func(path, message string)) {
	for i, caller := range cfg.GetTrustedCallers() {
		if err := policy.NewGate(policy.Untrusted).TrustCallers([]string{caller}); err != nil {
			report(fmt.Sprintf("trusted_callers[%d]", i), err.Error())
		}
	}
}

// checkSelection asks the catalog about the globs.
func checkSelection(cfg *configv1.Config, report func(path, message string)) {
	for i, glob := range cfg.GetCatalog().GetInclude() {
		if _, err := catalog.NewSelection([]string{glob}, nil); err != nil {
			report(fmt.Sprintf("catalog.include[%d]", i), err.Error())
		}
	}
	for i, glob := range cfg.GetCatalog().GetExclude() {
		if _, err := catalog.NewSelection(nil, []string{glob}); err != nil {
			report(fmt.Sprintf("catalog.exclude[%d]", i), err.Error())
		}
	}
}

// clientTimeout bounds commands that ask a backend once and end: a person waits.
const clientTimeout = 30 * time.Second

// withCatalog loads the catalog once and runs fn with it. A catalog that cannot
// be had is what doctor is for, so the error points there.
func (env environment) withCatalog(cmd *cobra.Command, fn func(*app, *catalog.Catalog) error) error {
	cfg, err := env.load(cmd, config.Once)
	if err != nil {
		return err
	}
	a, err := newApp(cmd.Context(), cfg, zap.NewNop())
	if err != nil {
		return err
	}
	defer func() { _ = a.close(cmd.Context()) }()
	ctx, cancel := context.WithTimeout(cmd.Context(), clientTimeout)
	defer cancel()
	cat, err := a.load(ctx)
	if err != nil {
		return &exitError{code: exitRefused, text: fmt.Sprintf("%v\nrun `sidecar doctor` with the same flags for details", err)}
	}
	return fn(a, cat)
}
