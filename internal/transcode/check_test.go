// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// What the check of compiled rules lets pass, protovalidate lets pass too, in both directions. The reverse need not hold,
// but it has to for documents without a rule that is only CEL: else the check would be of no use.
func TestCompiledRulesAgree(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	for name, doc := range ruled() {
		s := newSubject(t, files, shape(t, files, name))
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := dynamicpb.NewMessage(s.md)
				if rapid.Bool().Draw(t, "from a good one") {
					if err := (protojson.UnmarshalOptions{Resolver: s.resolver}).Unmarshal([]byte(doc), m); err != nil {
						t.Fatal(err)
					}
				}
				for range rapid.IntRange(0, 3).Draw(t, "changes") {
					fd := s.md.Fields().Get(rapid.IntRange(0, s.md.Fields().Len()-1).Draw(t, "field"))
					one := dynamicpb.NewMessage(s.md)
					value := rapid.SampledFrom(ruleValues()).Draw(t, "value")
					if (protojson.UnmarshalOptions{Resolver: s.resolver, AllowPartial: true}).Unmarshal([]byte(`{"`+fd.JSONName()+`":`+value+`}`), one) != nil {
						continue
					}
					m.Clear(fd)
					proto.Merge(m, one)
				}
				agreeOnRules(t, s, m)
			})
		})
	}
}

func agreeOnRules(t failer, s subject, m proto.Message) (kept bool) {
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, output := range []bool{false, true} {
		if !s.message.KeepsRules(wire, output) {
			continue
		}
		kept = true
		if err := s.message.BreaksRules(wire, output); err != nil {
			t.Fatalf("as output %t, %v\nprotovalidate: %v", output, m, err)
		}
	}
	return kept
}

// The messages of the demo and of our own contract with random content. Most of it breaks rules; what breaks none has to
// be seen to break none wherever no rule is opaque.
func TestCompiledRulesServeContracts(t *testing.T) {
	t.Parallel()
	together := transcode.New(transcode.Options{})
	seen := map[protoreflect.FullName]bool{}
	for _, root := range []proto.Message{&demov1.FindOrdersResponse{}, &demov1.Vehicle{}, &demov1.UpdateVehicleRequest{}, &outriggerv1.Tool{}, &outriggerv1.ToolResult{}, &outriggerv1.RegisterToolRequest{}} {
		for _, md := range messagesBelow(root.ProtoReflect().Descriptor().ParentFile().Messages()) {
			if seen[md.FullName()] || reachesAny(md, map[protoreflect.FullName]bool{}) {
				continue
			}
			seen[md.FullName()] = true
			message, err := together.Compile(md)
			var broken *transcode.RuleError
			if errors.As(err, &broken) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			s := subject{md: md, resolver: newListed(shapes(t)), message: message}
			t.Run(string(md.FullName()), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) { agreeOnRules(t, s, randomMessage(t, s, md, 2)) })
			})
		}
	}
}

// A transcoder that has forgotten its rules says the same of a document.
func TestForget(t *testing.T) {
	t.Parallel()
	transcoder := transcode.New(transcode.Options{})
	message, err := transcoder.Compile(shape(t, shapes(t), "shapes.v1.Inner"))
	if err != nil {
		t.Fatal(err)
	}
	doc := []byte(`{"code":"toolong"}`)
	_, before := message.ToWire(nil, doc)
	transcoder.Forget()
	_, after := message.ToWire(nil, doc)
	if before == nil || after == nil || before.Error() != after.Error() {
		t.Errorf("%v, then %v", before, after)
	}
}

// Each document keeps the rules, and the check sees it without help where no CEL or format is involved.
func TestCompiledRulesSuffice(t *testing.T) {
	t.Parallel()
	for name, doc := range map[protoreflect.FullName]string{
		"shapes.v1.Numbers": `{"aboveTen":11,"positiveId":"1","largeId":"18000000000000000000","outside":6,"mustCount":1,"ratio":0.5,"finiteFloat":-1,"ignored":1,"maybeBig":100}`,
		"shapes.v1.Texts":   `{"shortName":"äöüß","prefixed":"a.b","must":"x","color":"red","fewBytes":"abcd","digest":"AAAA","key":"AAAAAAAA","twoWays":"a-b.txt","slug":"abc"}`,
		"shapes.v1.Choices": `{"level":"LEVEL_LOW","agreed":true,"tags":["ab"],"inner":{"code":"ab","deeper":{"code":"cd"}},"mail":"x","known":2,"lowOnly":1,"scores":{"a":1,"b":0},"numbered":{"1":"","20":"x"},"levels":[1,2],"inners":[{"code":"xy"}],"innerMap":{"":{"code":"äö"}}}`,
		"shapes.v1.Inner":   `{"code":"ab","deeper":{"code":"cd"}}`,
		"shapes.v1.Account": `{"displayName":"x","password":"12345678","state":"STATE_ON","members":[]}`,
	} {
		m := compiled(t, name)
		wire, ok := m.ReadByPlan(nil, []byte(doc))
		if !ok {
			t.Fatalf("%s refused", name)
		}
		if err := m.BreaksRules(wire, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !m.KeepsRules(wire, false) {
			t.Errorf("%s is not seen to keep its rules", name)
		}
	}
}
