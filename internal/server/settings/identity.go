// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/identity/behalf"
)

// Modes of `backend.identity.mode` beyond that of the header.
const (
	IdentityHeader   = "header"
	IdentityExchange = "exchange"
	IdentitySigned   = "signed"
)

// IdentityMode returns in whose name the backend is called.
func IdentityMode(cfg *configv1.Config) string {
	return OrElse(cfg.GetBackend().GetIdentity().GetMode(), IdentityHeader)
}

// NewExchanger returns what exchanges tokens of callers.
func NewExchanger(cfg *configv1.Config, log *zap.Logger) (*behalf.Exchanger, error) {
	i := cfg.GetBackend().GetIdentity()
	x := i.GetExchange()
	return behalf.NewExchanger(behalf.ExchangeOptions{
		URL: x.GetTokenUrl(), ClientID: x.GetClientId(), ClientSecretFile: x.GetClientSecretFile(), SecretInBody: x.GetClientAuth() == "post",
		Audiences: x.GetAudience(), Resources: x.GetResource(), Scopes: x.GetScope(), Issuers: x.GetIssuers(),
		SubjectTokenType: x.GetSubjectTokenType(), RequestedTokenType: x.GetRequestedTokenType(), CAFile: x.GetCaFile(),
		OnMissing: onMissing(i), Timeout: x.GetTimeout().AsDuration(), MaxTokens: int(x.GetMaxTokens()),
		MaxResponseBytes: x.GetMaxResponseBytes(), Log: log, Challenge: rejectedChallenge(cfg),
	})
}

// rejectedChallenge is the challenge for callers whose token the authorization server no
// longer accepts; empty without OAuth.
func rejectedChallenge(cfg *configv1.Config) string {
	if !identity.HasOAuth(cfg.GetAccess().GetOauth()) {
		return ""
	}
	return `Bearer error="invalid_token", resource_metadata="` + identity.MetadataURL(cfg.GetAccess().GetOauth().GetResource()) + `"`
}

// NewSigner returns what signs tokens about callers.
func NewSigner(i *configv1.BackendIdentity) (*behalf.Signer, error) {
	s := i.GetSigned()
	return behalf.NewSigner(behalf.SignOptions{
		KeyFile: s.GetKeyFile(), Issuer: s.GetIssuer(), Audience: s.GetAudience(), TTL: s.GetTtl().AsDuration(),
		MaxTokens: int(s.GetMaxTokens()), SubjectOfIssuer: s.GetSubject() == "subject", OnMissing: onMissing(i),
	})
}

func onMissing(i *configv1.BackendIdentity) behalf.OnMissing {
	if i.GetOnMissing() == "none" {
		return behalf.SendNone
	}
	return behalf.Refuse
}

// checkIdentity makes what speaks for callers before a port opens, so that its errors are
// reported together with all others.
func checkIdentity(cfg *configv1.Config, report func(path, message string)) {
	i := cfg.GetBackend().GetIdentity()
	var err error
	switch IdentityMode(cfg) {
	case IdentityExchange:
		err = checkExchange(cfg, report)
	case IdentitySigned:
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

func checkExchange(cfg *configv1.Config, report func(path, message string)) error {
	i := cfg.GetBackend().GetIdentity()
	if i.GetExchange().GetTokenUrl() == "" {
		return errors.New("it is reported by its own rule")
	}
	if err := behalf.CheckURL(i.GetExchange().GetTokenUrl()); err != nil {
		report("backend.identity.exchange.token_url", err.Error())
		return err
	}
	x, err := NewExchanger(cfg, nil)
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
	_, err := NewSigner(i)
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
