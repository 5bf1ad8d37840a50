// SPDX-License-Identifier: Apache-2.0

// Package settings converts parts of a configuration to options, limits, sources
// of tools and callers. It also has the checks that a configuration must pass
// before a port opens. Its functions only read files; they start nothing and keep
// nothing.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/auth"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// Checks returns the checks of a configuration beyond the rules of its message:
// each part of the sidecar checks its own settings.
func Checks(kind config.Kind) []config.Check {
	checks := []config.Check{checkValidate, checkMetadata, checkBaggage, checkCredentials, checkCallers, checkSelection, checkSchemas, checkFiles, checkPolicy, policy.CheckRateService}
	if kind != config.Once {
		checks = append(checks, checkSkills, identity.CheckResource, auth.Check, checkIdentity) // a command that calls once accepts no callers
	}
	return checks
}

// Telemetry returns the check of what the configuration and the environment say about
// OpenTelemetry.
func Telemetry(environ []string) config.Check {
	return func(cfg *configv1.Config, report func(path, message string)) {
		export.Resolve(cfg.GetTelemetry(), environ, report)
	}
}

// checkValidate refuses every mode of validation but the one that there is.
func checkValidate(cfg *configv1.Config, report func(path, message string)) {
	switch mode := cfg.GetValidate(); mode {
	case "", "standard":
	case "full":
		report("validate", "full was removed, because the sidecar's tests compare its engines; leave the setting out (--validate)")
	default:
		report("validate", fmt.Sprintf("must be standard, is %q", mode))
	}
}

// checkMetadata checks the metadata allow-lists.
func checkMetadata(cfg *configv1.Config, report func(path, message string)) {
	lists := cfg.GetBackend().GetMetadata()
	for i, pattern := range lists.GetInbound() {
		if _, err := backend.NewMetadataRules([]string{pattern}, nil); err != nil {
			report(fmt.Sprintf("backend.metadata.inbound[%d]", i), err.Error())
		}
	}
	for i, pattern := range lists.GetOutbound() {
		if _, err := backend.NewMetadataRules(nil, []string{pattern}); err != nil {
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

// checkFiles looks at the files that the configuration names before a port
// opens.
func checkFiles(cfg *configv1.Config, report func(path, message string)) {
	for i, ref := range cfg.GetCatalog().GetDescriptors() {
		if wrong := checkDescriptors(ref); wrong != "" {
			report(fmt.Sprintf("catalog.descriptors[%d]", i), wrong)
		}
	}
	servers := FetchOptions(cfg.GetCatalog())
	if err := servers.CheckCAFile(); err != nil {
		report("catalog.fetch_ca_file", err.Error())
	}
	if err := servers.CheckCredentialsFile(); err != nil {
		report("catalog.fetch_credentials_file", err.Error())
	}
	if path := cfg.GetState().GetKeyFile(); path != "" {
		if _, err := keys.LoadKeys(path); err != nil {
			report("state.key_file", err.Error())
		}
	}
}

// checkReadable says why a file cannot be read, in words that need only the
// flag's name before them.
func checkReadable(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("file %s does not exist", path)
	}
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory, not a file", path)
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path) // to open a pipe waits for a writer
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	return f.Close()
}
