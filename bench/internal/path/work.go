// SPDX-License-Identifier: Apache-2.0

package path

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// Work is what every call of a session asks for, in all its forms: a unary RPC that gives back the nonce that it gets,
// and the tool that a sidecar makes of it. It is safe for concurrent use.
type Work interface {
	// Tool returns the tool's names, canonically and in MCP.
	Tool() (canonical, mcp string)
	// Method is the RPC's full name, with a slash before it.
	Method() string
	// Arguments returns what is before and after the nonce in the JSON of the arguments.
	Arguments() (before, after []byte)
	// Request is the same as a message, Response an empty answer.
	Request(nonce []byte) proto.Message
	Response() proto.Message
	// Check tells whether got is the answer to that nonce; whole asks to compare all of it.
	Check(nonce []byte, got proto.Message, whole bool) bool
	// CheckJSON tells whether a result's JSON is the answer to that nonce, whole.
	CheckJSON(nonce, doc []byte) bool
}

// ArgumentsSize is how many bytes of JSON the arguments of a call are.
func ArgumentsSize(w Work) int {
	_, nonce := new(counter).next()
	before, after := w.Arguments()
	return len(before) + len(nonce) + len(after)
}

// The 64-bit numbers of every call of the demo's Echo. Doubles cannot hold them, so that an answer that went through
// doubles is found out.
const (
	signed   = math.MinInt64 + 1
	unsigned = math.MaxUint64
)

// Echo is the demo's Lab.Echo with a payload of bytes, the same in every call.
func Echo(payload []byte) Work { return echo(payload) }

type echo []byte

func (echo) Tool() (canonical, mcp string) { return "lab.echo", "lab_echo" }
func (echo) Method() string                { return peer.EchoMethod }

func (e echo) Arguments() (before, after []byte) {
	before = []byte(`{"nonce":"`)
	after = []byte(`"`)
	after = append(after, `,"signed":"`...)
	after = strconv.AppendInt(after, signed, 10)
	after = append(after, `","unsigned":"`...)
	after = strconv.AppendUint(after, unsigned, 10)
	after = append(after, `","payload":"`...)
	after = base64.StdEncoding.AppendEncode(after, e)
	return before, append(after, `"}`...)
}

func (e echo) Request(nonce []byte) proto.Message {
	return &demov1.EchoRequest{Nonce: string(nonce), Signed: signed, Unsigned: unsigned, Payload: e}
}

func (echo) Response() proto.Message { return new(demov1.EchoResponse) }

// Check always compares all: there is nothing but bytes.
func (e echo) Check(nonce []byte, got proto.Message, _ bool) bool {
	m, ok := got.(*demov1.EchoResponse)
	return ok && m.GetNonce() == string(nonce) && m.GetSigned() == signed && m.GetUnsigned() == unsigned && bytes.Equal(m.GetPayload(), e)
}

func (e echo) CheckJSON(nonce, doc []byte) bool {
	var got struct {
		Nonce    string `json:"nonce"`
		Signed   exact  `json:"signed"`
		Unsigned exact  `json:"unsigned"`
		Payload  []byte `json:"payload"`
	}
	return json.Unmarshal(doc, &got) == nil && got.Nonce == string(nonce) && got.Signed == exact(strconv.FormatInt(signed, 10)) &&
		got.Unsigned == exact(strconv.FormatUint(unsigned, 10)) && bytes.Equal(got.Payload, e)
}

// exact is a 64-bit number, which JSON may show as a string or as a number.
type exact string

// UnmarshalJSON keeps the digits.
func (e *exact) UnmarshalJSON(raw []byte) error {
	*e = exact(bytes.Trim(raw, `"`))
	return nil
}
