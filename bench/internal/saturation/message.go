// SPDX-License-Identifier: Apache-2.0

package saturation

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// mcpMeta is what a client of MCP 2026-07-28 sends with every call.
const (
	mcpVersion = "2026-07-28"
	mcpMeta    = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + mcpVersion + `","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`
)

// toolCall is a call of a tool over /mcp. arguments follow the nonce, and begin with a comma where there are any.
func toolCall(addr, tool, token, arguments string) *message {
	m := &message{
		addr: addr, hasID: true,
		beforeID:    []byte(`{"jsonrpc":"2.0","id":"`),
		beforeNonce: []byte(`","method":"tools/call","params":{"name":"` + tool + `","arguments":{"nonce":"`),
		afterNonce:  []byte(`"` + arguments + `}` + mcpMeta + `}}`),
	}
	m.finish("/mcp", mcpHeaders(tool, token))
	return m
}

// mcpHeaders are those of a call of a tool.
func mcpHeaders(tool, token string) string {
	headers := "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: " + mcpVersion +
		"\r\nMcp-Method: tools/call\r\nMcp-Name: " + tool + "\r\n"
	if token != "" {
		headers += "Authorization: Bearer " + token + "\r\n"
	}
	return headers
}

// echoCall is a call of the demo's Echo with so many bytes of payload.
func echoCall(addr, token string, payload int) *message {
	return toolCall(addr, "lab_echo", token, `,"signed":"-9223372036854775807","unsigned":"18446744073709551615","payload":"`+
		string(bytes.Repeat([]byte("QUFB"), payload/3))+`"`)
}

// proxyCall is the same message for the empty proxy, as bytes of Protobuf.
func proxyCall(addr string, payload int) (*message, error) {
	return proxyMessage(addr, "/", &demov1.EchoRequest{
		Nonce: mark, Signed: -9223372036854775807, Unsigned: 18446744073709551615, Payload: bytes.Repeat([]byte("AAA"), payload/3),
	})
}

// proxySleep is a call of the slow tool for the empty proxy.
func proxySleep(addr string, d time.Duration) (*message, error) {
	return proxyMessage(addr, peer.SleepMethod, &demov1.SleepRequest{Duration: durationpb.New(d), Nonce: mark})
}

// mark is where the nonce goes.
const mark = "NONCENONCENONCENONCENONC"

// proxyMessage is a message of Protobuf, cut where its nonce is.
func proxyMessage(addr, path string, of proto.Message) (*message, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("the proxy's message: %w", err)
	}
	before, after, _ := bytes.Cut(raw, []byte(mark))
	m := &message{addr: addr, beforeNonce: before, afterNonce: after}
	m.finish(path, "Content-Type: application/octet-stream\r\n")
	return m, nil
}

// finish writes the head.
func (m *message) finish(path, headers string) {
	length := len(m.beforeID) + len(m.beforeNonce) + nonceLength + len(m.afterNonce)
	if m.hasID {
		length += idLength
	}
	m.head = []byte("POST " + path + " HTTP/1.1\r\nHost: " + m.addr + "\r\n" + headers + "Content-Length: " + strconv.Itoa(length) + "\r\n\r\n")
}
