// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// What is asked for extensions at most, for one source: enough for the proto2 APIs in use, and bounded by a server that
// invents numbers.
const (
	maxExtended   = 256
	maxExtensions = 1_000
)

// extensions asks for the extensions of all messages that can be extended, in files that no service has to import. What the
// server does not answer is left out, because reflection without these questions is common.
func (w *reflectionWalk) extensions() error {
	numbers := 0
	for i := 0; i < len(w.open); i++ { // what comes may have more of them
		message := w.open[i]
		if i == maxExtended || numbers > maxExtensions {
			w.warnings = append(w.warnings, Warning{w.source, fmt.Sprintf(
				"only the extensions of %d messages, or %d extensions, are asked for; --descriptors has all", maxExtended, maxExtensions)})
			return nil
		}
		known, err := w.stream.numbers(message)
		if errors.Is(err, ErrRefused) {
			continue
		}
		for _, number := range known[:min(len(known), maxExtensions)] {
			var got [][]byte
			if numbers++; numbers > maxExtensions {
				break
			}
			if got, err = w.stream.extension(message, number); err == nil {
				_, err = w.keep(got)
			}
			if err != nil && !errors.Is(err, ErrRefused) {
				break
			}
			err = nil
		}
		switch over := (*limitError)(nil); {
		case errors.As(err, &over):
			return w.fail("find extensions of "+message, err)
		case err != nil:
			w.warnings = append(w.warnings, Warning{w.source, fmt.Sprintf("extensions of %s are unknown: %v; --descriptors has them", shown.Clip(message), err)})
			return nil // the server does not know the question, and may have ended the stream
		}
		if err := w.complete(); err != nil {
			return err
		}
	}
	return nil
}

// openMessages are the full names of the messages of a file that can be extended, but for options: a service imports the
// files of those that it uses.
func openMessages(f *descriptorpb.FileDescriptorProto) []string {
	var out []string
	eachMessage(f, func(name string, m *descriptorpb.DescriptorProto) {
		if len(m.GetExtensionRange()) > 0 && !strings.HasPrefix(name, "google.protobuf.") {
			out = append(out, name)
		}
	})
	return out
}
