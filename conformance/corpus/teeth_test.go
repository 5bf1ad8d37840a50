// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"os"
	"path/filepath"
	"testing"

	_ "google.golang.org/genproto/googleapis/api/annotations" // imported by the file below
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
)

// alike are messages that differ in one thing each.
const alike = `syntax = "proto3";
package alike;
import "google/api/field_behavior.proto";
message Base { int32 n = 1; repeated string s = 2; }
message Wide { int64 n = 1; repeated string s = 2; }
message Other { bool n = 1; repeated string s = 2; }
message Renamed { int32 m = 1; repeated string s = 2; }
message Renumbered { int32 n = 3; repeated string s = 2; }
message More { int32 n = 1; repeated string s = 2; int32 value = 3; }
message Unsigned { uint64 n = 1; map<fixed32, string> m = 2; }
message Must { int32 n = 1 [(google.api.field_behavior) = REQUIRED]; repeated string s = 2; }
`

// TestClaimsCanFail puts a part of another message into a subject, as if that part were wrong, and wants the claim that
// such a fault breaks.
func TestClaimsCanFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "alike.proto"), []byte(alike), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := sources.Parse(t.Context(), []sources.Root{{Folder: dir}}, nil, "alike.proto")
	if err != nil {
		t.Fatal(err)
	}
	transcoder := newTranscoders(set.Types)
	subjectOf := func(t *testing.T, name protoreflect.FullName) *subject {
		t.Helper()
		md, err := set.Message("alike." + name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSubject(transcoder, set.Types, md)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	message := func(s, other *subject) { s.message, s.quoted = other.message, other.quoted }
	quoted := func(s, other *subject) { s.quoted = other.quoted }
	strict := func(s, other *subject) { s.input[1].advertised = other.input[1].advertised }
	canonical := func(s, other *subject) { s.input[0].canonical = other.input[0].canonical }
	advertised := func(s, other *subject) { s.input[0].advertised = other.input[0].advertised }
	answers := func(s, other *subject) { s.output[0].canonical = other.output[0].canonical }
	shown := func(s, other *subject) { s.output[0].advertised = other.output[0].advertised }
	for _, c := range []struct {
		of, other protoreflect.FullName
		swap      func(s, other *subject)
		claim     string // none: everything holds
	}{
		{"Base", "Base", message, ""},
		{"Must", "Must", message, ""},
		{"Unsigned", "Unsigned", message, ""},
		{"Base", "Renumbered", message, "ToWire's bytes decode to the message"},
		{"Base", "Renumbered", message, "ToJSON writes what protojson writes"},
		{"Base", "Renamed", message, "ToWire takes what protojson writes"},
		{"Base", "Other", message, "ToJSON writes what protojson writes"},
		{"Base", "Wide", message, "what ToWire takes, protojson takes"},
		{"Wide", "Base", message, "ToWire takes what protojson writes"},
		{"Base", "More", message, "what ToWire takes, protojson takes"},
		{"More", "Base", message, "ToWire takes what protojson writes"},
		{"Base", "Must", message, "what protojson takes, ToWire takes"},
		{"Must", "Base", message, "ToWire refuses what only it can see"},
		{"Base", "Wide", canonical, "what the canonical schema admits, ToWire takes"},
		{"Base", "Must", canonical, "what ToWire takes, the canonical schema admits"},
		{"Base", "Other", canonical, "the canonical schema admits what protojson writes"},
		{"Base", "More", advertised, "what the advertised schema admits, the canonical one admits"},
		{"Base", "Other", strict, "what the strict schema admits, the canonical one admits"},
		{"Base", "Renumbered", quoted, "the form of the strict profile decodes to the message"},
		{"Base", "Renamed", quoted, "ToWire takes the form of the strict profile"},
		{"Base", "Other", answers, "the canonical output schema admits answers"},
		{"Base", "Renamed", shown, "the advertised output schema admits answers"},
	} {
		t.Run(string(c.of+" with "+c.other+" "+protoreflect.FullName(c.claim)), func(t *testing.T) {
			t.Parallel()
			s := subjectOf(t, c.of)
			c.swap(s, subjectOf(t, c.other))
			// One failure is enough of a message, so some claims need another beginning.
			found := map[string]bool{}
			for seed := range uint64(40) {
				check := newCheck(s, Effort{Messages: 2, Mutations: 20, Seed: seed})
				check.run()
				for _, f := range check.failures {
					found[f.Claim] = true
				}
			}
			if c.claim == "" && len(found) > 0 || c.claim != "" && !found[c.claim] {
				t.Errorf("found %v, want %q", found, c.claim)
			}
		})
	}
}
