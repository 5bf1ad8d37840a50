// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"net/netip"
	"strings"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// checkSense asks what the message's own rules cannot say: whether the parts
// work together, for the command at hand, and are safe.
func (d *draft) checkSense(kind Kind) {
	c := d.config
	// Descriptors alone are enough to look at tools, not to call them.
	described := kind == Once && len(c.GetCatalog().GetDescriptors()) > 0 && c.GetCatalog().GetDescriptorsUse() != "comments"
	if kind != State && !d.unread && !c.GetDemo() && c.GetBackend().GetUrl() == "" && !described {
		d.judge("backend.url", "no backend: set its URL with --backend (such as --backend http://127.0.0.1:50051), "+
			"or try the example service with --demo")
	}
	d.checkDescriptors(c.GetCatalog())
	d.checkClasses(c.GetLimits())
	if kind&longLived != 0 {
		d.checkListeners(c)
		d.checkRates(c.GetLimits())
		d.checkRateService(c.GetRateService())
		d.checkAudit(kind, c.GetAudit())
	}
	if kind&(longLived|State) != 0 {
		d.checkState(kind, c)
	}
}

// checkDescriptors finds comments that nothing would get.
func (d *draft) checkDescriptors(c *configv1.Catalog) {
	switch {
	case c.GetDescriptorsUse() != "comments":
	case len(c.GetDescriptors()) == 0:
		d.judge("catalog.descriptors_use", "has no effect without descriptors: set --descriptors too")
	case c.GetReflection() == "off":
		d.judge("catalog.descriptors_use", "comments are added to the backend's reflection, which is off: remove catalog.reflection, or this setting")
	}
}

// checkState finds shared state that replicas could not read, and settings of it without it.
func (d *draft) checkState(kind Kind, c *configv1.Config) {
	s := c.GetState()
	if s.GetUrl() == "" {
		if kind == State && !d.unread {
			d.judge("state.url", "no shared state: set the NATS servers of the replicas with --state (such as --state nats://127.0.0.1:4222), or name their --config")
			return
		}
		for _, one := range [...]struct {
			path  string
			isSet bool
		}{
			{"state.credentials_file", s.GetCredentialsFile() != ""}, {"state.nkey_file", s.GetNkeyFile() != ""},
			{"state.username", s.GetUsername() != ""}, {"state.token_file", s.GetTokenFile() != ""}, {"state.tls", s.GetTls() != nil},
		} {
			if one.isSet {
				d.judge(one.path, "has no effect without shared state: set --state too")
			}
		}
		return
	}
	if s.GetKeyFile() == "" {
		d.judge("state.key_file", "shared state is sealed, and replicas with different keys could not read each other's: make a key with "+
			"`openssl rand -base64 32 > state.key` and give all replicas --state-key state.key")
	}
	if c.GetDeterministic() {
		d.judge("state.url", "replicas with fixed ids (--deterministic) would overwrite each other's tasks: remove one of the two")
	}
	if lease := s.GetLease().AsDuration(); lease%time.Second != 0 {
		d.judge("state.lease", "must be whole seconds, as NATS counts them")
	}
}

// checkAudit refuses a trail that would get into the protocol's way, or could not keep
// its promise.
func (d *draft) checkAudit(kind Kind, a *configv1.Audit) {
	if kind == Stdio && a.GetPath() == "stdout" {
		d.judge("audit.path", "standard output carries the protocol of `sidecar stdio`: name a file")
	}
	if a.GetRequired() && a.GetPath() == "off" {
		d.judge("audit.required", "has no effect without a trail: set --audit too")
	}
	if a.GetRequired() && a.GetFsync() == "never" {
		d.judge("audit.fsync", "never contradicts audit.required, which has each call on the disk before the backend is called: use interval or always")
	}
}

// checkRates says what a burst lacks that was given alone, by its flag perhaps.
func (d *draft) checkRates(l *configv1.Limits) {
	for _, one := range [...]struct {
		path, flag string
		rate       *configv1.Rate
	}{
		{"limits.caller_rate.burst", "--caller-rate", l.GetCallerRate()}, {"limits.tool_rate.burst", "--tool-rate", l.GetToolRate()},
	} {
		if one.rate != nil && one.rate.Burst != nil && one.rate.GetPerSecond() == 0 {
			d.judge(one.path, "has no effect without a rate: set "+one.flag+" too")
		}
	}
}

// checkRateService says what a setting of the rate limit service lacks without one.
func (d *draft) checkRateService(r *configv1.RateService) {
	if r.GetUrl() == "" {
		for _, path := range [...]string{
			"rate_service.domain", "rate_service.timeout", "rate_service.failure", "rate_service.max_in_flight", "rate_service.max_failures",
			"rate_service.open_for", "rate_service.tenant_claim",
		} {
			if d.given(path) {
				d.judge(path, "has no effect without a rate limit service: set --rate-service too")
			}
		}
	}
}

// checkListeners refuses what would let anyone in.
func (d *draft) checkListeners(c *configv1.Config) {
	l := c.GetListeners()
	knowsCallers := c.GetAccess().GetTokensFile() != "" || l.GetTls().GetClientCaFile() != "" || hasIssuers(c)
	if !l.GetInsecureNoAuth() {
		const accept = "allow that with --insecure-no-auth"
		if isBeyondLoopback(l.GetListen()) && !knowsCallers {
			d.judge("listeners.listen", "any client that can reach "+quote(l.GetListen())+" could call every tool without authentication; "+
				"listen on 127.0.0.1, enable authentication with --tokens, --tls-client-ca or --oauth-issuer, or "+accept)
		}
		if isBeyondLoopback(l.GetAdmin()) && l.GetAdminTokensFile() == "" {
			d.judge("listeners.admin", "any client that can reach "+quote(l.GetAdmin())+" could drain and profile the sidecar; listen on 127.0.0.1 or "+
				"a Unix socket, authenticate operators with --admin-tokens, or "+accept)
		}
	}
	if l.GetAdminTokensFile() != "" && l.GetAdminTls() == nil && isBeyondLoopback(l.GetAdmin()) {
		d.warn("listeners.admin_tokens_file", "tokens of operators cross the network in plaintext: set listeners.admin_tls, unless a mesh or proxy encrypts "+
			"traffic to "+quote(l.GetAdmin()))
	}
	d.checkOAuth(c)
	if c.GetAccess().GetTokensFile() != "" && l.GetTls() == nil && isBeyondLoopback(l.GetListen()) {
		d.warn("access.tokens_file", "tokens cross the network in plaintext: set --tls-cert and --tls-key, unless a mesh or proxy encrypts traffic to "+
			quote(l.GetListen()))
	}
	d.checkDistinct(l)
}

func hasIssuers(c *configv1.Config) bool {
	o := c.GetAccess().GetOauth()
	return len(o.GetIssuerUrls())+len(o.GetIssuers()) > 0
}

// checkOAuth finds an issuer without a resource, and the reverse: neither can verify a token.
func (d *draft) checkOAuth(c *configv1.Config) {
	l, resource := c.GetListeners(), c.GetAccess().GetOauth().GetResource()
	switch {
	case hasIssuers(c) && resource == "":
		d.judge("access.oauth.resource", "the audience of tokens is missing: set the URL that clients use with --oauth-resource, such as "+
			"--oauth-resource https://tools.example.com/mcp")
	case !hasIssuers(c) && resource != "":
		d.judge("access.oauth.resource", "has no effect without an issuer: set --oauth-issuer too")
	}
	if hasIssuers(c) && l.GetTls() == nil && isBeyondLoopback(l.GetListen()) {
		d.warn("access.oauth", "tokens cross the network in plaintext: set --tls-cert and --tls-key, unless a mesh or proxy encrypts traffic to "+
			quote(l.GetListen()))
	}
}

// checkDistinct finds listeners that would take each other's port.
func (d *draft) checkDistinct(l *configv1.Listeners) {
	taken := make(map[string]string)
	for _, one := range [...]struct{ path, address string }{
		{"listeners.listen", l.GetListen()}, {"listeners.admin", l.GetAdmin()}, {"listeners.health", l.GetHealth()},
	} {
		if one.address == "off" || strings.HasSuffix(one.address, ":0") {
			continue
		}
		if other, ok := taken[one.address]; ok {
			d.judge(one.path, "is also the address of "+other)
			continue
		}
		taken[one.address] = one.path
	}
}

// isBeyondLoopback reports whether other machines may reach an address. A name
// other than localhost may stand for anything, so it counts as beyond. A Unix
// socket is on this machine.
func isBeyondLoopback(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return false
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false // "off", or refused by its own rule
	}
	if strings.EqualFold(host, "localhost") {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}
