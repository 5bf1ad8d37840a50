// SPDX-License-Identifier: Apache-2.0

// Package configtest completes configurations for tests.
package configtest

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

// Filled returns the part of a configuration that m is, with the defaults of what m leaves out.
func Filled[M proto.Message](tb testing.TB, m M) M {
	tb.Helper()
	filled, isPart := m, false
	_ = protorange.Range(config.Defaults(config.Serve).ProtoReflect(), func(at protopath.Values) error {
		part, isMessage := at.Index(-1).Value.Interface().(protoreflect.Message)
		if !isMessage {
			return nil
		}
		if found, is := part.Interface().(M); is {
			filled, isPart = proto.CloneOf(found), true
			overlay(filled.ProtoReflect(), proto.CloneOf(m).ProtoReflect())
			return protorange.Terminate
		}
		return nil
	})
	if !isPart {
		tb.Fatalf("%s is no part of a configuration", m.ProtoReflect().Descriptor().FullName())
	}
	return filled
}

// overlay sets the fields that from has. Unlike proto.Merge, it takes durations as values.
func overlay(to, from protoreflect.Message) {
	from.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if part := fd.Message(); part != nil && !fd.IsList() && !fd.IsMap() && part.ParentFile().Package() == from.Descriptor().ParentFile().Package() {
			overlay(to.Mutable(fd).Message(), v.Message())
		} else {
			to.Set(fd, v)
		}
		return true
	})
}
