// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/descriptorpb"
)

// Differences names what descriptors say otherwise than a server's reflection, one line each, in the order of ours: methods,
// fields and enum values that only ours have, and those of another type, number or direction. What ours lack is no
// difference: callers cannot use it. Services that the server does not describe are not compared.
func Differences(ours, theirs []*descriptorpb.FileDescriptorProto) []string {
	shapes := map[string]string{}
	for _, f := range theirs {
		symbolsOf(f, func(s symbol) { shapes[s.name] = s.shape })
	}
	var out []string
	for _, f := range ours {
		symbolsOf(f, func(s symbol) {
			shape, isKnown := shapes[s.name]
			_, hasParent := shapes[s.parent]
			switch {
			case shape == s.shape || s.parent == "" || !hasParent || s.shape == "oneof" || strings.HasPrefix(s.name, "google.protobuf."):
			case !isKnown:
				out = append(out, fmt.Sprintf("%s (%s) is in the descriptors and not at the backend", s.name, s.shape))
			default:
				out = append(out, fmt.Sprintf("%s is %s in the descriptors and %s at the backend", s.name, s.shape, shape))
			}
		})
	}
	return out
}
