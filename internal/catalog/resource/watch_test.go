// SPDX-License-Identifier: Apache-2.0

package resource_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
)

// radio has methods of every kind whose request has fields of every kind.
const radio = `{
	"name": "radio.proto", "package": "radio", "syntax": "proto3",
	"messageType": [{"name": "Request", "field": [
		{"name": "station_name", "number": 1, "type": "TYPE_STRING", "label": "LABEL_OPTIONAL", "jsonName": "stationName"},
		{"name": "loud", "number": 2, "type": "TYPE_BOOL", "label": "LABEL_OPTIONAL", "jsonName": "loud"},
		{"name": "size", "number": 3, "type": "TYPE_INT32", "label": "LABEL_OPTIONAL", "jsonName": "size"},
		{"name": "id", "number": 4, "type": "TYPE_UINT64", "label": "LABEL_OPTIONAL", "jsonName": "id"},
		{"name": "band", "number": 5, "type": "TYPE_ENUM", "typeName": ".radio.Band", "label": "LABEL_OPTIONAL", "jsonName": "band"},
		{"name": "frequency", "number": 6, "type": "TYPE_DOUBLE", "label": "LABEL_OPTIONAL", "jsonName": "a b"},
		{"name": "raw", "number": 7, "type": "TYPE_BYTES", "label": "LABEL_OPTIONAL", "jsonName": "raw"},
		{"name": "all", "number": 8, "type": "TYPE_STRING", "label": "LABEL_REPEATED", "jsonName": "all"},
		{"name": "more", "number": 9, "type": "TYPE_MESSAGE", "typeName": ".radio.Song", "label": "LABEL_OPTIONAL", "jsonName": "more"}
	]}, {"name": "Song"}],
	"enumType": [{"name": "Band", "value": [{"name": "FM", "number": 0}, {"name": "AM", "number": 1}]}],
	"service": [{"name": "Radio", "method": [
		{"name": "Listen", "inputType": ".radio.Request", "outputType": ".radio.Song", "serverStreaming": true},
		{"name": "Hum", "inputType": ".radio.Song", "outputType": ".radio.Song", "serverStreaming": true},
		{"name": "Get", "inputType": ".radio.Request", "outputType": ".radio.Song"},
		{"name": "Sing", "inputType": ".radio.Request", "outputType": ".radio.Song", "clientStreaming": true},
		{"name": "Duet", "inputType": ".radio.Request", "outputType": ".radio.Song", "clientStreaming": true, "serverStreaming": true}
	]}]
}`

func radioMethod(t testing.TB, name string) protoreflect.MethodDescriptor {
	t.Helper()
	fdp := new(descriptorpb.FileDescriptorProto)
	if err := protojson.Unmarshal([]byte(radio), fdp); err != nil {
		t.Fatal(err)
	}
	file, err := protodesc.NewFile(fdp, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Services().Get(0).Methods().ByName(protoreflect.Name(name))
}

// accepts takes what the request message takes.
func accepts(md protoreflect.MethodDescriptor) func([]byte) error {
	return func(arguments []byte) error { return protojson.Unmarshal(arguments, dynamicpb.NewMessage(md.Input())) }
}

func radioWatch(t testing.TB, name string, change ...func(*resource.RPC)) (*resource.Method, error) {
	t.Helper()
	rpc := resource.RPC{Procedure: "/radio.Radio/" + name, Descriptor: radioMethod(t, name), Name: "radio." + strings.ToLower(name), Title: "T", Description: "D"}
	for _, c := range change {
		c(&rpc)
	}
	return resource.NewWatch(rpc, accepts(rpc.Descriptor))
}

func TestOnlyAServerStreamIsAWatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, want string
		change       func(*resource.RPC)
	}{
		{"Get", "only a server-streaming RPC", nil},
		{"Sing", "only a server-streaming RPC", nil},
		{"Duet", "only a server-streaming RPC", nil},
		{"Listen", "destructive", func(r *resource.RPC) { r.Destructive = true }},
		{"Listen", "one document", func(r *resource.RPC) { r.HTTPBody = true }},
	} {
		change := func(*resource.RPC) {}
		if tt.change != nil {
			change = tt.change
		}
		if _, err := radioWatch(t, tt.method, change); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.method, err, tt.want)
		}
	}
	hum := radioMethod(t, "Hum")
	if _, err := resource.NewWatch(resource.RPC{Descriptor: hum, Name: "radio.hum"}, func([]byte) error { return errors.New("no") }); err == nil || !strings.Contains(err.Error(), "invalid when it is empty") {
		t.Errorf("a request that no URI can have: %v", err)
	}
}

func TestAWatchIsAResourceAndATemplate(t *testing.T) {
	t.Parallel()
	hum, err := radioWatch(t, "Hum")
	if err != nil {
		t.Fatal(err)
	}
	if hum.Resource().GetUri() != "outrigger://watches/radio.hum" || hum.Template() != nil {
		t.Errorf("%v %v", hum.Resource(), hum.Template())
	}
	md := radioMethod(t, "Listen")
	tuned, err := resource.NewWatch(resource.RPC{Procedure: "/radio.Radio/Listen", Descriptor: md, Name: "radio.listen"}, func([]byte) error { return errors.New("no") })
	if err != nil {
		t.Fatal(err)
	}
	const template = "outrigger://watches/radio.listen{?stationName,loud,size,id,band,frequency}"
	if tuned.Resource() != nil || tuned.Template().GetUriTemplate() != template || tuned.URITemplate() != template {
		t.Errorf("%v %v", tuned.Resource(), tuned.Template())
	}
	set, ambiguous := resource.NewSet([]*resource.Method{hum, tuned})
	if len(ambiguous) > 0 || !set.HasWatches() || len(set.Fixed()) != 1 || len(set.Templates()) != 1 {
		t.Errorf("%v %v %v", ambiguous, set.Fixed(), set.Templates())
	}
	if m, _, ok := set.Match("outrigger://watches/radio.listen?anything"); !ok || m != tuned {
		t.Error("a watch is not found by its URI")
	}
	if _, _, ok := set.Match("outrigger://watches/radio.listen/"); ok {
		t.Error("another URI is one of the watch")
	}
	none := set.Only(func(m *resource.Method) bool { return m != tuned })
	if _, _, ok := none.Match("outrigger://watches/radio.listen"); ok || len(none.Fixed()) != 1 || none.Fingerprint() == set.Fingerprint() {
		t.Error("a view has what was left out")
	}
}

func TestAQueryIsARequest(t *testing.T) {
	t.Parallel()
	m, err := radioWatch(t, "Listen")
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"":                                `{}`,
		"?stationName=a%20b%26%C3%A4":     `{"stationName":"a b&ä"}`,
		"?stationName=":                   `{"stationName":""}`,
		"?stationName=a+b=c?d/e":          `{"stationName":"a+b=c?d/e"}`,
		"?loud=true&size=-3":              `{"loud":true,"size":-3}`,
		"?size=-3&loud=true":              `{"loud":true,"size":-3}`,
		"?id=18446744073709551615":        `{"id":"18446744073709551615"}`,
		"?band=AM&frequency=1.5e2":        `{"band":"AM","a b":"1.5e2"}`,
		"?":                               "not name=value",
		"?loud":                           "not name=value",
		"?loud=true&":                     "not name=value",
		"?loud=true&loud=true":            "twice",
		"?loud=yes":                       "true or false",
		"?loud=":                          "true or false",
		"?size=03":                        "an integer",
		"?size=2147483648":                "an integer",
		"?id=-1":                          "an integer",
		"?band=1":                         "one of",
		"?frequency=0x1p3":                "is a number",
		"?frequency=x":                    "is a number",
		"?station_name=a":                 "no query parameter",
		"?raw=YQ":                         "no query parameter",
		"?all=a":                          "no query parameter",
		"?more=a":                         "no query parameter",
		"?%6Coud=true":                    "no query parameter",
		"?stationName=%":                  "percent-encoded",
		"?stationName=%zz":                "percent-encoded",
		"?stationName=%FF":                "percent-encoded",
		"?stationName=ä":                  "percent-encoded",
		"?stationName=a#b":                "percent-encoded",
		"?stationName=a b":                "percent-encoded",
		"?stationName=" + string(rune(0)): "percent-encoded",
	} {
		got, err := m.WatchRequest("outrigger://watches/radio.listen" + query)
		if strings.HasPrefix(want, "{") {
			if err != nil || string(got) != want {
				t.Errorf("%s: %s %v, want %s", query, got, err, want)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s %v, want %q", query, got, err, want)
		}
	}
	for _, uri := range []string{"", "outrigger://watches/radio.hum", "outrigger://watches/radio.listen/", "OUTRIGGER://watches/radio.listen"} {
		if _, err := m.WatchRequest(uri); err == nil {
			t.Errorf("%q is taken", uri)
		}
	}
}

// FuzzWatchRequest holds that a query is refused, or is a request that the message takes, whatever it says.
func FuzzWatchRequest(f *testing.F) {
	for _, seed := range []string{"", "stationName=a%20b", "loud=true&size=-3", "id=1&id=2", "frequency=1e400", "frequency=NaN", "band=AM", "size=%31", "a%20b=1", "=&="} {
		f.Add(seed)
	}
	m, err := radioWatch(f, "Listen")
	if err != nil {
		f.Fatal(err)
	}
	input := radioMethod(f, "Listen").Input()
	f.Fuzz(func(t *testing.T, query string) {
		request, err := m.WatchRequest("outrigger://watches/radio.listen?" + query)
		if err != nil {
			return
		}
		message := dynamicpb.NewMessage(input)
		if err := protojson.Unmarshal(request, message); err != nil && !strings.Contains(query, "frequency=") {
			t.Errorf("%q is %s: %v", query, request, err)
		}
		again, err := m.WatchRequest("outrigger://watches/radio.listen?" + query)
		if err != nil || string(again) != string(request) {
			t.Errorf("%q is %s, and then %s %v", query, request, again, err)
		}
		_ = proto.Size(message)
	})
}
