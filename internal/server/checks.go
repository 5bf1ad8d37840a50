// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/offer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/server/webhook"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// check is one check of a configuration: it reports what is wrong by the paths of fields.
type check = func(cfg *configv1.Config, report func(path, message string))

// Checks returns the checks of a configuration beyond the rules of its message:
// each part of the sidecar checks its own settings. once is for a command that calls once: it accepts no callers.
func Checks(once bool) []check {
	checks := []check{
		checkValidate, upstream.CheckBackends(once), policy.CheckCallers, catalog.Check, checkStateKey, upstream.CheckRules, policy.CheckRateService,
		upstream.CheckRecorded,
	}
	if !once {
		checks = append(checks, offer.CheckSkills, identity.CheckResource, front.Check, webhook.Check)
	}
	return checks
}

// CheckTelemetry returns the check of what the configuration and the environment say about
// OpenTelemetry.
func CheckTelemetry(environ []string) check {
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

// checkStateKey reads the key before a port opens.
func checkStateKey(cfg *configv1.Config, report func(path, message string)) {
	if path := cfg.GetState().GetKeyFile(); path != "" {
		if _, err := keys.LoadKeys(path); err != nil {
			report("state.key_file", err.Error())
		}
	}
}
