// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// AtRunTime lists the configuration fields that can change while the sidecar runs,
// each with everything below it. All other fields take effect at the next start:
// they determine what was built at startup (listeners, connections, buffers and
// tables of a fixed size), or callers have already been informed of them.
func AtRunTime() []string {
	return []string{
		"access.policy",
		"catalog.descriptors", "catalog.exclude", "catalog.fetch_ca_file", "catalog.fetch_credentials_file", "catalog.fetch_docker_helpers",
		"catalog.fetch_timeout", "catalog.include", "catalog.list_uncallable",
		"catalog.lock_file", "catalog.lock_mode",
		"gate",
		"limits.caller_rate", "limits.tool_rate",
		"log.calls", "log.level", "log.max_calls_per_second",
		"reload_interval",
		"tools",
		"trust", "trusted_callers",
	}
}

// MayChange reports whether a field can change while the sidecar runs.
func MayChange(path string) bool {
	return slices.ContainsFunc(AtRunTime(), func(p string) bool { return within(path, p) })
}

// within reports whether a path is a field or in it.
func within(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.')
}

// Diff returns the paths of the fields that differ between two configurations, such
// as "limits.caller_rate.per_second", in definition order. A list is compared as a
// whole.
func Diff(a, b *configv1.Config) []string {
	return diff(nil, "", a.ProtoReflect(), b.ProtoReflect())
}

func diff(found []string, prefix string, a, b protoreflect.Message) []string {
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		path := prefix + string(fd.Name())
		switch {
		case isGroup(fd):
			found = diff(found, path+".", a.Get(fd).Message(), b.Get(fd).Message())
		case a.Has(fd) != b.Has(fd) || !a.Get(fd).Equal(b.Get(fd)):
			found = append(found, path)
		}
	}
	return found
}

// isGroup reports whether a field has fields that are compared one by one.
func isGroup(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.MessageKind && fd.Cardinality() != protoreflect.Repeated &&
		fd.Message().FullName() != (*durationpb.Duration)(nil).ProtoReflect().Descriptor().FullName() &&
		fd.Message().ParentFile().Package() == configv1.File_outrigger_config_v1_config_proto.Package()
}

// Merge returns a copy of a, with the fields at the given paths taken from b.
func Merge(a, b *configv1.Config, paths []string) *configv1.Config {
	// Both are copied, so that nothing is shared with what comes out.
	out, b := proto.CloneOf(a), proto.CloneOf(b)
	for _, path := range paths {
		to, from := out.ProtoReflect(), b.ProtoReflect()
		for {
			name, rest, deeper := strings.Cut(path, ".")
			fd := to.Descriptor().Fields().ByName(protoreflect.Name(name))
			if deeper {
				to, from, path = to.Mutable(fd).Message(), from.Get(fd).Message(), rest
				continue
			}
			to.Clear(fd)
			if from.Has(fd) {
				to.Set(fd, from.Get(fd))
			}
			break
		}
	}
	return out
}
