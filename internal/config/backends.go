// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// Backends returns a configuration for each of several backends, as if it were the only one: `backend` is that one, and
// `catalog` has its sources. What the backends have in common is shared, not copied. Without `backends` it is cfg alone.
func Backends(cfg *configv1.Config) []*configv1.Config {
	if len(cfg.GetBackends()) == 0 {
		return []*configv1.Config{cfg}
	}
	out := make([]*configv1.Config, 0, len(cfg.GetBackends()))
	for _, b := range cfg.GetBackends() {
		one, sources := shallow(cfg), shallow(cfg.GetCatalog())
		sources.Descriptors, sources.Reflection, sources.Native = b.GetDescriptors(), orDefault(b.GetReflection()), orDefault(b.GetNative())
		one.Backends, one.Backend, one.Catalog = nil, b, sources
		if own := b.GetLimits().GetTimeout(); own != nil {
			one.Timeout = own
		}
		out = append(out, one)
	}
	return out
}

// orDefault is a setting of one of several backends, "auto" where it has none.
func orDefault(text string) *string {
	if text == "" {
		text = "auto"
	}
	return &text
}

// shallow is a copy of a message that shares its fields with it.
func shallow[M proto.Message](m M) M {
	out := m.ProtoReflect().New()
	m.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.Set(fd, v)
		return true
	})
	own, _ := out.Interface().(M)
	return own
}

// EachBackend runs a check for each backend, and reports what it finds by the paths of that backend. What it finds in settings that
// all share is reported once.
func EachBackend(check Check) Check {
	return func(cfg *configv1.Config, report func(path, message string)) {
		if len(cfg.GetBackends()) == 0 {
			check(cfg, report)
			return
		}
		shared := map[[2]string]bool{}
		for i, one := range Backends(cfg) {
			check(one, func(path, message string) {
				if own, ok := backendPath(path); ok {
					report(fmt.Sprintf("backends[%d].%s", i, own), message)
				} else if !shared[[2]string{path, message}] {
					shared[[2]string{path, message}] = true
					report(path, message)
				}
			})
		}
	}
}

// backendPath is the path below an entry of `backends` of a path of the only backend.
func backendPath(path string) (own string, ok bool) {
	if own, ok := strings.CutPrefix(path, "backend."); ok {
		return own, true
	}
	for _, name := range [...]string{"descriptors", "reflection", "native"} {
		if isWithin(path, "catalog."+name) {
			return strings.TrimPrefix(path, "catalog."), true
		}
	}
	return "", false
}

// backendEntry matches the beginning of the path of one of several backends.
var backendEntry = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^backends\[\d+\]`) })

// ofOnly is the path that a setting of one of several backends has where there is one.
func ofOnly(path string) string { return backendEntry().ReplaceAllString(path, "backend") }

// checkBackends finds several backends beside one, and settings that are for one or for several only.
func (d *draft) checkBackends(c *configv1.Config) {
	if len(c.GetBackends()) == 0 {
		b := c.GetBackend()
		for _, one := range [...]struct {
			path, instead string
			isSet         bool
		}{
			{"name", "remove it, or list the backend in backends", b.GetName() != ""},
			{"descriptors", "set catalog.descriptors", len(b.GetDescriptors()) > 0},
			{"reflection", "set catalog.reflection", b.GetReflection() != ""},
			{"native", "set catalog.native", b.GetNative() != ""},
			{"policy", "set access.policy", b.GetPolicy() != nil},
			{"limits", "set limits and timeout", b.GetLimits() != nil},
		} {
			if one.isSet {
				d.judge("backend."+one.path, "is for one of several backends: "+one.instead)
			}
		}
		if d.given("ready_backends") {
			d.judge("ready_backends", "has no effect without backends")
		}
		return
	}
	switch {
	case c.GetDemo():
		d.judge("demo", "brings its own backend: remove it, or backends")
	case c.GetBackend().GetUrl() != "":
		d.judge("backend.url", "set backend (--backend) or backends, not both")
	}
	for _, name := range [...]string{"descriptors", "reflection", "native"} {
		if d.given("catalog." + name) {
			d.judge("catalog."+name, "each of backends has its own: set it there")
		}
	}
	names := make([]string, 0, len(c.GetBackends()))
	for i, b := range c.GetBackends() {
		names = append(names, b.GetName())
		if b.GetName() == "" {
			d.judge(fmt.Sprintf("backends[%d].name", i), "must be set: probes, metrics and logs name the backend by it")
		}
		if b.GetPolicy() != nil && b.GetPolicy().MaxCost != nil {
			d.judge(fmt.Sprintf("backends[%d].policy.max_cost", i), "is one for all rules: set access.policy.max_cost")
		}
		if b.GetUrl() == "" {
			d.judge(fmt.Sprintf("backends[%d].url", i), "must be set, such as http://127.0.0.1:50051")
		}
	}
	d.checkSigningKeys(c)
	for i, name := range c.GetReadyBackends() {
		switch {
		case name == "any" || name == "all":
			if len(c.GetReadyBackends()) > 1 {
				d.judge(fmt.Sprintf("ready_backends[%d]", i), name+" is complete by itself: remove the others, or it")
			}
		case !slices.Contains(names, name):
			d.judge(fmt.Sprintf("ready_backends[%d]", i), fmt.Sprintf("no backend is named %s; use any, all, or names of backends", quote(name)))
		}
	}
}

// checkSigningKeys finds backends whose signed tokens have different keys: the sidecar publishes one set of them.
func (d *draft) checkSigningKeys(c *configv1.Config) {
	first := ""
	for i, b := range c.GetBackends() {
		file := b.GetIdentity().GetSigned().GetKeyFile()
		switch {
		case b.GetIdentity().GetMode() != "signed" || file == "":
		case first == "":
			first = file
		case file != first:
			d.judge(fmt.Sprintf("backends[%d].identity.signed.key_file", i), "one set of keys is published for all backends: use "+quote(first))
		}
	}
}
