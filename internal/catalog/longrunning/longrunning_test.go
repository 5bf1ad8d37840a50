// SPDX-License-Identifier: Apache-2.0

package longrunning_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/longrunning"
)

// Parse reads what the generated types read.
func TestParseIsAsTheGeneratedTypesAre(t *testing.T) {
	t.Parallel()
	held := &anypb.Any{TypeUrl: "type.googleapis.com/a.B", Value: []byte{8, 1}}
	for name, op := range map[string]*longrunningpb.Operation{
		"nothing":  {},
		"running":  {Name: "operations/1", Metadata: held},
		"response": {Name: "operations/1", Done: true, Result: &longrunningpb.Operation_Response{Response: held}},
		"error": {Name: "operations/1", Metadata: held, Done: true, Result: &longrunningpb.Operation_Error{
			Error: &status.Status{Code: 5, Message: "gone", Details: []*anypb.Any{held}},
		}},
	} {
		wire, err := proto.Marshal(op)
		if err != nil {
			t.Fatal(err)
		}
		got, err := longrunning.Parse(wire)
		want := &longrunning.Operation{Name: op.GetName(), Metadata: op.GetMetadata(), Done: op.GetDone(), Error: op.GetError(), Response: op.GetResponse()}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, torn := range []string{"\x0a", "\x0a\x05ab", "\x0a\x01\xff", "\x12\x01\x08", "\x22\x01\x08"} {
		if got, err := longrunning.Parse([]byte(torn)); err == nil {
			t.Errorf("%q is read as %+v", torn, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("\x0a\x01a\x18\x01"))
	f.Add([]byte("\x22\x02\x08\x05\x2a\x03\x0a\x01a"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		got, err := longrunning.Parse(wire)
		var want longrunningpb.Operation
		if proto.Unmarshal(wire, &want) != nil {
			return // what it refuses may be read here: it looks at what it skips
		}
		if err != nil {
			t.Fatalf("the generated type reads it: %v", err)
		}
		if got.Name != want.GetName() || got.Done != want.GetDone() || !proto.Equal(got.Response, want.GetResponse()) || !proto.Equal(got.Error, want.GetError()) || !proto.Equal(got.Metadata, want.GetMetadata()) {
			t.Fatalf("got %+v, want %v", got, &want)
		}
	})
}

func TestRequests(t *testing.T) {
	t.Parallel()
	var get longrunningpb.GetOperationRequest
	if err := proto.Unmarshal(longrunning.NameRequest("operations/1"), &get); err != nil || get.GetName() != "operations/1" {
		t.Errorf("%v: %v", &get, err)
	}
	var wait longrunningpb.WaitOperationRequest
	if err := proto.Unmarshal(longrunning.WaitRequest("operations/1", 1500*time.Millisecond), &wait); err != nil || wait.GetName() != "operations/1" || wait.GetTimeout().AsDuration() != 1500*time.Millisecond {
		t.Errorf("%v: %v", &wait, err)
	}
}

func handle(name, tool string) longrunning.Handle {
	return longrunning.Handle{Name: name, Tool: tool, Created: time.UnixMilli(1_800_000_000_123)}
}

func TestHandles(t *testing.T) {
	t.Parallel()
	for _, h := range []longrunning.Handle{handle("operations/1", "a.b"), handle(strings.Repeat("n", longrunning.MaxName), strings.Repeat("t", 128))} {
		raw, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := longrunning.ParseHandle(raw)
		if err != nil || got.Name != h.Name || got.Tool != h.Tool || !got.Created.Equal(h.Created) {
			t.Errorf("%+v comes back as %+v, %v", h, got, err)
		}
		if later, err := longrunning.ParseHandle(append(raw, 0x7a, 1, 'x')); err != nil || later.Name != h.Name {
			t.Errorf("with a field of a later version: %+v, %v", later, err)
		}
		for n := range len(raw) - 1 {
			if got, err := longrunning.ParseHandle(raw[:n]); err == nil && got.Created.Equal(h.Created) {
				t.Errorf("%d of %d bytes are a handle", n, len(raw))
			}
		}
		if got, err := longrunning.ParseHandle(append([]byte{2}, raw[1:]...)); !errors.Is(err, longrunning.ErrNoHandle) {
			t.Errorf("of another version: %+v, %v", got, err)
		}
	}
	if _, err := handle(strings.Repeat("n", longrunning.MaxName+1), "a.b").Encode(); err == nil || !strings.Contains(err.Error(), "limit is 1024") {
		t.Errorf("a name over the limit: %v", err)
	}
}

// How much of its result the call wanted goes with the handle. One of a call that said nothing is as in earlier releases.
func TestHandlesSayHowMuchIsWanted(t *testing.T) {
	t.Parallel()
	plain := handle("operations/1", "a.b")
	raw, err := plain.Encode()
	if want := "\x01\x0a\x0coperations/1\x12\x03a.b\x18\xfb\xa0\xf1\xc2\xb1\x34"; err != nil || string(raw) != want {
		t.Fatalf("%v: %q, want %q", err, raw, want)
	}
	for _, tc := range []longrunning.Handle{
		{Fields: "name,seconds"}, {Budget: 300}, {ForModel: true}, {IsMaskLost: true}, {Fields: "a", Budget: 1 << 27, ForModel: true, IsMaskLost: true},
	} {
		tc.Name, tc.Tool, tc.Created = plain.Name, plain.Tool, plain.Created
		raw, err := tc.Encode()
		got, parsed := longrunning.ParseHandle(raw)
		if err != nil || parsed != nil || got != tc {
			t.Errorf("%+v comes back as %+v: %v, %v", tc, got, err, parsed)
		}
	}
	if got, err := longrunning.ParseHandle(append(raw, 0x22, 1, 0xff)); !errors.Is(err, longrunning.ErrNoHandle) {
		t.Errorf("a mask that is not UTF-8: %+v, %v", got, err)
	}
	if got, err := longrunning.ParseHandle(append(raw, 0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)); err != nil || got.Budget != 1<<30 {
		t.Errorf("a budget without bounds: %+v, %v", got, err)
	}
}

func FuzzParseHandle(f *testing.F) {
	raw, err := handle("operations/1", "a.b").Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := longrunning.ParseHandle(raw)
		if err != nil {
			if h != (longrunning.Handle{}) || !errors.Is(err, longrunning.ErrNoHandle) {
				t.Fatalf("%+v with %v", h, err)
			}
			return
		}
		again, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if same, err := longrunning.ParseHandle(again); err != nil || same.Name != h.Name || same.Tool != h.Tool || !same.Created.Equal(h.Created) {
			t.Fatalf("%+v comes back as %+v, %v", h, same, err)
		}
	})
}

func TestPace(t *testing.T) {
	t.Parallel()
	var p longrunning.Pace
	var got []time.Duration
	for range 8 {
		got = append(got, p.Next()/time.Millisecond)
	}
	if diff := cmp.Diff([]time.Duration{250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000}, got); diff != "" {
		t.Errorf("milliseconds (-want +got):\n%s", diff)
	}
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: longrunning.MinInterval, 0: longrunning.MinInterval, 8 * time.Second: time.Second, 24 * time.Hour: longrunning.MaxInterval,
	} {
		if got := longrunning.IntervalAt(age); got != want {
			t.Errorf("at the age of %v: %v, want %v", age, got, want)
		}
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	for metadata, want := range map[string]longrunning.Report{
		``:   {},
		`{}`: {},
		`{"statusMessage":"copying","message":"other"}`:         {Text: "copying"},
		`{"message":"copying","progressPercent":40}`:            {Text: "copying", Percent: 40, HasPercent: true},
		`{"status_detail":"copying","percent_complete":"7"}`:    {Text: "copying", Percent: 7, HasPercent: true},
		`{"verb":"create","progress":{"progressPercent":12.5}}`: {Text: `{"verb":"create","progress":{"progressPercent":12.5}}`, Percent: 12.5, HasPercent: true},
		`{"state":"RUNNING","progress":101}`:                    {Text: `{"state":"RUNNING","progress":101}`},
		`{"progress":"NaN"}`:                                    {Text: `{"progress":"NaN"}`},
		`["not an object"]`:                                     {Text: `["not an object"]`},
	} {
		if got := longrunning.ReportOf([]byte(metadata)); got != want {
			t.Errorf("%s: got %+v, want %+v", metadata, got, want)
		}
	}
	long := longrunning.ReportOf([]byte(`{"message":"` + strings.Repeat("ä", 5000) + `"}`)).Text
	if len(long) > 1024 || !utf8.ValidString(long) || !strings.HasSuffix(long, "...") {
		t.Errorf("a long text has %d bytes", len(long))
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	for want, got := range map[string][]byte{
		`{"done":false}`: longrunning.AppendPending(nil, "", longrunning.Report{}, nil),
		`{"done":false,"handle":"h","status_message":"a\"b","progress_percent":0.5,"metadata":{}}`: longrunning.AppendPending(nil, "h",
			longrunning.Report{Text: `a"b`, Percent: 0.5, HasPercent: true}, []byte("{}")),
		`{"done":true,"response":{}}`:            longrunning.AppendDone(nil, []byte("{}")),
		`{"cancel_requested":true,"handle":"h"}`: longrunning.AppendCancelRequested(nil, "h"),
		`{"a":1}`:                                longrunning.AppendMember(nil, "a", []byte("1")),
	} {
		if !bytes.Equal(got, []byte(want)) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Append writes what the generated types read.
func TestAppendIsAsTheGeneratedTypesAre(t *testing.T) {
	t.Parallel()
	held := &anypb.Any{TypeUrl: "type.googleapis.com/a.B", Value: []byte{8, 1}}
	for _, want := range []*longrunningpb.Operation{
		{}, {Name: "operations/1", Metadata: held}, {Name: "operations/1", Done: true, Result: &longrunningpb.Operation_Response{Response: held}},
		{Done: true, Result: &longrunningpb.Operation_Error{Error: &status.Status{Code: 5, Message: "gone", Details: []*anypb.Any{held}}}},
	} {
		op := longrunning.Operation{Name: want.GetName(), Metadata: want.GetMetadata(), Done: want.GetDone(), Error: want.GetError(), Response: want.GetResponse()}
		wire, err := op.Append(nil)
		got := &longrunningpb.Operation{}
		if err != nil || proto.Unmarshal(wire, got) != nil || !proto.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
}
