// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

func everything(string) bool { return true }

// What protojson writes in any of its styles the plan reads, without help, and to an equal message.
func TestPlanReadsRandomMessages(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, everything) {
		t.Run(string(s.md.FullName()), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := randomMessage(t, s, s.md, depthOfRandom)
				style := protojson.MarshalOptions{
					Resolver: s.resolver, EmitDefaultValues: rapid.Bool().Draw(t, "defaults"), Multiline: rapid.Bool().Draw(t, "lines"),
					UseProtoNames: rapid.Bool().Draw(t, "proto names"), UseEnumNumbers: rapid.Bool().Draw(t, "enum numbers"),
				}
				doc, err := style.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				agreeOnDocument(t, s, doc)
				if _, ok := s.message.ReadByPlan(nil, doc); !ok && !hasBehavior(s) {
					t.Fatalf("the plan refuses %s", doc)
				}
			})
		})
	}
}

// hasBehavior holds for the messages of which input does not have every field.
func hasBehavior(s subject) bool {
	switch s.md.Name() {
	case "Account", "Secrets":
		return true
	default:
		return false
	}
}

// The plan takes a document if and only if the general engine does, rules aside, and the bytes hold the same message.
func TestPlanJudgesMutatedDocuments(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, everything) {
		t.Run(string(s.md.FullName()), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := randomMessage(t, s, s.md, depthOfRandom)
				doc, err := protojson.MarshalOptions{Resolver: s.resolver}.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				doc = mutate(t, s.md, doc)
				agreeOnDocument(t, s, doc)
				agreeOnDocument(t, s, mutateText(t, doc))
			})
		})
	}
}

// mutateText changes a document as text: what comes of it is most often no JSON.
func mutateText(t *rapid.T, doc []byte) []byte {
	out := bytes.Clone(doc)
	for range rapid.IntRange(1, 2).Draw(t, "edits") {
		at := rapid.IntRange(0, len(out)).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "edit") {
		case 0:
			out = out[:at]
		case 1:
			piece := rapid.SampledFrom([]string{" ", "\n", "{", "}", "[", "]", ",", ":", `"`, "\\", "0", "-", ".", "e", "1e1", "null", "true", "\u00e4", "\xff", "\x00", `\u0061`, `\ud83d`, `""`, `,"name":1`}).Draw(t, "piece")
			out = append(out[:at:at], append([]byte(piece), out[at:]...)...)
		default:
			end := min(len(out), at+rapid.IntRange(1, 3).Draw(t, "length"))
			out = append(out[:at:at], out[end:]...)
		}
	}
	return out
}

// agreeOnDocument compares the engines on one document.
func agreeOnDocument(t failer, s subject, doc []byte) {
	byPlan, ok := s.message.ReadByPlan([]byte("kept"), doc)
	want, err := s.message.GeneralToWire(nil, doc)
	var refused *transcode.InputError
	switch {
	case errors.As(err, &refused) && !refused.Structural:
		return // rules, which the plan leaves to others
	case err != nil && !errors.As(err, &refused):
		t.Fatalf("general engine on %s: %v", doc, err)
	case ok != (err == nil):
		t.Fatalf("on %s\nplan %t\ngeneral engine %v", doc, ok, err)
	case !ok:
		if string(byPlan) != "kept" {
			t.Fatalf("a refusal left %q", byPlan)
		}
		return
	}
	if !bytes.HasPrefix(byPlan, []byte("kept")) {
		t.Fatalf("the plan dropped what was in dst: %q", byPlan)
	}
	// NaN is not equal to itself, but deterministic bytes are.
	if a, b := canonical(t, s, want), canonical(t, s, byPlan[4:]); !bytes.Equal(a, b) {
		t.Fatalf("on %s\nplan            %x\ngeneral engine %x", doc, b, a)
	}
	if len(want) != len(byPlan)-4 {
		t.Fatalf("on %s\n%d bytes by the plan, %d by the general engine", doc, len(byPlan)-4, len(want))
	}
}

func canonical(t failer, s subject, wire []byte) []byte {
	m := dynamicpb.NewMessage(s.md)
	if err := (proto.UnmarshalOptions{Resolver: s.resolver}).Unmarshal(wire, m); err != nil {
		t.Fatalf("bytes %x: %v", wire, err)
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// What the Go runtime encodes, in whatever order, the plan writes as protojson does.
func TestPlanWritesRandomMessages(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, everything) {
		t.Run(string(s.md.FullName()), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := randomMessage(t, s, s.md, depthOfRandom)
				wire, err := proto.MarshalOptions{Deterministic: rapid.Bool().Draw(t, "in order")}.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				agreeOnWire(t, s, wire)
				if _, ok := s.message.WriteByPlan(nil, wire); !ok && s.md.FullName() != "google.protobuf.Value" {
					t.Fatalf("the plan refuses %x", wire)
				}
			})
		})
	}
}

// What the plan takes of damaged, doubled and foreign bytes, the general engine takes as well and writes the same.
func TestPlanJudgesMutatedWire(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, everything) {
		t.Run(string(s.md.FullName()), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				wire, err := proto.Marshal(randomMessage(t, s, s.md, depthOfRandom))
				if err != nil {
					t.Fatal(err)
				}
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0: // merged
					more, err := proto.Marshal(randomMessage(t, s, s.md, depthOfRandom))
					if err != nil {
						t.Fatal(err)
					}
					wire = append(wire, more...)
				case 1: // with unknown fields
					at := rapid.SampledFrom([][]byte{{0xf8, 0x7f, 1}, {0xfa, 0x7f, 1, 0}, {0xfb, 0x7f, 0xfc, 0x7f}, {0x80 | 0x08, 0x80, 0, 1}, {0x0b, 0x0c}}).Draw(t, "unknown")
					wire = append(bytes.Clone(at), wire...)
				default:
					for range rapid.IntRange(1, 3).Draw(t, "damages") {
						if len(wire) == 0 {
							break
						}
						at := rapid.IntRange(0, len(wire)-1).Draw(t, "at")
						switch rapid.IntRange(0, 2).Draw(t, "damage") {
						case 0:
							wire[at] = rapid.Byte().Draw(t, "byte")
						case 1:
							wire = append(wire[:at:at], wire[at+1:]...)
						default:
							wire = wire[:at]
						}
					}
				}
				agreeOnWire(t, s, wire)
			})
		})
	}
}

func agreeOnWire(t failer, s subject, wire []byte) {
	byPlan, ok := s.message.WriteByPlan([]byte("kept"), wire)
	if !ok {
		if string(byPlan) != "kept" {
			t.Fatalf("a refusal left %q", byPlan)
		}
		return
	}
	want, err := s.message.GeneralToJSON([]byte("kept"), wire)
	var refused *transcode.InputError
	if errors.As(err, &refused) && !refused.Structural {
		return
	}
	if err != nil || !bytes.Equal(want, byPlan) {
		t.Fatalf("on %x\nplan            %s\ngeneral engine %s %v", wire, byPlan, want, err)
	}
}

// Every test message has its own plan.
func TestPlansServeEverything(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, everything) {
		if why := s.message.PlanOf(); why != "" {
			t.Errorf("%s %s", s.md.FullName(), why)
		}
	}
}

// The messages of the demo and of our own contract, which were not written for this test, without their rules.
func TestPlanServesContracts(t *testing.T) {
	t.Parallel()
	roots := []protoreflect.MessageDescriptor{
		(&demov1.FindOrdersResponse{}).ProtoReflect().Descriptor(), (&outriggerv1.ServerDescription{}).ProtoReflect().Descriptor(),
		(&outriggerv1.ToolCall{}).ProtoReflect().Descriptor(), (&outriggerv1.RegisterToolRequest{}).ProtoReflect().Descriptor(),
	}
	seen := map[protoreflect.FullName]bool{}
	for _, root := range roots {
		files := &protoregistry.Files{}
		md := withoutOptions(t, root)
		mds := messagesBelow(md.ParentFile().Messages())
		for i := range md.ParentFile().Imports().Len() {
			mds = append(mds, messagesBelow(md.ParentFile().Imports().Get(i).Messages())...)
		}
		for _, md := range mds {
			if seen[md.FullName()] || reachesAny(md, map[protoreflect.FullName]bool{}) {
				continue
			}
			seen[md.FullName()] = true
			s := subject{md: md, resolver: newListed(files)}
			var err error
			if s.message, err = transcode.Compile(md, transcode.Options{Resolver: s.resolver}); err != nil {
				t.Fatal(err)
			}
			t.Run(string(md.FullName()), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) {
					m := randomMessage(t, s, s.md, depthOfRandom)
					doc, err := protojson.MarshalOptions{Resolver: s.resolver}.Marshal(m)
					if err != nil {
						t.Fatal(err)
					}
					agreeOnDocument(t, s, doc)
					agreeOnDocument(t, s, mutate(t, s.md, doc))
					wire, err := proto.Marshal(m)
					if err != nil {
						t.Fatal(err)
					}
					agreeOnWire(t, s, wire)
					if _, ok := s.message.WriteByPlan(nil, wire); !ok {
						t.Fatalf("the plan refuses %x", wire)
					}
				})
			})
		}
	}
	if len(seen) < 50 {
		t.Errorf("only %d messages", len(seen))
	}
}

func reachesAny(md protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if md.FullName() == "google.protobuf.Any" || md.FullName() == "google.protobuf.Value" {
		return true // a Value without a kind is none, which a random message does not know outside its own test
	}
	if seen[md.FullName()] {
		return false
	}
	seen[md.FullName()] = true
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		if fd.Message() != nil && reachesAny(fd.Message(), seen) {
			return true
		}
	}
	return false
}

// The entry of a map with two keys, the second of another type, once made the library panic.
func TestKeyOfTwoTypesIsNoEncoding(t *testing.T) {
	t.Parallel()
	m := subjectOf(t, "shapes.v1.Maps").message
	wire := []byte{0x0a, 6, 0x08, 1, 0x0a, 0, 0x12, 0}
	var broken *transcode.OutputError
	if out, err := m.ToJSON(nil, wire); !errors.As(err, &broken) || broken.Step != "decode" {
		t.Errorf("ToJSON: %s %v", out, err)
	}
	if err := m.CheckWire(t.Context(), wire); !errors.As(err, &broken) {
		t.Errorf("CheckWire: %v", err)
	}
}
