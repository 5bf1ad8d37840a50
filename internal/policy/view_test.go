// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
	optionspb "github.com/outrigger-mcp/outrigger/proto/options"
)

// shop has customers whose email is pii by its option, and orders with customers in them.
const shop = `
name: "shop.proto" package: "shop.v1" syntax: "proto3" dependency: "google/protobuf/any.proto" dependency: "outrigger/v1/options.proto"
message_type { name: "Customer"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "email" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL options { [outrigger.v1.field] { visible_to: "pii" } } }
  field { name: "limit" number: 3 type: TYPE_INT64 label: LABEL_OPTIONAL } }
message_type { name: "Order"
  field { name: "customer" number: 1 type: TYPE_MESSAGE type_name: ".shop.v1.Customer" label: LABEL_OPTIONAL }
  field { name: "total" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "note" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "extra" number: 4 type: TYPE_MESSAGE type_name: ".google.protobuf.Any" label: LABEL_OPTIONAL } }
message_type { name: "Id" field { name: "id" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL } }
service { name: "Shop"
  method { name: "GetCustomer" input_type: ".shop.v1.Id" output_type: ".shop.v1.Customer" options { idempotency_level: NO_SIDE_EFFECTS } }
  method { name: "GetOrder" input_type: ".shop.v1.Id" output_type: ".shop.v1.Order" options { idempotency_level: NO_SIDE_EFFECTS } }
  method { name: "PutCustomer" input_type: ".shop.v1.Customer" output_type: ".shop.v1.Id" }
  method { name: "Ping" input_type: ".shop.v1.Id" output_type: ".shop.v1.Id" } }
`

// newShop returns the catalog of the shop, with options as code that is linked in has them, or as reflection leaves them.
func newShop(t testing.TB, isLinked bool) *catalog.Catalog {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(shop), file); err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto((&descriptorpb.FileDescriptorProto{}).ProtoReflect().Descriptor().ParentFile()),
		protodesc.ToFileDescriptorProto((&anypb.Any{}).ProtoReflect().Descriptor().ParentFile()),
		protodesc.ToFileDescriptorProto(optionspb.File_outrigger_v1_options_proto),
		file,
	}}
	if !isLinked {
		raw, err := proto.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		set = &descriptorpb.FileDescriptorSet{}
		if err := (proto.UnmarshalOptions{Resolver: &protoregistry.Types{}}).Unmarshal(raw, set); err != nil {
			t.Fatal(err)
		}
	}
	return build(t, set, "shop.v1.Shop")
}

// named is a caller of the callers file.
func named(name string, groups ...string) *identity.Identity {
	return identity.NewIdentityOf(identity.Grant{Name: name, Tools: []string{"*"}}, identity.Facts{Groups: groups})
}

func classified(t testing.TB, classes []policy.Class, fields []policy.FieldName, rules ...policy.Rule) *policy.Set {
	t.Helper()
	set := compile(t, rules...)
	if faults := set.Classify(classes, fields); len(faults) > 0 {
		t.Fatalf("faults: %v", faults)
	}
	return set
}

// shown is a response of a tool in the text format as a caller sees it.
func shown(t testing.TB, v *policy.View, md protoreflect.MessageDescriptor, text string) (string, *errmap.Error) {
	t.Helper()
	m := dynamicpb.NewMessage(md)
	if err := (protojson.UnmarshalOptions{Resolver: typesBeside(md)}).Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out, failed := v.Apply(md, raw)
	if failed != nil {
		return "", failed
	}
	m.Reset()
	if err := proto.Unmarshal(out, m); err != nil {
		t.Fatal(err)
	}
	got, err := protojson.MarshalOptions{Resolver: typesBeside(md)}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.ReplaceAll(string(got), `": `, `":`), `, "`, `,"`), nil
}

func typesBeside(md protoreflect.MessageDescriptor) *dynamicpb.Types {
	files := &protoregistry.Files{}
	_ = files.RegisterFile(md.ParentFile())
	return dynamicpb.NewTypes(files)
}

const shopOrder = `{"customer":{"name":"Ann","email":"ann@example.com","limit":"7"},"total":"5","note":"call 555-1234567",` +
	`"extra":{"@type":"type.googleapis.com/shop.v1.Customer","email":"bob@example.com"}}`

func TestViewsOfClasses(t *testing.T) {
	t.Parallel()
	pii := policy.Class{Path: "classes[0]", Name: "pii", Callers: []string{"agent"}, Groups: []string{"support"}, Scopes: []string{"read:pii"}}
	masked := pii
	masked.Otherwise = "mask"
	tail := masked
	tail.Mask = "last_four"
	hashed, denied := pii, pii
	hashed.Otherwise, denied.Otherwise = "hash", "deny"
	scoped := identity.NewIdentityOf(identity.Grant{Name: "x#y", Tools: []string{"*"}}, identity.Facts{Source: identity.SourceOAuth, Scopes: []string{"read:pii"}})
	for _, isLinked := range []bool{true, false} {
		cat := newShop(t, isLinked)
		tool := lookup(t, cat, "shop.get_order")
		for name, tt := range map[string]struct {
			class policy.Class
			who   *identity.Identity
			want  string // of customer.email and of the one in extra; empty: all is shown
		}{
			"by name":     {pii, named("agent"), ""},
			"by group":    {pii, named("other", "support"), ""},
			"by scope":    {pii, scoped, ""},
			"an impostor": {pii, identity.NewIdentityOf(identity.Grant{Name: "agent"}, identity.Facts{Source: identity.SourceCertificate}), "{}"},
			"anonymous":   {pii, nil, "{}"},
			"hide":        {pii, named("other"), "{}"},
			"mask":        {masked, named("other"), `"********"`},
			"last four":   {tail, named("other"), `"****.com"`},
		} {
			engine := policy.NewEngine(classified(t, []policy.Class{tt.class}, nil))
			if faults := engine.Fit(cat); len(faults) > 0 {
				t.Fatal(faults)
			}
			v := engine.View(tt.who, tool)
			if (v == nil) != (tt.want == "") || (v.Key() == "") != (tt.want == "") || v.TreatsResult() != (tt.want != "") {
				t.Fatalf("%s: %v %q", name, v, v.Key())
			}
			got, failed := shown(t, v, tool.Method.Descriptor.Output(), shopOrder)
			if failed != nil {
				t.Fatalf("%s: %v", name, failed)
			}
			switch {
			case tt.want == "" && (!strings.Contains(got, "ann@") || !strings.Contains(got, "bob@")):
				t.Errorf("%s: %s", name, got)
			case tt.want == "{}" && strings.Contains(got, "email"), tt.want != "" && strings.Contains(got, "@example"):
				t.Errorf("%s: %s", name, got)
			case tt.want != "" && tt.want != "{}" && strings.Count(got, `"email":`+tt.want) != 2:
				t.Errorf("%s: %s", name, got)
			}
		}
		engine := policy.NewEngine(classified(t, []policy.Class{hashed}, nil))
		a, _ := shown(t, engine.View(named("a"), tool), tool.Method.Descriptor.Output(), shopOrder)
		again, _ := shown(t, engine.View(named("a"), tool), tool.Method.Descriptor.Output(), shopOrder)
		b, _ := shown(t, engine.View(named("b"), tool), tool.Method.Descriptor.Output(), shopOrder)
		if a == b || a != again || strings.Contains(a, "ann") || engine.View(named("a"), tool).Key() == engine.View(named("b"), tool).Key() {
			t.Errorf("hash: %s, %s", a, b)
		}
		engine = policy.NewEngine(classified(t, []policy.Class{denied}, nil))
		if _, failed := shown(t, engine.View(named("a"), tool), tool.Method.Descriptor.Output(), shopOrder); failed == nil || failed.Code != errmap.PermissionDenied || !strings.Contains(failed.Error(), "email") {
			t.Errorf("deny: %v", failed)
		}
		if got, failed := shown(t, engine.View(named("a"), tool), tool.Method.Descriptor.Output(), `{"total":"5"}`); failed != nil || got != `{"total":"5"}` {
			t.Errorf("nothing to deny: %v %v", got, failed)
		}
	}
}

// TestViewsOfToolsWithoutSuchFields: there is a view, for details of errors, and it costs and treats nothing else.
func TestViewsOfToolsWithoutSuchFields(t *testing.T) {
	t.Parallel()
	cat := newShop(t, true)
	engine := policy.NewEngine(classified(t, []policy.Class{{Name: "pii", Callers: []string{"agent"}}}, nil))
	tool := lookup(t, cat, "shop.ping")
	v := engine.View(nil, tool)
	if v.TreatsResult() {
		t.Error("it treats its results")
	}
	wire := []byte{0x0a, 1, 'x'}
	if got, failed := v.Apply(tool.Method.Descriptor.Output(), wire); failed != nil || &got[0] != &wire[0] {
		t.Error(failed)
	}
	if got, failed := shown(t, v, lookup(t, cat, "shop.get_customer").Method.Descriptor.Output(), `{"email":"x"}`); failed != nil || got != `{}` {
		t.Errorf("a detail: %s %v", got, failed)
	}
	if !engine.View(nil, lookup(t, cat, "shop.put_customer")).TreatsResult() {
		t.Error("what the backend says may repeat the request")
	}
	if policy.NewEngine(compile(t, allow("a", "true", "*"))).View(nil, tool) != nil {
		t.Error("a view without classes")
	}
}

// TestUnnamedClasses: a field whose class the policy does not name is hidden from all.
func TestUnnamedClasses(t *testing.T) {
	t.Parallel()
	cat := newShop(t, false)
	tool := lookup(t, cat, "shop.get_customer")
	for name, engine := range map[string]*policy.Engine{
		"no policy":     policy.NewEngine(nil),
		"another class": policy.NewEngine(classified(t, []policy.Class{{Path: "classes[0]", Name: "finance", Callers: []string{"agent"}}}, []policy.FieldName{{Name: "shop.v1.Order.total", Class: "finance"}})),
	} {
		faults := engine.Fit(cat)
		if len(faults) != 1 || faults[0].Path != "classes" || !strings.Contains(faults[0].Message, "field shop.v1.Customer.email has the class pii, which is not named here") || faults[0].Disables() {
			t.Errorf("%s: %v", name, faults)
		}
		if got, failed := shown(t, engine.View(named("agent"), tool), tool.Method.Descriptor.Output(), `{"name":"Ann","email":"ann@example.com"}`); failed != nil || got != `{"name":"Ann"}` {
			t.Errorf("%s: %v %v", name, got, failed)
		}
		if engine.Disabled() != 0 {
			t.Errorf("%s: tools are disabled", name)
		}
	}
}

func result(name, effect, when string) policy.Rule {
	return policy.Rule{Name: name, Tools: []string{"shop.*"}, Effect: policy.Effect(effect), When: when, OnResult: true}
}

func TestRulesAboutResults(t *testing.T) {
	t.Parallel()
	cat := newShop(t, true)
	tool := lookup(t, cat, "shop.get_order")
	about := func(r policy.Rule, fields ...string) policy.Rule { r.Fields = fields; return r }
	of := func(r policy.Rule, classes ...string) policy.Rule { r.Classes = classes; return r }
	for name, tt := range map[string]struct {
		rules  []policy.Rule
		result string
		want   string // "deny" or what is shown
	}{
		"by caller":        {[]policy.Rule{about(result("a", "hide", `caller.name == "x"`), "shop.v1.Order.note")}, `{"note":"n","total":"1"}`, `{"total":"1"}`},
		"of others":        {[]policy.Rule{about(result("a", "hide", `caller.name != "x"`), "shop.v1.Order.note")}, `{"note":"n"}`, `{"note":"n"}`},
		"by tool":          {[]policy.Rule{about(result("a", "mask", `tool.name == "shop.get_order"`), "*.note")}, `{"note":"abc"}`, `{"note":"***"}`},
		"by result":        {[]policy.Rule{about(result("a", "hide", `result.total > 10`), "*.note")}, `{"note":"n","total":"11"}`, `{"total":"11"}`},
		"by other result":  {[]policy.Rule{about(result("a", "hide", `result.total > 10`), "*.note")}, `{"note":"n","total":"9"}`, `{"total":"9","note":"n"}`},
		"what fails holds": {[]policy.Rule{about(result("a", "hide", `1 / result.total > 1`), "*.note")}, `{"note":"n"}`, `{}`},
		"a part":           {[]policy.Rule{about(result("a", "mask", `result.customer.name == "Ann"`), "*.limit")}, `{"customer":{"name":"Ann","limit":"5"}}`, `{"customer":{"name":"Ann"}}`},
		"by class":         {[]policy.Rule{of(result("a", "mask", `field.class == "pii"`), "pii")}, `{"customer":{"email":"abc"}}`, `{"customer":{"email":"***"}}`},
		"by any class":     {[]policy.Rule{result("a", "mask", `field.class == "pii" && result.total == 1`)}, `{"customer":{"email":"abc"},"total":"1","note":"n"}`, `{"customer":{"email":"***"},"total":"1","note":"n"}`},
		"by name":          {[]policy.Rule{about(result("a", "hide", `field.name.endsWith("note") && result.total == 1`), "shop.v1.Order.*")}, `{"total":"1","note":"n"}`, `{"total":"1"}`},
		"the strictest":    {[]policy.Rule{about(result("a", "mask", "true"), "*.note"), about(result("b", "hide", "true"), "*.note")}, `{"note":"n"}`, `{}`},
		"deny all":         {[]policy.Rule{result("a", "deny", "result.total > 10")}, `{"total":"11"}`, "deny"},
		"deny nothing":     {[]policy.Rule{result("a", "deny", "result.total > 10")}, `{"total":"10"}`, `{"total":"10"}`},
		"deny a field":     {[]policy.Rule{about(result("a", "deny", "true"), "*.note")}, `{"note":"n"}`, "deny"},
		"deny no field":    {[]policy.Rule{about(result("a", "deny", "true"), "*.note")}, `{"total":"1"}`, `{"total":"1"}`},
		"does not fit":     {[]policy.Rule{about(result("a", "hide", "result.nothing == 1"), "*.note")}, `{"note":"n"}`, `{}`},
	} {
		set := classified(t, []policy.Class{{Name: "pii", Callers: []string{"x"}}}, nil, tt.rules...)
		v := policy.NewEngine(set).View(named("x"), tool)
		got, failed := shown(t, v, tool.Method.Descriptor.Output(), tt.result)
		switch {
		case tt.want == "deny":
			if failed == nil || failed.Code != errmap.PermissionDenied || failed.Rule != "a" {
				t.Errorf("%s: %s %v", name, got, failed)
			}
		case failed != nil || got != tt.want:
			t.Errorf("%s: %s, want %s (%v)", name, got, tt.want, failed)
		}
	}
}

func TestTreatmentForSchemas(t *testing.T) {
	t.Parallel()
	cat := newShop(t, true)
	tool := lookup(t, cat, "shop.get_order")
	md := tool.Method.Descriptor.Output()
	note := md.Fields().ByName("note")
	r := result("a", "hide", "result.total > 10")
	r.Fields = []string{"*.note"}
	engine := policy.NewEngine(classified(t, []policy.Class{{Name: "pii", Callers: []string{"x"}, Otherwise: "hash"}}, []policy.FieldName{{Name: "shop.v1.Order.total", Class: "pii"}}, r))
	v := engine.View(nil, tool)
	if how, varies := v.Treatment("note", note); how.Action != transcode.Hide || !varies {
		t.Errorf("note: %v %v", how, varies)
	}
	if how, varies := v.Treatment("", md.Fields().ByName("total")); how.Action != transcode.Mask || varies {
		t.Errorf("total, which cannot be hashed: %v %v", how, varies)
	}
	if how, varies := v.Treatment("", md.Fields().ByName("customer")); how.Action != transcode.Show || varies {
		t.Errorf("customer: %v %v", how, varies)
	}
	if engine.Key(nil, cat) == engine.Key(named("x"), cat) {
		t.Error("lists of callers with different classes have one key")
	}
}

func TestFaultsOfClasses(t *testing.T) {
	t.Parallel()
	cat := newShop(t, true)
	class := func(c policy.Class) []policy.Class {
		c.Path, c.Name, c.Callers = "classes[0]", "pii", []string{"x"}
		return []policy.Class{c}
	}
	about := func(r policy.Rule, fields ...string) []policy.Rule { r.Fields = fields; return []policy.Rule{r} }
	field := func(name protoreflect.FullName) []policy.FieldName {
		return []policy.FieldName{{Path: "fields[" + string(name) + "]", Name: name, Class: "pii"}}
	}
	for name, tt := range map[string]struct {
		classes []policy.Class
		fields  []policy.FieldName
		rules   []policy.Rule
		want    string
	}{
		"no such field":    {class(policy.Class{}), field("shop.v1.Customer.mail"), nil, "fields[shop.v1.Customer.mail]: no message has the field shop.v1.Customer.mail: correct its name"},
		"unused class":     {append(class(policy.Class{}), policy.Class{Path: "classes[1]", Name: "finance"}), nil, nil, "classes[1].name: no field has the class finance: give it to one by (outrigger.v1.field).visible_to, fields or tools[].visible_to, or remove it"},
		"hash of a number": {class(policy.Class{Otherwise: "hash"}), field("shop.v1.Order.total"), nil, "classes[0].otherwise: hash does not fit field shop.v1.Order.total: use hide, or a class of its kind"},
		"tail of a number": {class(policy.Class{Otherwise: "mask", Mask: "last_four"}), field("shop.v1.Order.total"), nil, "classes[0].otherwise: mask last_four does not fit field shop.v1.Order.total: use hide, or a class of its kind"},
		"glob of nothing":  {class(policy.Class{}), nil, about(result("a", "hide", "true"), "shop.v2.*"), "fields[0]: no message has a field that matches shop.v2.*: correct it"},
		"rule and type":    {class(policy.Class{}), nil, about(result("a", "hash", "true"), "shop.v1.Order.total"), "effect: hash does not fit field shop.v1.Order.total: use hide"},
	} {
		set := classified(t, tt.classes, tt.fields, tt.rules...)
		var got []string
		for _, f := range set.Fit(cat) {
			at := f.Path
			if at == "" {
				at = f.Field
			}
			got = append(got, at+": "+f.String())
		}
		if !slices.Contains(got, tt.want) || len(got) != 1 {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tt.want)
		}
	}
	set := classified(t, class(policy.Class{}), nil, about(result("a", "hide", "result.nothing == 1"), "*.note")...)
	faults := set.Fit(cat)
	if len(faults) == 0 || faults[0].Disables() || !strings.Contains(faults[0].String(), "undefined field 'nothing'") {
		t.Errorf("condition: %v", faults)
	}
	if faults := compile(t).Classify([]policy.Class{{Path: "classes[0]", Name: "a"}, {Path: "classes[1]", Name: "a"}}, []policy.FieldName{{Path: "fields[x.Y.z]", Name: "x.Y.z", Class: "b"}}); len(faults) != 2 {
		t.Errorf("%v", faults)
	}
}

func TestNativeResults(t *testing.T) {
	t.Parallel()
	tool := newNative(`{"type":"object"}`)
	tool.Method = &catalog.Method{}
	tool.Classes = map[string]string{"lines.note": "pii"}
	output := []byte(`{"type":"object","properties":{
		"email":{"type":"string","x-outrigger-visible-to":"pii"},"of":{"$ref":"#/$defs/of"},
		"map":{"type":"object","additionalProperties":{"type":"string","x-outrigger-visible-to":"pii"}}},
		"$defs":{"of":{"type":"object","properties":{"pin":{"type":"integer","x-outrigger-visible-to":"pii"}}}}}`)
	tool.Output = schema.Fixed(&schema.Schema{Canonical: output, Advertised: output})
	const data = `{"email":"ann@example.com","of":{"pin":12,"b":true},"map":{"k":"secret"},"lines":[{"note":["x",1,{"y":2}],"n":1}],"more":null}`
	for otherwise, want := range map[string]string{
		"":     `{"of":{"b":true},"map":{},"lines":[{"n":1}],"more":null}`,
		"mask": `{"email":"********","of":{"pin":0,"b":true},"map":{"k":"******"},"lines":[{"note":["*",0,{}],"n":1}],"more":null}`,
		"deny": "",
	} {
		engine := policy.NewEngine(classified(t, []policy.Class{{Name: "pii", Callers: []string{"x"}, Otherwise: otherwise}}, nil))
		got, failed := engine.View(nil, tool).ApplyJSON([]byte(data))
		if string(got) != want || (failed == nil) != (want != "") {
			t.Errorf("%s: %s %v", otherwise, got, failed)
		}
	}
	r := result("a", "deny", `result.of.pin > 10`)
	r.Tools = []string{"*"}
	engine := policy.NewEngine(classified(t, []policy.Class{{Name: "pii", Callers: []string{"x"}}}, nil, r))
	if _, failed := engine.View(named("x"), tool).ApplyJSON([]byte(data)); failed == nil {
		t.Error("a rule about the data does not hold")
	}
	if _, failed := engine.View(nil, tool).ApplyJSON([]byte(`{`)); failed == nil {
		t.Error("what is no JSON is passed on")
	}
}

func TestVisibleArguments(t *testing.T) {
	t.Parallel()
	cat := newShop(t, true)
	engine := policy.NewEngine(classified(t, []policy.Class{{Name: "pii", Callers: []string{"x"}, Otherwise: "deny"}}, nil))
	tool := lookup(t, cat, "shop.put_customer")
	engine.Fit(cat)
	if engine.Visible([]string{"pii"}, tool) != nil || engine.Visible(nil, lookup(t, cat, "shop.ping")) != nil {
		t.Error("a view that treats nothing")
	}
	if got, failed := shown(t, engine.Visible(nil, tool), tool.Method.Descriptor.Input(), `{"name":"Ann","email":"a@b"}`); failed != nil || got != `{"name":"Ann"}` {
		t.Errorf("%s %v", got, failed)
	}
}

// TestViewsShareWhatTheyPlan: tools about which nothing is said plan the types of their backend once.
func TestViewsShareWhatTheyPlan(t *testing.T) {
	t.Parallel()
	cat := newShop(t, true)
	tool := lookup(t, cat, "shop.put_customer")
	tool.Classes = map[string]string{"id": "pii"}
	engine := policy.NewEngine(classified(t, []policy.Class{{Name: "pii", Callers: []string{"x"}}}, nil))
	of := func(name string) *policy.View { return engine.View(nil, lookup(t, cat, name)) }
	if !policy.SharesPlans(of("shop.get_customer"), of("shop.get_order")) {
		t.Error("each tool plans again")
	}
	if policy.SharesPlans(of("shop.get_customer"), of("shop.put_customer")) {
		t.Error("a tool with classes by path shares what others plan")
	}
}

// TestOutcomesAreBounded: beyond the bound all rules hold.
func TestOutcomesAreBounded(t *testing.T) {
	t.Parallel()
	tool := lookup(t, newShop(t, true), "shop.get_order")
	var rules []policy.Rule
	for i := range 7 {
		r := result(fmt.Sprint("r", i), "hide", fmt.Sprintf("(result.total / %d) %% 2 == 1", 1<<i))
		r.Fields = []string{"*.note"}
		rules = append(rules, r)
	}
	v := policy.NewEngine(classified(t, nil, nil, rules...)).View(nil, tool)
	for total := range 100 {
		got, failed := shown(t, v, tool.Method.Descriptor.Output(), fmt.Sprintf(`{"total":"%d","note":"n"}`, total+1))
		if failed != nil || strings.Contains(got, "note") {
			t.Fatalf("%d: %s %v", total+1, got, failed)
		}
	}
	if kept := policy.KeptOutcomes(v); kept != 64 {
		t.Errorf("filters for %d outcomes", kept)
	}
	if got, failed := shown(t, v, tool.Method.Descriptor.Output(), `{"note":"n"}`); failed != nil || got != "{}" {
		t.Errorf("beyond the bound: %s %v", got, failed)
	}
}

// TestKeysOfCallersWhoSeeAll: they may use all, so that their lists are those of all.
func TestKeysOfCallersWhoSeeAll(t *testing.T) {
	t.Parallel()
	cat := newShop(t, true)
	pii := []policy.Class{{Path: "classes[0]", Name: "pii", Callers: []string{"x"}}}
	engine := policy.NewEngine(classified(t, pii, nil))
	engine.Fit(cat)
	if got := engine.Key(named("x"), cat); got != "" {
		t.Errorf("sees all: %q", got)
	}
	if engine.Key(nil, cat) == "" {
		t.Error("sees less")
	}
	engine = policy.NewEngine(classified(t, pii, nil, result("a", "deny", "result.total > 10")))
	engine.Fit(cat)
	if engine.Key(named("x"), cat) == "" {
		t.Error("a rule about results")
	}
	engine = policy.NewEngine(nil)
	engine.Fit(cat)
	if engine.Key(named("x"), cat) == "" {
		t.Error("a class that the policy does not name")
	}
}

// TestClassesAnywhereInASchema: those of a native tool's output schema hold wherever the schema has them, and fail closed.
func TestClassesAnywhereInASchema(t *testing.T) {
	t.Parallel()
	const pii = `{"type":"string","x-outrigger-visible-to":"pii"}`
	deep := `{"properties":{"pin":` + pii + `}}`
	for range 40 {
		deep = `{"properties":{"a":` + deep + `}}`
	}
	for name, tt := range map[string]struct{ schema, data, want string }{
		"recursive":    {`{"properties":{"root":{"$ref":"#/$defs/n"}},"$defs":{"n":{"properties":{"email":` + pii + `,"next":{"items":{"$ref":"#/$defs/n"}},"n":{}}}}}`, `{"root":{"n":1,"next":[{"next":[{"email":"x"}]}]}}`, `{"root":{"n":1}}`},
		"the root":     {`{"properties":{"self":{"$ref":"#"},"mine":` + pii + `}}`, `{"self":{"mine":"x"},"n":1}`, `{"n":1}`},
		"definitions":  {`{"properties":{"d":{"$ref":"#/definitions/d"}},"definitions":{"d":{"properties":{"pin":` + pii + `}}}}`, `{"d":{"pin":"x","n":1}}`, `{"d":{"n":1}}`},
		"patterns":     {`{"properties":{"p":{"patternProperties":{"^x":` + pii + `}}}}`, `{"p":{"x1":"x"},"n":1}`, `{"p":{},"n":1}`},
		"conditions":   {`{"then":{"properties":{"p":` + pii + `}},"else":{"properties":{"q":` + pii + `}}}`, `{"p":"x","q":"x","n":1}`, `{"n":1}`},
		"contains":     {`{"properties":{"l":{"contains":{"properties":{"p":` + pii + `}}}}}`, `{"l":[{"p":"x","n":1}]}`, `{"l":[{"n":1}]}`},
		"not known":    {`{"dependentSchemas":{"a":{"properties":{"p":` + pii + `}}}}`, `{"p":"x","n":1}`, `{}`},
		"a pointer":    {`{"properties":{"p":{"$ref":"#/properties/q/x"},"q":{"x":{"properties":{"pin":` + pii + `}}}}}`, `{"p":{"pin":"x"}}`, `{}`},
		"too deep":     {deep, `{"a":{"a":1}}`, `{}`},
		"name and any": {`{"properties":{"o":{"properties":{"a":{"properties":{"n":{}}}},"additionalProperties":{"properties":{"pin":` + pii + `}}}}}`, `{"o":{"a":{"n":1,"pin":"x"},"b":{"pin":"x"}}}`, `{"o":{"a":{"n":1},"b":{}}}`},
		"both":         {`{"properties":{"o":{"properties":{"a":{"properties":{"tag":` + pii + `}}},"additionalProperties":{"properties":{"pin":` + pii + `}}}}}`, `{"o":{"a":{"tag":"x","pin":"x","n":1}}}`, `{"o":{"a":{"n":1}}}`},
	} {
		tool := newNative(`{"type":"object"}`)
		tool.Method = &catalog.Method{}
		tool.Output = schema.Fixed(&schema.Schema{Canonical: []byte(tt.schema), Advertised: []byte(tt.schema)})
		engine := policy.NewEngine(classified(t, []policy.Class{{Name: "pii", Callers: []string{"x"}}}, nil))
		if got, failed := engine.View(nil, tool).ApplyJSON([]byte(tt.data)); failed != nil || string(got) != tt.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, tt.want, failed)
		}
		if got, failed := engine.View(named("x"), tool).ApplyJSON([]byte(tt.data)); failed != nil || string(got) != tt.data {
			t.Errorf("%s: who has the class gets %s (%v)", name, got, failed)
		}
	}
}

// TestRecordsOfNativeTools: what records leave out is that of the whole tool, of which a caller's schema names a part.
func TestRecordsOfNativeTools(t *testing.T) {
	t.Parallel()
	cat := newShop(t, true)
	tool := lookup(t, cat, "shop.ping")
	output := []byte(`{"type":"object","properties":{"email":{"type":"string","x-outrigger-visible-to":"pii"},"pin":{"type":"string","x-outrigger-visible-to":"finance"}}}`)
	check, err := schema.Later(output)
	if err != nil {
		t.Fatal(err)
	}
	tool.Native, tool.Output = true, schema.Fixed(&schema.Schema{Canonical: output, Advertised: output})
	tool.Declared = &catalog.Declared{Output: check}
	engine := policy.NewEngine(classified(t, []policy.Class{{Name: "pii", Callers: []string{"x"}}, {Name: "finance", Callers: []string{"y"}}}, nil))
	all := func(*catalog.Tool) bool { return true }
	hides := func(path string, _ protoreflect.FieldDescriptor) (schema.Seen, bool) {
		if path == "email" {
			return schema.SeenNot, false
		}
		return schema.SeenWhole, false
	}
	seen := (&catalog.Views{}).Only(cat, func() *catalog.Catalog { return cat }, "a", all, func(*catalog.Tool) catalog.Sight {
		return catalog.Sight{Key: "a", Of: hides, Paths: []string{"email"}}
	})
	part := lookup(t, seen, "shop.ping")
	if part.Whole() == part || strings.Contains(string(part.Output.Canonical()), "email") {
		t.Fatalf("all is shown: %s", part.Output.Canonical())
	}
	if got := engine.UnrecordedPaths(part); !slices.Equal(got, []string{"email", "pin"}) {
		t.Errorf("%q", got)
	}
}

// The schema that is shown of a native tool's data follows the data: whatever places are named, as a name or as any member, what is left
// keeps to it.
func TestNativeDataKeepsToItsView(t *testing.T) {
	t.Parallel()
	const part = `{"type":"object","properties":{"a":{"type":"string","minLength":9},"b":{"type":"array","items":{"type":"integer","minimum":5},"minItems":1},` +
		`"c":{"type":"object","additionalProperties":{"type":"string","pattern":"^value"},"required":["a"]}},"required":["a","b","c"],"additionalProperties":{"type":"string","minLength":9}}`
	const value = `{"a":"value of a","b":[7,8],"c":{"a":"value of a","z":"value of z"},"d":"value of d"}`
	const output = `{"type":"object","$defs":{"part":` + part + `},"properties":{"a":{"$ref":"#/$defs/part"},"b":{"type":"array","items":{"$ref":"#/$defs/part"}}},` +
		`"required":["a","b"],"additionalProperties":{"$ref":"#/$defs/part"}}`
	const data = `{"a":` + value + `,"b":[` + value + `,` + value + `],"c":` + value + `}`
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "d", "z", "*"}
	for round := range 1000 {
		tool := newNative(`{"type":"object"}`)
		tool.Method, tool.Classes = &catalog.Method{}, map[string]string{}
		for range 1 + random.IntN(4) {
			var path []string
			for range 1 + random.IntN(3) {
				path = append(path, names[random.IntN(len(names))])
			}
			tool.Classes[strings.Join(path, ".")] = []string{"gone", "masked", "hashed", "seen"}[random.IntN(4)]
		}
		tool.Output = schema.Fixed(&schema.Schema{Canonical: []byte(output), Advertised: []byte(output)})
		engine := policy.NewEngine(classified(t, []policy.Class{
			{Name: "gone", Callers: []string{"x"}}, {Name: "masked", Callers: []string{"x"}, Otherwise: "mask"},
			{Name: "hashed", Callers: []string{"x"}, Otherwise: "hash"}, {Name: "seen", Callers: []string{"y"}},
		}, nil))
		view := engine.View(named("y"), tool)
		shown, failed := view.ApplyJSON([]byte(data))
		if failed != nil {
			t.Fatal(failed)
		}
		text := schema.NewSight(func(path string, _ protoreflect.FieldDescriptor) (schema.Seen, bool) {
			how, varies := view.Treatment(path, nil)
			return map[transcode.Action]schema.Seen{transcode.Show: schema.SeenWhole, transcode.Mask: schema.SeenMasked, transcode.Hash: schema.SeenHashed, transcode.Hide: schema.SeenNot}[how.Action], varies
		}, view.Paths()).Declared([]byte(output), nil, false)
		check, err := schema.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := check.Validate(shown); err != nil || len(found) > 0 {
			t.Fatalf("round %d, %v: %s breaks %s: %v %v", round, tool.Classes, shown, text, found, err)
		}
	}
}

// TestKeysOfKeptResults: they are the same in another process, and change with what its caller sees of the tool's results.
func TestKeysOfKeptResults(t *testing.T) {
	t.Parallel()
	pii, money := policy.Class{Path: "classes[0]", Name: "pii", Groups: []string{"support"}}, policy.Class{Path: "classes[1]", Name: "money", Groups: []string{"support"}}
	masked, elsewhere := pii, pii
	masked.Otherwise, elsewhere.Path, elsewhere.Recorded = "mask", "classes[7]", true
	field := policy.FieldName{Path: "fields", Name: "shop.v1.Order.total", Class: "money"}
	of := func(name string, claims map[string]any, groups ...string) *identity.Identity {
		return identity.NewIdentityOf(identity.Grant{Name: name, Tools: []string{"*"}}, identity.Facts{Source: identity.SourceOAuth, Groups: groups, Claims: claims})
	}
	reads := result("r", "hide", `caller.claims.desk == "a" && result.total > 1`)
	reads.Fields = []string{"shop.v1.Order.note"}
	desk := func(desk string, at float64) map[string]any {
		return map[string]any{"desk": desk, "exp": at, "iat": at, "jti": desk}
	}
	other := result("other", "mask", "true")
	other.Tools, other.Fields = []string{"shop.elsewhere"}, []string{"shop.v1.Order.note"}
	type asked struct {
		classes []policy.Class
		fields  []policy.FieldName
		rules   []policy.Rule
		who     *identity.Identity
		linked  bool
	}
	kept := func(a asked) string {
		cat := newShop(t, a.linked)
		tool := lookup(t, cat, "shop.get_order")
		e := policy.NewEngine(nil)
		e.Replace(classified(t, a.classes, a.fields, a.rules...), cat)
		return e.View(a.who, tool).Kept()
	}
	base := asked{[]policy.Class{pii}, nil, nil, named("ann"), true}
	for name, tc := range map[string]struct {
		one, two asked
		same     bool
	}{
		"another process":               {base, base, true},
		"another caller":                {base, asked{base.classes, nil, nil, named("bob"), true}, true},
		"another place, and records":    {base, asked{[]policy.Class{elsewhere}, nil, nil, named("ann"), true}, true},
		"a rule about calls":            {base, asked{base.classes, nil, []policy.Rule{deny("d", "false", "*")}, named("ann"), true}, true},
		"a rule about another tool":     {base, asked{base.classes, nil, []policy.Rule{other}, named("ann"), true}, true},
		"descriptors that are unknown":  {base, asked{base.classes, nil, nil, named("ann"), false}, true},
		"another action":                {base, asked{[]policy.Class{masked}, nil, nil, named("ann"), true}, false},
		"another class":                 {base, asked{[]policy.Class{pii, money}, nil, nil, named("ann"), true}, false},
		"a field":                       {asked{[]policy.Class{pii, money}, nil, nil, named("ann"), true}, asked{[]policy.Class{pii, money}, []policy.FieldName{field}, nil, named("ann"), true}, false},
		"no policy":                     {base, asked{who: named("ann")}, false},
		"a caller who sees all":         {base, asked{base.classes, nil, nil, named("ann", "support"), true}, false},
		"a rule about the tool":         {base, asked{base.classes, nil, []policy.Rule{reads}, named("ann"), true}, false},
		"a claim that a rule reads":     {asked{base.classes, nil, []policy.Rule{reads}, of("ann", desk("a", 1)), true}, asked{base.classes, nil, []policy.Rule{reads}, of("ann", desk("b", 1)), true}, false},
		"the next token of the caller":  {asked{base.classes, nil, []policy.Rule{reads}, of("ann", map[string]any{"desk": "a", "exp": 1.0, "jti": "x"}), true}, asked{base.classes, nil, []policy.Rule{reads}, of("ann", map[string]any{"desk": "a", "exp": 2.0, "jti": "y"}), true}, true},
		"a claim that no rule asks for": {asked{base.classes, nil, nil, of("ann", desk("a", 1)), true}, asked{base.classes, nil, nil, of("ann", desk("b", 2)), true}, true},
	} {
		one, two := kept(tc.one), kept(tc.two)
		if (one == two) != tc.same || one == "" {
			t.Errorf("%s: %q, %q", name, one, two)
		}
	}
	if got := kept(asked{base.classes, nil, nil, named("ann", "support"), true}); got != "" {
		t.Errorf("a caller who sees everything: %q", got)
	}
}

// TestKeysOfResultsOfTakenOverCalls: without its claims, a caller is the one that it was while the policy is the same.
func TestKeysOfResultsOfTakenOverCalls(t *testing.T) {
	t.Parallel()
	cat := newShop(t, true)
	tool := lookup(t, cat, "shop.get_order")
	reads := result("r", "hide", `caller.claims.desk == "a" && result.total > 1`)
	reads.Fields = []string{"shop.v1.Order.note"}
	view := func(action string, claims map[string]any) *policy.View {
		e := policy.NewEngine(nil)
		e.Replace(classified(t, []policy.Class{{Path: "c", Name: "pii", Otherwise: action}}, nil, reads), cat)
		return e.View(identity.NewIdentityOf(identity.Grant{Name: "ann"}, identity.Facts{Source: identity.SourceOAuth, Claims: claims}), tool)
	}
	first := view("mask", map[string]any{"desk": "a"}).Kept()
	if again := view("mask", nil); again.Kept() == first || again.AsKept(first) != first {
		t.Errorf("%q, then %q as %q", first, again.Kept(), again.AsKept(first))
	}
	if changed := view("hide", nil); changed.AsKept(first) != changed.Kept() || changed.AsKept("") != changed.Kept() {
		t.Errorf("%q, then %q", first, changed.AsKept(first))
	}
	var all *policy.View
	if all.Kept() != "" || all.AsKept(first) != "" {
		t.Errorf("%q", all.AsKept(first))
	}
}
