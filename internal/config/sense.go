// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"net/netip"
	"strings"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// checkSense asks what the message's own rules cannot say: whether the parts
// work together, for the command at hand, and are safe.
func (d *draft) checkSense(kind Kind) {
	c := d.config
	// Descriptors alone are enough to look at tools, not to call them.
	described := kind == Once && len(c.GetCatalog().GetDescriptors()) > 0
	if !d.unread && !c.GetDemo() && c.GetBackend().GetUrl() == "" && !described {
		d.judge("backend.url", "no tool service: give its URL with --backend (such as --backend http://127.0.0.1:50051), "+
			"or try the example service with --demo")
	}
	if kind&longLived != 0 {
		d.checkListeners(c.GetListeners())
	}
	d.warnOfLater()
}

func (d *draft) checkListeners(l *configv1.Listeners) {
	if l.GetTls() != nil {
		// Serving without it would be worse than not serving.
		d.judge("listeners.tls", "TLS on the listener is not there yet; leave it out, and let a proxy on this machine do it")
	}
	if !l.GetInsecureNoAuth() {
		const advice = "; listen on 127.0.0.1, or accept that with --insecure-no-auth"
		if isBeyondLoopback(l.GetListen()) {
			d.judge("listeners.listen", "anyone who reaches "+quote(l.GetListen())+" could call every tool, because callers need no credentials"+advice)
		}
		if isBeyondLoopback(l.GetAdmin()) {
			d.judge("listeners.admin", "anyone who reaches "+quote(l.GetAdmin())+" could drain and profile the sidecar"+advice)
		}
	}
	d.checkDistinct(l)
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
			d.judge(one.path, "is the address of "+other+" too")
			continue
		}
		taken[one.address] = one.path
	}
}

// isBeyondLoopback reports whether other machines may reach an address. A name
// other than localhost may stand for anything, so it counts as beyond.
func isBeyondLoopback(address string) bool {
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

// warnOfLater names settings that are accepted already and have no effect yet.
func (d *draft) warnOfLater() {
	for _, path := range [...]string{
		"repair_arguments", "schema_profile",
	} {
		if d.given(path) {
			d.warn(path, "is accepted, but takes effect only in a later version")
		}
	}
	if d.config.GetValidate() == "full" {
		d.warn("validate", "full is accepted, but takes effect only in a later version; messages are checked once")
	}
}
