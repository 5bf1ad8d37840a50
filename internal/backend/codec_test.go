// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestRawCodec(t *testing.T) {
	t.Parallel()
	c := rawCodec{}
	if c.Name() != "proto" {
		t.Errorf("name %q", c.Name())
	}
	in := rawMessage("\x0a\x01x")
	wrapped := wrapperspb.String("x")
	want, err := proto.Marshal(wrapped)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Marshal(&in)
	if err != nil || !bytes.Equal(got, in) || &got[0] == &in[0] {
		t.Errorf("got %x, %v; it must be a copy", got, err)
	}
	if got, err := c.Marshal(wrapped); err != nil || !bytes.Equal(got, want) {
		t.Errorf("a Protobuf message: got %x, %v", got, err)
	}
	if _, err := c.Marshal(7); err == nil {
		t.Error("a number is accepted")
	}
	if got, err := c.MarshalAppend([]byte("head"), &in); err != nil || string(got) != "head"+string(in) {
		t.Errorf("MarshalAppend: got %q, %v", got, err)
	}

	buffer := []byte("pooled")
	var out rawMessage
	if err := c.Unmarshal(buffer, &out); err != nil {
		t.Fatal(err)
	}
	copy(buffer, "XXXXXX")
	if string(out) != "pooled" {
		t.Errorf("the message aliases the library's buffer: %q", out)
	}
	back := new(wrapperspb.StringValue)
	if err := c.Unmarshal(want, back); err != nil || back.GetValue() != "x" {
		t.Errorf("Unmarshal of a Protobuf message: %v, %v", back, err)
	}
	if err := c.Unmarshal(want, new(int)); err == nil {
		t.Error("Unmarshal into a number is accepted")
	}
}
