// SPDX-License-Identifier: Apache-2.0

package corpus_test

import (
	"context"
	"crypto/sha256"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/backend/recorded"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// TestInvented: --mock invents a message of every type that keeps its rules, and has JSON. What it cannot satisfy is counted.
func TestInvented(t *testing.T) {
	inventAll(t, sources.Linked(), 0)
}

// TestInventedOfModules is the same for the .proto files in modules.
func TestInventedOfModules(t *testing.T) {
	// Four messages of protobuf's tests must contain themselves, so that no message can be one.
	most := map[string]int{"protobuf test messages": 4}
	for _, o := range sources.Modules() {
		t.Run(o.Name, func(t *testing.T) {
			set, err := o.Load(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			inventAll(t, set, most[o.Name])
		})
	}
}

// inventAll fails where more messages than most cannot be invented.
func inventAll(t *testing.T, set *sources.Set, most int) {
	t.Helper()
	var unsatisfied, odd int
	all := sample(set.Messages())
	for _, md := range all {
		m, err := transcode.Compile(md, transcode.Options{Resolver: set.Types})
		if err != nil {
			odd++ // its rules cannot be compiled
			continue
		}
		seed := sha256.Sum256([]byte(md.FullName()))
		check := func(wire []byte) error { return m.CheckWire(t.Context(), wire) }
		wire, err := recorded.Invent(md, protoreflect.Message(nil), seed, check)
		if err != nil {
			unsatisfied++
			t.Logf("%s: %v", md.FullName(), err)
			continue
		}
		if _, err := m.ToJSON(nil, wire); err != nil {
			t.Errorf("%s: no JSON: %v", md.FullName(), err)
		}
	}
	t.Logf("%d messages: %d not satisfied, %d whose rules do not compile", len(all), unsatisfied, odd)
	if unsatisfied > most {
		t.Errorf("%d messages are not satisfied, of at most %d", unsatisfied, most)
	}
}
