// SPDX-License-Identifier: Apache-2.0

package rateservice

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

// Keys of descriptor entries, as the configuration of a service names them.
const (
	keyTenant = "tenant"
	keyCaller = "caller"
	keyTool   = "tool"
	keyProbe  = "probe"
)

// descriptor is a set of requests that a limit may exist for.
type descriptor struct {
	entries []entry
	// of names what is limited, for a caller over the limit.
	of string
}

type entry struct{ key, value string }

// descriptors are those of one request: its caller, its tool, and both. A part of a request
// that was counted for its caller before has the last two.
func (s *Service) descriptors(who *access.Identity, caller, tool string, isPart bool) []descriptor {
	var front []entry
	if tenant := tenantOf(who, s.opts.TenantClaim); tenant != "" {
		front = []entry{{keyTenant, tenant}}
	}
	with := func(of string, entries ...entry) descriptor {
		return descriptor{entries: append(slices.Clip(front), entries...), of: of}
	}
	byCaller := entry{keyCaller, hashOf(caller)}
	out := make([]descriptor, 0, 3)
	if !isPart || tool == "" {
		out = append(out, with("this caller", byCaller))
	}
	if tool != "" {
		byTool := entry{keyTool, tool}
		out = append(out, with(tool, byTool), with(tool+" for this caller", byCaller, byTool))
	}
	return out
}

// hashOf is what stands for a caller: half of the hexadecimal SHA-256 of its key, the same on
// every replica. The service, its store and its logs never have the name.
func hashOf(caller string) string {
	const half = sha256.Size / 2
	sum := sha256.Sum256([]byte(caller))
	return hex.EncodeToString(sum[:half])
}

// maxTenant is the longest tenant that is sent as it is: the domain names and ids that
// tenants have are shorter. A hash stands for a longer one.
const maxTenant = 256

// tenantOf is the tenant of a caller, or empty.
func tenantOf(who *access.Identity, claim string) string {
	tenant, _ := who.Facts().Claims[claim].(string)
	if len(tenant) > maxTenant {
		return hashOf(tenant)
	}
	return tenant
}

// request is the question about descriptors.
func (s *Service) request(all []descriptor) *ratelimitv3.RateLimitRequest {
	r := &ratelimitv3.RateLimitRequest{
		Domain: s.opts.Domain, HitsAddend: 1, Descriptors: make([]*commonv3.RateLimitDescriptor, len(all)),
	}
	for i, d := range all {
		entries := make([]*commonv3.RateLimitDescriptor_Entry, len(d.entries))
		for j, e := range d.entries {
			entries[j] = &commonv3.RateLimitDescriptor_Entry{Key: e.key, Value: e.value}
		}
		r.Descriptors[i] = &commonv3.RateLimitDescriptor{Entries: entries}
	}
	return r
}
