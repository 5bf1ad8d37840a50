// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/identity/behalf"
)

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
	all := Credentials(b)
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
