// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Checks returns the checks of a configuration beyond the rules of its message:
// each part of the sidecar checks its own settings.
func Checks(kind config.Kind) []config.Check {
	checks := []config.Check{checkMetadata, checkBaggage, checkCredentials, checkCallers, checkSelection, checkSchemas, checkFiles, checkPolicy, checkRateService}
	if kind != config.Once {
		checks = append(checks, checkSkills, checkProtectedResource, checkAuthentication, checkIdentity) // a command that calls once accepts no callers
	}
	return checks
}

// Telemetry returns the check of what the configuration and the environment say about
// OpenTelemetry.
func Telemetry(environ []string) config.Check {
	return func(cfg *configv1.Config, report func(path, message string)) {
		telemetry.Resolve(cfg.GetTelemetry(), environ, report)
	}
}

// checkMetadata checks the metadata allow-lists.
func checkMetadata(cfg *configv1.Config, report func(path, message string)) {
	lists := cfg.GetBackend().GetMetadata()
	for i, pattern := range lists.GetInbound() {
		if _, err := metadata.NewRules([]string{pattern}, nil); err != nil {
			report(fmt.Sprintf("backend.metadata.inbound[%d]", i), err.Error())
		}
	}
	for i, pattern := range lists.GetOutbound() {
		if _, err := metadata.NewRules(nil, []string{pattern}); err != nil {
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
