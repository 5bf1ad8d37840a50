// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// issuer is one authorization server.
type issuer struct {
	opts  Issuer
	fetch *fetcher
	keys  *keys
	meta  atomic.Pointer[metadata] // nil until it was found
	asked *introspector            // nil without introspection
	log   *zap.Logger
}

// metadata is what discovery finds.
type metadata struct {
	Issuer     string `json:"issuer"`
	JWKS       string `json:"jwks_uri"`
	Introspect string `json:"introspection_endpoint"`
}

func newIssuer(life context.Context, o Issuer, all *Options, counts *counts) (*issuer, error) {
	for _, text := range []string{o.URL, orElse(o.JWKS, o.URL)} {
		if _, err := checkURL(text); err != nil {
			return nil, fmt.Errorf("issuer %q: %w", text, err)
		}
	}
	i := &issuer{
		opts: o, fetch: newFetcher(o.CAs, all.FetchTimeout, all.MaxFetchBytes),
		log: all.Log.With(zap.String("issuer", o.URL)),
	}
	if o.JWKS != "" {
		i.meta.Store(&metadata{Issuer: o.URL, JWKS: o.JWKS})
	}
	i.keys = &keys{life: life, fetch: i.fetchKeys, interval: all.FetchInterval, counts: counts}
	if o.Introspection != nil {
		if _, err := checkURL(orElse(o.Introspection.URL, o.URL)); err != nil {
			return nil, fmt.Errorf("introspection of issuer %q: %w", o.URL, err)
		}
		i.asked = newIntrospector(i, *o.Introspection, counts)
	}
	return i, nil
}

// route is the key by which tokens find their issuer: a trailing slash makes no difference
// there. What the token says is compared exactly once the metadata is known.
func route(issuer string) string { return strings.TrimSuffix(issuer, "/") }

// name is the issuer exactly as its metadata states it, empty until that was found.
func (i *issuer) name() string {
	if m := i.meta.Load(); m != nil {
		return m.Issuer
	}
	return ""
}

// fetchKeys finds the metadata, and with it the keys. Known metadata stays in use where it
// cannot be found again.
func (i *issuer) fetchKeys(ctx context.Context, before *keySet) (*keySet, error) {
	if err := i.discover(ctx); err != nil && i.meta.Load() == nil {
		return nil, err
	}
	body, err := i.fetch.get(ctx, i.meta.Load().JWKS)
	if err != nil {
		return nil, err
	}
	return parseKeys(body, before, time.Now())
}

// discover finds the metadata by RFC 8414, then by OpenID Connect Discovery. It does nothing
// where the keys have a configured URL and nothing else is needed.
func (i *issuer) discover(ctx context.Context) error {
	if i.opts.JWKS != "" && (i.opts.Introspection == nil || i.opts.Introspection.URL != "") {
		return nil
	}
	var all error
	for _, place := range wellKnown(i.opts.URL) {
		body, err := i.fetch.get(ctx, place)
		if err == nil {
			err = i.adopt(body)
		}
		if err == nil {
			return nil
		}
		all = errors.Join(all, err)
	}
	return all
}

// adopt takes metadata into use.
func (i *issuer) adopt(body []byte) error {
	var m metadata
	if err := json.Unmarshal(body, &m); err != nil {
		return errors.New("the issuer's metadata is no JSON object")
	}
	if route(m.Issuer) != route(i.opts.URL) {
		return fmt.Errorf("the metadata is of another issuer: %q", clip(m.Issuer))
	}
	for _, text := range []string{m.JWKS, m.Introspect} {
		if u, err := checkURL(text); text != "" && (err != nil || u.Scheme == "http" && !strings.HasPrefix(i.opts.URL, "http:")) {
			return fmt.Errorf("the metadata has a URL that is not usable: %q", clip(text))
		}
	}
	if i.opts.JWKS != "" {
		m.JWKS, m.Issuer = i.opts.JWKS, i.opts.URL
	}
	if m.JWKS == "" {
		return errors.New("the metadata has no jwks_uri")
	}
	i.meta.Store(&m)
	return nil
}

// wellKnown returns the places of an issuer's metadata, in the order of MCP.
func wellKnown(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, origin+path+"/.well-known/openid-configuration")
	}
	return places
}

// run keeps the keys fresh until ctx ends.
func (i *issuer) run(ctx context.Context, every, retry time.Duration) {
	defer i.fetch.close()
	failing := false
	for {
		wait := every
		if err := i.keys.refresh(); err != nil {
			wait = min(every, retry)
			i.log.Warn("fetching the issuer's keys failed; keeping the last good ones and retrying", logkey.Error(err))
			failing = true
		} else if failing {
			i.log.Info("the issuer's keys were fetched again")
			failing = false
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// clip bounds what an issuer sent, for an error.
func clip(s string) string { return s[:min(len(s), 200)] }

// isLoopback holds for hosts that cannot be another machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() && net.ParseIP(host) != nil
}
