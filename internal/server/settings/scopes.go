// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// scopesByAccess is the scope rule that tells reading tools from others.
const scopesByAccess = "read_write"

// Scopes returns the authorizer that holds callers with OAuth tokens to their scopes; nil
// if no OAuth is configured.
func Scopes(cfg *configv1.Config) *policy.Authorizer {
	c := cfg.GetAccess().GetOauth()
	if !HasOAuth(cfg) {
		return nil
	}
	o := policy.AuthorizerOptions{ListWithout: c.GetListWithoutScope()}
	for _, r := range c.GetToolScopes() {
		o.Tools = append(o.Tools, policy.ToolRule{Tools: r.GetTools(), Scopes: r.GetScopes()})
	}
	for _, r := range c.GetOperationScopes() {
		o.Operations = append(o.Operations, policy.OperationRule{Operations: r.GetOperations(), Scopes: r.GetScopes()})
	}
	if c.GetScopeRule() == scopesByAccess {
		o.Rule = policy.ReadWrite
	}
	if resource, err := identity.ParseResource(c.GetResource()); err == nil { // which checkProtectedResource has seen
		o.Metadata = resource.Metadata
	}
	return policy.NewAuthorizer(o)
}

// HasOAuth reports whether the sidecar is an OAuth resource server.
func HasOAuth(cfg *configv1.Config) bool {
	c := cfg.GetAccess().GetOauth()
	return c.GetResource() != "" && len(issuerURLs(c)) > 0
}

// issuerURLs are the authorization servers, each once.
func issuerURLs(c *configv1.OAuth) []string {
	var all []string
	for _, issuer := range c.GetIssuers() {
		all = append(all, issuer.GetUrl())
	}
	for _, url := range c.GetIssuerUrls() {
		if !slices.ContainsFunc(all, func(have string) bool { return strings.TrimSuffix(have, "/") == strings.TrimSuffix(url, "/") }) {
			all = append(all, url)
		}
	}
	return all
}

// ProtectedResource returns the options of the handler of the protected resource metadata:
// the zero value if no OAuth is configured. supported returns the scopes of now.
func ProtectedResource(cfg *configv1.Config, supported func() []string) identity.MetadataOptions {
	c := cfg.GetAccess().GetOauth()
	resource, err := identity.ParseResource(c.GetResource())
	if err != nil || !HasOAuth(cfg) {
		return identity.MetadataOptions{}
	}
	fixed := identity.Metadata{
		Resource: resource.URL, BearerMethods: []string{"header"},
		Name: OrElse(c.GetResourceName(), OrElse(cfg.GetServer().GetTitle(), cfg.GetServer().GetName())),
	}
	fixed.AuthorizationServers = issuerURLs(c)
	if fixed.DPoPAlgorithms = c.GetAlgorithms(); len(fixed.DPoPAlgorithms) == 0 {
		fixed.DPoPAlgorithms = identity.Algorithms()
	}
	fixed.DPoPRequired = c.GetDpop().GetRequired()
	return identity.MetadataOptions{Path: resource.Path, Metadata: func() identity.Metadata {
		now := fixed
		now.ScopesSupported = supported()
		return now
	}}
}

// checkProtectedResource checks what the rules of the message cannot say about the resource
// and the authorization servers.
func checkProtectedResource(cfg *configv1.Config, report func(path, message string)) {
	c := cfg.GetAccess().GetOauth()
	isAsked := c.GetResource() != "" || len(issuerURLs(c)) > 0 || len(c.GetToolScopes()) > 0 || len(c.GetOperationScopes()) > 0 ||
		c.GetScopeRule() == scopesByAccess
	if !isAsked {
		return
	}
	const at = "access.oauth"
	if c.GetResource() != "" {
		if _, err := identity.ParseResource(c.GetResource()); err != nil {
			report(at+".resource", err.Error())
		}
	}
	taken := map[string]bool{}
	for i, issuer := range c.GetIssuers() {
		path := fmt.Sprintf("%s.issuers[%d].url", at, i)
		if err := identity.CheckIssuer(issuer.GetUrl()); err != nil {
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
