// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

func member(name string, groups ...string) *identity.Identity {
	return identity.NewIdentityOf(identity.Grant{Name: name, Tools: []string{"*"}}, identity.Facts{Groups: groups})
}

// TestKeys: callers with an equal key may use the same tools, callers with equal outcomes share one, and keys are short.
func TestKeys(t *testing.T) {
	t.Parallel()
	a, b, c := member("a", "x"), member("b", "x"), member("c")
	tests := []struct {
		name         string
		rules        []policy.Rule
		ab, ac, none bool // a and b, and a and c, have one key; there is none
	}{
		{"no rules", nil, true, true, true},
		{"args alone", []policy.Rule{allow("r", `args.count == 1`, "*")}, true, true, true},
		{"by group", []policy.Rule{allow("r", `"x" in caller.groups`, "*")}, true, false, false},
		{"by name", []policy.Rule{allow("r", `caller.name == "a"`, "*")}, false, false, false},
		{"tool alone", []policy.Rule{deny("r", `tool.destructive`, "*")}, true, true, false},
		{"tool and caller", []policy.Rule{deny("r", `tool.module in caller.groups`, "*")}, false, false, false},
		{"one of two differs", []policy.Rule{allow("r", `true`, "*"), deny("s", `caller.name != "b"`, "*")}, false, true, false},
	}
	for _, tt := range tests {
		engine := policy.NewEngine(compile(t, tt.rules...))
		keys := []string{engine.Key(a, nil), engine.Key(b, nil), engine.Key(c, nil)}
		if (keys[0] == keys[1]) != tt.ab || (keys[0] == keys[2]) != tt.ac || (keys[0] == "") != tt.none || len(keys[0]) > 100 {
			t.Errorf("%s: %q", tt.name, keys)
		}
		if again := engine.Key(a, nil); again != keys[0] {
			t.Errorf("%s: %q, then %q", tt.name, keys[0], again)
		}
		if !tt.none {
			engine.Replace(compile(t, tt.rules...), nil)
			if engine.Key(a, nil) == keys[0] {
				t.Errorf("%s: the same key under other rules", tt.name)
			}
		}
	}
}

// TestManyCallers: what is kept of callers is bounded, and those that are forgotten have the same keys again.
func TestManyCallers(t *testing.T) {
	t.Parallel()
	engine := policy.NewEngine(compile(t, allow("r", `caller.name.endsWith("7")`, "*")))
	keys := map[string]bool{}
	var all []*identity.Identity
	for i := range 5000 {
		all = append(all, member(fmt.Sprintf("c%d", i)))
	}
	for range 2 {
		for _, who := range all {
			keys[engine.Key(who, nil)] = true
		}
	}
	if len(keys) != 2 {
		t.Errorf("%d keys of two outcomes", len(keys))
	}
}

// TestAFileOfAnotherVersion: a file of the backend with the path of a file that is linked in, but with other fields, is the
// one that counts.
func TestAFileOfAnotherVersion(t *testing.T) {
	t.Parallel()
	file := &descriptorpb.FileDescriptorProto{}
	const text = `name: "outrigger/demo/v1/lab.proto" package: "outrigger.demo.v1" syntax: "proto3"
		message_type { name: "EchoRequest" field { name: "level" number: 9 type: TYPE_INT32 label: LABEL_OPTIONAL } }
		service { name: "Lab" method { name: "Echo" input_type: ".outrigger.demo.v1.EchoRequest" output_type: ".outrigger.demo.v1.EchoRequest" } }`
	if err := prototext.Unmarshal([]byte(text), file); err != nil {
		t.Fatal(err)
	}
	tool := lookup(t, build(t, &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}}, "outrigger.demo.v1.Lab"), "lab.echo")
	engine := policy.NewEngine(compile(t, allow("r", `args.level == 3`, "*")))
	if _, _, err := engine.MayCall(nil, tool, wire(t, tool, "level: 3")); err != nil {
		t.Error(err)
	}
	if engine = policy.NewEngine(compile(t, allow("r", `args.nonce == ""`, "*"))); engine.MayUse(nil, tool) == nil {
		t.Error("a field of the linked file is known")
	}
}

// TestConcurrency: decisions, catalogs and sets come at the same time.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	engine := policy.NewEngine(compile(t, allow("r", `args.count == 0`, "*")))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 20 {
				cat := newBank(t)
				tool := lookup(t, cat, "bank.send")
				if i == 0 {
					engine.Replace(compile(t, allow("r", `args.count == 0`, "*"), deny("s", `caller.name == "x"`, "*")), cat)
				}
				engine.Fit(cat)
				_ = engine.Key(member("a"), nil)
				if _, _, err := engine.MayCall(member("a"), tool, wire(t, tool, "count: 1")); err == nil {
					t.Error("a call passes")
				}
				if rule, _, err := engine.MayCall(nil, tool, nil); err != nil || rule != "r" {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestWhatARefusalSays: names, never text.
func TestWhatARefusalSays(t *testing.T) {
	t.Parallel()
	tool := lookup(t, newBank(t), "bank.send")
	var many []policy.Rule
	for i := range 9 {
		many = append(many, allow(fmt.Sprintf("r%d", i), `caller.name == "secret"`, "*"))
	}
	for want, list := range map[string][]policy.Rule{
		"policy rule r0 does not allow this use of tool bank.send":                                many[:1],
		"none of the policy rules r0, r1 allows this use of tool bank.send":                       many[:2],
		"none of the policy rules r0, r1, r2, r3, r4 or others allows this use of tool bank.send": many,
		"policy rule b does not fit the input of tool bank.send":                                  {deny("b", `args.secret == 1`, "*")},
	} {
		_, _, err := policy.NewEngine(compile(t, list...)).MayCall(nil, tool, nil)
		if err == nil || !strings.Contains(err.Message, want) || strings.Contains(err.Message, "secret") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCounts: decisions by rule, of the rules in use.
func TestCounts(t *testing.T) {
	t.Parallel()
	engine := policy.NewEngine(compile(t, allow("a", "true", "*"), deny("b", "true", "x.*")))
	engine.Count("a", "allow")
	engine.Count("b", "deny")
	engine.Count("other", "deny")
	engine.Replace(compile(t, allow("a", "true", "*"), deny("c", "true", "x.*")), nil)
	engine.Count("a", "allow")
	if got := fmt.Sprint(engine.Counts()); got != "[{a 2 0 0 0} {c 0 0 0 0}]" {
		t.Error(got)
	}
}
