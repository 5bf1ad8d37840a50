// SPDX-License-Identifier: Apache-2.0

package mcpschema

import (
	"errors"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// CheckMessage checks what one side puts on the wire, whatever it is. Of a result
// it sees only what all results have in common: CheckReply knows more. A batch is
// checked message by message where the revision has batches.
func (s *Schema) CheckMessage(from Direction, doc []byte) error {
	if s.revision == Revision20250326 && jsonrpc.IsBatch(doc) {
		return s.checkBatch(from, doc)
	}
	m := jsonrpc.Parse(doc, jsonrpc.ProfileMCP, jsonrpc.Limits{})
	if m.Fault != nil {
		return s.errorf("%w", m.Fault)
	}
	switch m.Kind {
	case jsonrpc.KindRequest:
		return s.checkNamed(from, "request", m.Method, s.requests, doc)
	case jsonrpc.KindNotification:
		if err := s.checkNamed(from, "notification", m.Method, s.notifications, doc); err != nil {
			return err
		}
		return s.checkSubscribed(from, &m)
	}
	if s.modern && from == FromClient {
		return s.errorf("a client sends no responses")
	}
	if m.Kind == jsonrpc.KindSuccess {
		return s.checkAnyResult(&m, doc)
	}
	return s.checkError(&m, doc)
}

func (s *Schema) checkBatch(from Direction, doc []byte) error {
	messages, err := jsonrpc.SplitBatch(doc, defaults.MaxBatchEntries, jsonrpc.Limits{})
	if err != nil {
		return s.errorf("%w", err)
	}
	var faults []error
	for _, message := range messages {
		faults = append(faults, s.CheckMessage(from, message))
	}
	return errors.Join(faults...)
}

// checkNamed checks a message by the definition of its method.
func (s *Schema) checkNamed(from Direction, kind, method string, defs [directions]map[string]string, doc []byte) error {
	if def := defs[from][method]; def != "" {
		return s.Check(def, doc)
	}
	for d := range directions {
		if defs[d][method] != "" {
			return s.errorf("the %s %q is not for the %s to send", kind, method, from)
		}
	}
	return s.errorf("unknown method %q: this revision has no such %s", method, kind)
}

// Names of members that only some eras have.
const (
	subscriptionIDKey     = "io.modelcontextprotocol/subscriptionId"
	clientCapabilitiesKey = "io.modelcontextprotocol/clientCapabilities"
	tasksExtension        = "io.modelcontextprotocol/tasks"
)

// checkSubscribed wants every change tagged: in the modern era there is no other
// place for them than a subscription's stream.
func (s *Schema) checkSubscribed(from Direction, m *jsonrpc.Message) error {
	if !s.modern || from == FromClient {
		return nil
	}
	switch m.Method {
	case "notifications/progress", "notifications/message", "notifications/cancelled":
		return nil
	}
	if subscriptionID(m.Params) == nil {
		return s.errorf("%s: params._meta lacks %s", m.Method, subscriptionIDKey)
	}
	return nil
}

// subscriptionID returns the raw id in the _meta of params or of a result, nil
// where there is none.
func subscriptionID(of []byte) []byte {
	meta, _ := jsontext.Lookup(of, "_meta")
	id, _ := jsontext.Lookup(meta, subscriptionIDKey)
	return id
}

// firstDef returns the first of these definitions that the revision has: the
// envelopes changed their names.
func (s *Schema) firstDef(names ...string) string {
	for _, name := range names {
		if s.defs[name] != nil {
			return name
		}
	}
	return ""
}

func (s *Schema) checkAnyResult(m *jsonrpc.Message, doc []byte) error {
	if err := s.Check(s.firstDef("JSONRPCResultResponse", "JSONRPCResponse"), doc); err != nil {
		return err
	}
	if s.modern {
		_, err := s.resultType(m.Result)
		return err
	}
	return s.checkLegacyResult(m.Result)
}

// checkLegacyResult refuses what belongs to the modern era.
func (s *Schema) checkLegacyResult(result []byte) error {
	for _, name := range []string{"resultType", "ttlMs", "cacheScope"} {
		if _, ok := jsontext.Lookup(result, name); ok {
			return s.errorf("the result has %s, which belongs to %s", name, Revision20260728)
		}
	}
	return nil
}

// Codes of errors that MCP gives its own meaning.
const (
	codeHeaderMismatch       = -32020
	codeMissingCapability    = -32021
	codeUnsupportedVersion   = -32022
	codeURLElicitationNeeded = -32042
	// JSON-RPC 2.0, section 5.1, keeps these for implementations; the modern era
	// uses its end and leaves the rest alone.
	firstServerCode, lastServerCode = -32099, -32000
)

func (s *Schema) checkError(m *jsonrpc.Message, doc []byte) error {
	if err := s.Check(s.firstDef("JSONRPCErrorResponse", "JSONRPCError"), doc); err != nil {
		return err
	}
	code := m.Error.Code
	def := ""
	switch code {
	case codeHeaderMismatch:
		def = s.firstDef("HeaderMismatchError")
	case codeMissingCapability:
		def = s.firstDef("MissingRequiredClientCapabilityError")
	case codeUnsupportedVersion:
		def = s.firstDef("UnsupportedProtocolVersionError")
	case codeURLElicitationNeeded:
		def = s.firstDef("URLElicitationRequiredError")
	}
	switch {
	case def != "":
		return s.Check(def, doc)
	case s.modern && firstServerCode <= code && code <= lastServerCode:
		return s.errorf("no server may send the error code %d", code)
	case code == 0:
		return s.errorf("an error needs a code other than 0")
	}
	return nil
}
