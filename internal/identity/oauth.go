// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// OAuthOptions returns the options of the resource server, and false where no issuer is configured.
// The callers file, the certificates and the log are for the caller to add.
func OAuthOptions(c *configv1.OAuth) (VerifierOptions, bool, error) {
	if len(c.GetIssuerUrls())+len(c.GetIssuers()) == 0 {
		return VerifierOptions{}, false, nil
	}
	d := c.GetDpop()
	o := VerifierOptions{
		Resource: c.GetResource(), Leeway: leeway(c), Algorithms: c.GetAlgorithms(), StrictType: c.GetStrictType(),
		DPoP: DPoP{
			Required: d.GetRequired(), Nonces: d.GetNonces(), MaxAge: d.GetMaxAge().AsDuration(), MaxProofs: int(d.GetMaxProofs()),
		},
		Grant: Grant{
			Tools: orEverything(c.GetTools()), Resources: orEverything(c.GetResources()), Prompts: orEverything(c.GetPrompts()),
			Trust: TrustOf(c.GetTrust()),
		},
		MaxTokens: int(c.GetMaxCachedTokens()), MaxTokenBytes: int(c.GetMaxTokenBytes()),
		RefreshInterval: c.GetKeyRefreshInterval().AsDuration(), FetchInterval: c.GetKeyFetchInterval().AsDuration(),
		FetchTimeout: c.GetFetchTimeout().AsDuration(), MaxFetchBytes: int(c.GetMaxFetchBytes()),
	}
	var err error
	o.Issuers, err = issuers(c)
	return o, true, err
}

// leeway is negative where the configuration says that there is none.
func leeway(c *configv1.OAuth) time.Duration {
	if c.Leeway != nil && c.GetLeeway().AsDuration() == 0 {
		return -1
	}
	return c.GetLeeway().AsDuration()
}

func orEverything(globs []string) []string {
	if len(globs) == 0 {
		return []string{glob.Anything}
	}
	return globs
}

// issuers joins the issuers that have only a URL with those that have more. Settings of the
// latter win.
func issuers(c *configv1.OAuth) ([]Issuer, error) {
	var out []Issuer
	have := map[string]bool{}
	for i, one := range c.GetIssuers() {
		o, err := readIssuer(one)
		if err != nil {
			return nil, fmt.Errorf("issuers[%d]: %w", i, err)
		}
		out, have[strings.TrimSuffix(one.GetUrl(), "/")] = append(out, o), true
	}
	for _, url := range c.GetIssuerUrls() {
		if !have[strings.TrimSuffix(url, "/")] {
			out = append(out, Issuer{URL: url})
		}
	}
	return out, nil
}

func readIssuer(c *configv1.OAuthIssuer) (Issuer, error) {
	o := Issuer{
		URL: c.GetUrl(), JWKS: c.GetJwksUrl(), Audiences: c.GetAudiences(), GroupsClaim: c.GetGroupsClaim(), RolesClaim: c.GetRolesClaim(),
	}
	if path := c.GetCaFile(); path != "" {
		pem, err := keys.ReadFile(path, maxCABytes)
		if err != nil {
			return o, err
		}
		if o.CAs = x509.NewCertPool(); !o.CAs.AppendCertsFromPEM(pem) {
			return o, fmt.Errorf("%s has no certificate", path)
		}
	}
	if in := c.GetIntrospection(); in != nil {
		o.Introspection = &Introspection{
			URL: in.GetUrl(), ClientID: in.GetClientId(), TTL: in.GetTtl().AsDuration(), MaxConcurrent: int(in.GetMaxConcurrent()),
			Secret: func() (string, error) { return secret(in.GetClientSecretFile()) },
		}
		if _, err := o.Introspection.Secret(); err != nil {
			return o, err
		}
	}
	return o, nil
}

const (
	// maxSecretBytes bounds the file of a client secret.
	maxSecretBytes = 4096
	// maxCABytes bounds a file of authorities: a bundle of all public ones has about 250 KB.
	maxCABytes = 1 << 20
)

// secret reads the secret of a client: the text of a file without the line's end.
func secret(path string) (string, error) {
	text, err := keys.ReadFile(path, maxSecretBytes)
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" {
		return "", errors.New(path + ": must have a client secret")
	}
	return value, nil
}

// CheckOAuth makes the resource server once, to report what is wrong with its settings.
func CheckOAuth(c *configv1.OAuth, report func(path, message string)) {
	o, on, err := OAuthOptions(c)
	if err == nil && on && o.Resource != "" {
		err = checkVerifier(o)
	}
	if err != nil {
		report("access.oauth", err.Error())
	}
}

// CheckResource checks what the rules of the message cannot say about the resource
// and the authorization servers.
func CheckResource(cfg *configv1.Config, report func(path, message string)) {
	c := cfg.GetAccess().GetOauth()
	isAsked := c.GetResource() != "" || len(issuerURLs(c)) > 0 || len(c.GetToolScopes()) > 0 || len(c.GetOperationScopes()) > 0 ||
		c.GetScopeRule() == "read_write"
	if !isAsked {
		return
	}
	const at = "access.oauth"
	if c.GetResource() != "" {
		if _, err := ParseResource(c.GetResource()); err != nil {
			report(at+".resource", err.Error())
		}
	}
	taken := map[string]bool{}
	for i, issuer := range c.GetIssuers() {
		path := fmt.Sprintf("%s.issuers[%d].url", at, i)
		if err := checkIssuer(issuer.GetUrl()); err != nil {
			report(path, err.Error())
		} else if taken[issuer.GetUrl()] {
			report(path, "is there twice")
		}
		taken[issuer.GetUrl()] = true
	}
	switch {
	case c.GetResource() == "":
		report(at+".resource", "must be set: tokens are issued for this URL, and clients are sent to it")
	case len(issuerURLs(c)) == 0:
		report(at+".issuers", "must name at least one authorization server; set --oauth-issuer")
	}
}
