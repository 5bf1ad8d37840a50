// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// BenchmarkKernel compares the plan with protojson and messages without generated code, with protojson and generated
// code, and with a mere look at whether the same text is JSON, in both directions.
func BenchmarkKernel(b *testing.B) {
	for _, size := range []struct {
		name string
		msg  proto.Message
	}{{"small", plainOrder()}, {"medium", orders(10)}, {"large", orders(615)}} {
		md := withoutOptions(b, size.msg.ProtoReflect().Descriptor())
		m, err := transcode.Compile(md, transcode.Options{})
		if err != nil {
			b.Fatal(err)
		}
		wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(size.msg)
		if err != nil {
			b.Fatal(err)
		}
		doc, err := m.ToJSON(nil, wire)
		if err != nil {
			b.Fatal(err)
		}
		if back, ok := m.ReadByPlan(nil, doc); !ok || len(back) != len(wire) {
			b.Fatalf("the plan reads %d of %d bytes", len(back), len(wire))
		}
		measure := func(name string, f func() error) {
			b.Run(fmt.Sprintf("%s/size=%s", name, size.name), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(doc)))
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		var out []byte
		measure("ToWire/by=plan", func() (err error) { out, err = m.ToWire(out[:0], doc); return err })
		measure("ToWire/by=dynamic", func() (err error) {
			msg := dynamicpb.NewMessage(md)
			if err := protojson.Unmarshal(doc, msg); err != nil {
				return err
			}
			out, err = proto.MarshalOptions{}.MarshalAppend(out[:0], msg)
			return err
		})
		measure("ToWire/by=generated", func() (err error) {
			msg := size.msg.ProtoReflect().New().Interface()
			if err := protojson.Unmarshal(doc, msg); err != nil {
				return err
			}
			out, err = proto.MarshalOptions{}.MarshalAppend(out[:0], msg)
			return err
		})
		measure("ToWire/by=valid", func() error {
			if !json.Valid(doc) {
				return fmt.Errorf("not JSON")
			}
			return nil
		})
		measure("ToJSON/by=plan", func() (err error) { out, err = m.ToJSON(out[:0], wire); return err })
		measure("ToJSON/by=dynamic", func() (err error) {
			msg := dynamicpb.NewMessage(md)
			if err := proto.Unmarshal(wire, msg); err != nil {
				return err
			}
			out, err = protojson.MarshalOptions{EmitDefaultValues: true}.MarshalAppend(out[:0], msg)
			return err
		})
		measure("ToJSON/by=generated", func() (err error) {
			msg := size.msg.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(wire, msg); err != nil {
				return err
			}
			out, err = protojson.MarshalOptions{EmitDefaultValues: true}.MarshalAppend(out[:0], msg)
			return err
		})
	}
}

// plainOrder is about 170 bytes of JSON: an id and a few fields.
func plainOrder() *demov1.Order {
	return &demov1.Order{
		Id: 1<<53 + 1, Customer: "Clinic", Status: demov1.OrderStatus_ORDER_STATUS_PLACED,
		Parcels: []*demov1.Parcel{{Contents: "mangoes", WeightKg: 4, ValueCents: 1200}},
	}
}

// orders is a page of orders with all that they can hold, about 420 bytes of JSON each.
func orders(n int) *demov1.FindOrdersResponse {
	out := &demov1.FindOrdersResponse{}
	start := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	for i := range n {
		at := start.Add(time.Duration(i) * 17 * time.Minute)
		out.Orders = append(out.Orders, &demov1.Order{
			Id: 9_007_199_254_740_993 + uint64(i), Customer: fmt.Sprintf("Customer number %d of the atoll", i),
			Destination: &demov1.Destination{Place: &demov1.Destination_Position{Position: &demov1.Position{Latitude: -17.5 + float64(i)/1000, Longitude: 177.25 + float64(i)/1000}}},
			Parcels:     []*demov1.Parcel{{Contents: "mangoes and \"soap\"", WeightKg: 4.5, ValueCents: int64(1200 + i), Fragile: true}},
			Status:      demov1.OrderStatus_ORDER_STATUS_ASSIGNED, VehicleId: wrapperspb.Int64(101), PlacedAt: timestamppb.New(at),
			ExpectedDuration: durationpb.New(90 * time.Minute), Labels: map[string]string{"priority": "high", "zone": "north"},
		})
	}
	return out
}

// withoutOptions rebuilds the file of a message and its imports without options, so that no rule takes part.
func withoutOptions(t testing.TB, md protoreflect.MessageDescriptor) protoreflect.MessageDescriptor {
	t.Helper()
	files := &protoregistry.Files{}
	var add func(fd protoreflect.FileDescriptor)
	add = func(fd protoreflect.FileDescriptor) {
		if _, err := files.FindFileByPath(fd.Path()); err == nil {
			return
		}
		for i := range fd.Imports().Len() {
			add(fd.Imports().Get(i).FileDescriptor)
		}
		file := protodesc.ToFileDescriptorProto(fd)
		stripOptions(file.GetMessageType())
		built, err := protodesc.NewFile(file, files)
		if err != nil {
			t.Fatal(err)
		}
		if err := files.RegisterFile(built); err != nil {
			t.Fatal(err)
		}
	}
	add(md.ParentFile())
	d, err := files.FindDescriptorByName(md.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

func stripOptions(messages []*descriptorpb.DescriptorProto) {
	for _, m := range messages {
		if !m.GetOptions().GetMapEntry() {
			m.Options = nil
		}
		for _, f := range m.GetField() {
			f.Options = nil
		}
		for _, o := range m.GetOneofDecl() {
			o.Options = nil
		}
		stripOptions(m.GetNestedType())
	}
}

// BenchmarkFilter compares the translation of an answer with that of what a filter leaves of it. One field in each line is masked.
func BenchmarkFilter(b *testing.B) {
	msg := orders(10)
	md := withoutOptions(b, msg.ProtoReflect().Descriptor())
	m, err := transcode.Compile(md, transcode.Options{})
	if err != nil {
		b.Fatal(err)
	}
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		b.Fatal(err)
	}
	for _, of := range []struct {
		name string
		how  transcode.Treatment
	}{{"none", transcode.Treatment{}}, {"mask", transcode.Treatment{Action: transcode.Mask}}, {"hide", transcode.Treatment{Action: transcode.Hide}}} {
		filter := transcode.NewFilter(md, transcode.FilterOptions{Of: func(_ string, fd protoreflect.FieldDescriptor) transcode.Treatment {
			if fd.Name() == "customer" {
				return of.how
			}
			return transcode.Treatment{}
		}})
		if (filter == nil) != (of.name == "none") {
			b.Fatal("the filter of nothing is not nil")
		}
		b.Run("treats="+of.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(wire)))
			var out, left []byte
			for b.Loop() {
				shown, err := filter.Apply(left[:0], wire)
				if err != nil {
					b.Fatal(err)
				}
				if filter != nil {
					left = shown
				}
				if out, err = m.ToJSON(out[:0], shown); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
