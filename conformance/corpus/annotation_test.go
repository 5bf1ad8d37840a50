// SPDX-License-Identifier: Apache-2.0

package corpus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// TestRulesOfValidateHaveTheNumbersOfProtovalidate: package annotation reads the rules of protoc-gen-validate as those of
// protovalidate. Each field of the former is the same in the latter, or is one that it translates.
func TestRulesOfValidateHaveTheNumbersOfProtovalidate(t *testing.T) {
	t.Parallel()
	translated := []string{
		"validate.FieldRules.message", "validate.AnyRules.required", "validate.DurationRules.required", "validate.TimestampRules.required",
		"validate.MapRules.no_sparse",
	}
	seen := 0
	var compare func(old, now protoreflect.MessageDescriptor)
	compare = func(old, now protoreflect.MessageDescriptor) {
		for i := range old.Fields().Len() {
			fd := old.Fields().Get(i)
			if slices.Contains(translated, string(fd.FullName())) || fd.Name() == "ignore_empty" {
				continue
			}
			seen++
			same := now.Fields().ByName(fd.Name())
			if same == nil || same.Number() != fd.Number() || same.Kind() != fd.Kind() || same.Cardinality() != fd.Cardinality() {
				t.Errorf("%s is %v in protovalidate", fd.FullName(), same)
				continue
			}
			if fd.Message() != nil && fd.Message().FullName() != old.FullName() && fd.Message().ParentFile() == old.ParentFile() && fd.Message().Name() != "FieldRules" {
				compare(fd.Message(), same.Message())
			}
		}
	}
	files := sources.Linked().Files
	compare(messageOf(t, files.FindDescriptorByName, "validate.FieldRules"), messageOf(t, files.FindDescriptorByName, "buf.validate.FieldRules"))
	if seen < 150 {
		t.Errorf("only %d fields were compared", seen)
	}
}

func messageOf(t *testing.T, find func(protoreflect.FullName) (protoreflect.Descriptor, error), name protoreflect.FullName) protoreflect.MessageDescriptor {
	t.Helper()
	d, err := find(name)
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// TestAnnotationsOfPublicAPIs reads the annotations of all fields and messages of two corpora: that of linked APIs, with the
// rules of Envoy and the resources of Google, and the examples of grpc-gateway with those of OpenAPI. All of them are
// readable, and the figures keep what is read from getting less.
func TestAnnotationsOfPublicAPIs(t *testing.T) {
	gateway := slices.IndexFunc(sources.Modules(), func(o sources.Origin) bool { return o.Name == "grpc-gateway examples" })
	examples, err := sources.Modules()[gateway].Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		set   *sources.Set
		least map[string]int
	}{
		"linked":       {sources.Linked(), map[string]int{"rules": 1600, "resources": 400, "references": 2000, "formats": 15, "signatures": 3000}},
		"grpc-gateway": {examples, map[string]int{"rules": 3, "examples": 4, "descriptions": 10, "titles": 8, "summaries": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			found := map[string]int{}
			count := func(what string, is bool) {
				if is {
					found[what]++
				}
			}
			annotated := map[protoreflect.FullName]protoreflect.MessageDescriptor{}
			eachMessage(tc.set, func(md protoreflect.MessageDescriptor) {
				said, problems := schema.AnnotationsOfMessage(md)
				complain(t, md, problems)
				count("resources", said.Resource != nil)
				count("examples", len(said.Examples) > 0)
				for i := range md.Fields().Len() {
					fd := md.Fields().Get(i)
					f, problems := schema.AnnotationsOfField(fd)
					complain(t, fd, problems)
					count("rules", f.Rules != nil)
					count("references", f.Resource != "" || f.ChildResource != "")
					count("formats", f.Format != "")
					count("examples", len(f.Examples) > 0)
					count("descriptions", f.Description != "")
					count("titles", f.Title != "")
					if f.Rules != nil || len(f.Examples) > 0 || f.Default != "" {
						annotated[md.FullName()] = md
					}
				}
			})
			tc.set.Files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
				for i := range fd.Services().Len() {
					methods := fd.Services().Get(i).Methods()
					for j := range methods.Len() {
						m, problems := schema.AnnotationsOfMethod(methods.Get(j))
						complain(t, methods.Get(j), problems)
						count("summaries", m.Summary != "")
						count("signatures", len(m.Signatures) > 0)
					}
				}
				return true
			})
			t.Logf("found %v", found)
			for what, least := range tc.least {
				if found[what] < least {
					t.Errorf("%d %s, want at least %d", found[what], what, least)
				}
			}
			shownFrom(t, annotated)
		})
	}
}

// shownFrom derives what callers see of messages with limits and examples, in both profiles: each schema compiles.
func shownFrom(t *testing.T, annotated map[protoreflect.FullName]protoreflect.MessageDescriptor) {
	t.Helper()
	var all []protoreflect.MessageDescriptor
	for _, md := range annotated {
		all = append(all, md)
	}
	slices.SortFunc(all, func(a, b protoreflect.MessageDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	omitted := 0
	for _, md := range sample(all) {
		for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
			s, err := schema.Derive(md, schema.Input, schema.Options{Profile: profile})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := schema.Compile(s.Advertised); err != nil {
				t.Errorf("%s, profile %s: %v", md.FullName(), profile, err)
			}
			omitted += strings.Count(fmt.Sprint(s.Warnings), "is omitted: the schema does not accept it")
		}
	}
	t.Logf("%d messages with limits or examples; %d examples omitted", len(all), omitted)
}

func complain(t *testing.T, d protoreflect.Descriptor, problems []string) {
	t.Helper()
	if len(problems) > 0 {
		t.Errorf("%s: %v", d.FullName(), problems)
	}
}

func eachMessage(set *sources.Set, visit func(protoreflect.MessageDescriptor)) {
	var below func(protoreflect.MessageDescriptors)
	below = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			visit(messages.Get(i))
			below(messages.Get(i).Messages())
		}
	}
	set.Files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		below(fd.Messages())
		return true
	})
}
