// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// What is checked in every way comes to the same end as what is checked once, on documents that are right and on changed
// ones, and nothing disagrees.
func TestThoroughFindsNoDisagreement(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, everything) {
		t.Run(string(s.md.FullName()), func(t *testing.T) {
			t.Parallel()
			all := transcode.NewOracle(s.message)
			rapid.Check(t, func(t *rapid.T) {
				m := randomMessage(t, s, s.md, depthOfRandom)
				doc, err := protojson.MarshalOptions{Resolver: s.resolver}.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				for _, doc := range [][]byte{doc, mutate(t, s.md, doc), mutateText(t, doc)} {
					want, wantErr := s.message.ToWire(nil, doc)
					got, gotErr := all.ToWire(nil, doc)
					if !bytes.Equal(want, got) || said(wantErr) != said(gotErr) {
						t.Fatalf("on %s\nstandard %x %v\nfull     %x %v", doc, want, wantErr, got, gotErr)
					}
				}
				wire, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				want, wantErr := s.message.ToJSON(nil, wire)
				got, gotErr := all.ToJSON(nil, wire)
				if !bytes.Equal(want, got) || said(wantErr) != said(gotErr) {
					t.Fatalf("on %x\nstandard %s %v\nfull     %s %v", wire, want, wantErr, got, gotErr)
				}
			})
		})
	}
}

// An error of each reader, put in its place, is found, named and told, and no bytes leave.
func TestThoroughNamesADisagreement(t *testing.T) {
	t.Parallel()
	const good, wrongType = `{"name":"a"}`, `{"name":5}`
	yes := func([]byte) ([]byte, bool) { return []byte{0x0a, 1, 'b'}, true }
	no := func([]byte) ([]byte, bool) { return nil, false }
	never := validator(t, []byte(`{"properties":{"name":false}}`))
	anything := validator(t, []byte(`{}`))
	for _, tt := range []struct {
		name, doc string
		inject    transcode.Injected
		want      string
	}{
		{"the plan reads another message", good, transcode.Injected{PlanRead: yes}, "two different messages"},
		{"the plan takes what is wrong", wrongType, transcode.Injected{PlanRead: yes}, "the plan takes a document that the general engine refuses"},
		{"the plan refuses what is right", good, transcode.Injected{PlanRead: no}, "the plan refuses a document that the general engine takes"},
		{"the schema refuses what is right", good, transcode.Injected{Input: never}, `the engines take a document that the schema refuses at "/name"`},
		{"the schema admits what is wrong", wrongType, transcode.Injected{Input: anything}, `the schema admits a document that the engines refuse at "/name"`},
		{"the plan writes another answer", good, transcode.Injected{PlanWrite: func([]byte) ([]byte, bool) { return []byte(`{"name":"b"}`), true }}, "the engines write an answer differently, from byte 9"},
		{"the plan reads bytes that are no message", "\x0a\xff", transcode.Injected{PlanWrite: yes}, "the plan reads an answer that the general engine refuses"},
		{"the output schema refuses an answer", good, transcode.Injected{Output: never}, `the output schema refuses what both engines write, at "/name"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			message, err := transcode.Compile(shape(t, shapes(t), "shapes.v1.Leaf"), transcode.Options{})
			if err != nil {
				t.Fatal(err)
			}
			m := transcode.NewOracle(message)
			m.Inject(tt.inject)
			dst := []byte("kept")
			switch {
			case tt.inject.PlanWrite != nil || tt.inject.Output != nil:
				wire := []byte(tt.doc)
				if tt.doc == good {
					wire = []byte{0x0a, 1, 'a'}
				}
				dst, err = m.ToJSON(dst, wire)
			default:
				dst, err = m.ToWire(dst, []byte(tt.doc))
			}
			var disagreement *transcode.DisagreementError
			if !errors.As(err, &disagreement) || !strings.Contains(err.Error(), tt.want) || disagreement.Message != "shapes.v1.Leaf" {
				t.Errorf("got %v, want a disagreement about shapes.v1.Leaf that says %q", err, tt.want)
			}
			if string(dst) != "kept" {
				t.Errorf("dst became %q", dst)
			}
		})
	}
}

// The rules that the plan compiled are held against protovalidate, in both directions.
func TestThoroughComparesRules(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, hasRules) {
		if s.md.FullName() != "shapes.v1.Texts" {
			continue
		}
		m := transcode.NewOracle(s.message)
		m.Inject(transcode.Injected{PlanKeeps: true})
		var disagreement *transcode.DisagreementError
		if _, err := m.ToWire(nil, []byte(`{}`)); !errors.As(err, &disagreement) || !strings.Contains(err.Error(), "protovalidate finds") {
			t.Errorf("input: got %v", err)
		}
		if _, err := m.ToJSON(nil, nil); !errors.As(err, &disagreement) || !strings.Contains(err.Error(), "protovalidate finds") {
			t.Errorf("answer: got %v", err)
		}
		return
	}
	t.Fatal("shapes.v1.Texts is gone")
}

// A refusal that only the transcoder can see is no disagreement.
func TestThoroughKnowsWhatSchemasCannotSee(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ message, doc string }{
		{"shapes.v1.Maps", `{"int32Keys":{"1":"a","+1":"b"}}`},
		{"shapes.v1.Scalars", `{"anInt32":0.` + strings.Repeat("0", 25) + `1e26}`},
		{"shapes.v1.Scalars", `{"aDouble":1` + strings.Repeat("0", schema.DefaultMaxNumberLength) + `}`},
	} {
		md := shape(t, shapes(t), protoreflect.FullName(tt.message))
		m, err := transcode.Compile(md, transcode.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var refused *transcode.InputError
		if _, err := transcode.NewOracle(m).ToWire(nil, []byte(tt.doc)); !errors.As(err, &refused) {
			t.Errorf("%s: got %v, want an ordinary refusal", tt.doc, err)
		}
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
