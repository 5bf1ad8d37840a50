// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/identity/behalf"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/offer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/auth"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// check is one check of a configuration: it reports what is wrong by the paths of fields.
type check = func(cfg *configv1.Config, report func(path, message string))

// Checks returns the checks of a configuration beyond the rules of its message:
// each part of the sidecar checks its own settings. once is for a command that calls once: it accepts no callers.
func Checks(once bool) []check {
	checks := []check{
		checkValidate, backend.Check, policy.CheckCallers, catalog.Check, source.Check, checkStateKey, upstream.CheckRules, policy.CheckRateService,
	}
	if !once {
		checks = append(checks, offer.CheckSkills, identity.CheckResource, checkSubjectHeader, auth.Check, checkIdentity)
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

// checkSubjectHeader looks at the name of the header that names the caller.
func checkSubjectHeader(cfg *configv1.Config, report func(path, message string)) {
	if subject := auth.SubjectHeader(cfg); subject != "" {
		if _, err := backend.NewMetadataRules([]string{subject}, nil); err != nil {
			report("access.subject_header", err.Error())
		}
	}
}

// checkIdentity makes what speaks for callers before a port opens, so that its errors are
// reported together with all others.
func checkIdentity(cfg *configv1.Config, report func(path, message string)) {
	i := cfg.GetBackend().GetIdentity()
	var err error
	switch i.GetMode() {
	case "exchange":
		err = checkExchange(i, report)
	case "signed":
		err = checkSigned(i, report)
	default:
		return
	}
	if err != nil {
		return
	}
	checkOneAuthorization(cfg.GetBackend(), report)
	checkIdentityPlaintext(cfg.GetBackend(), report)
}

func checkExchange(i *configv1.BackendIdentity, report func(path, message string)) error {
	if i.GetExchange().GetTokenUrl() == "" {
		return errors.New("it is reported by its own rule")
	}
	if err := behalf.CheckURL(i.GetExchange().GetTokenUrl()); err != nil {
		report("backend.identity.exchange.token_url", err.Error())
		return err
	}
	x, err := behalf.NewExchanger(i, "", zap.NewNop())
	if err != nil {
		report("backend.identity.exchange", err.Error())
		return err
	}
	x.Close()
	return nil
}

func checkSigned(i *configv1.BackendIdentity, report func(path, message string)) error {
	if i.GetSigned().GetKeyFile() == "" {
		return errors.New("it is reported by its own rule")
	}
	_, err := behalf.NewSigner(i)
	if err != nil {
		report("backend.identity.signed.key_file", err.Error())
	}
	return err
}

// checkOneAuthorization refuses two values for one header. A header file is read again
// while the sidecar runs; the credentials of the caller win over it then.
func checkOneAuthorization(b *configv1.Backend, report func(path, message string)) {
	const twice = "calls have the caller's credentials in the authorization header (backend.identity); remove one of the two"
	all := backend.CredentialsOf(b)
	for path, one := range map[string]backend.CredentialOptions{
		"backend.credentials.token_file": {TokenFile: all.TokenFile, Scheme: all.Scheme},
		"backend.metadata.static":        {Headers: all.Headers},
		"backend.metadata.static_file":   {HeaderFile: all.HeaderFile},
	} {
		if one.Sets("Authorization") {
			report(path, twice)
		}
	}
}

// checkIdentityPlaintext refuses to send tokens over a network without TLS.
func checkIdentityPlaintext(b *configv1.Backend, report func(path, message string)) {
	target, err := backend.ParseTarget(b.GetUrl())
	if err == nil && !target.IsPrivate() && !b.GetCredentials().GetAllowPlaintext() {
		report("backend.url", backend.ErrPlaintextCredentials.Error())
	}
}
