// SPDX-License-Identifier: Apache-2.0

package content

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// tasksExtension is MCP's identifier of the tasks extension, which
// ClientCapabilities also has as its own field.
const tasksExtension = "io.modelcontextprotocol/tasks"

// appendCapabilities appends a ClientCapabilities object, as used in a client's
// declaration and in requiredCapabilities.
func appendCapabilities(dst []byte, c *outriggerv1.ClientCapabilities) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.object(c)
	return w.done()
}

// extensions appends the extensions, and the one of tasks where only its own field
// says so.
func (w *writer) extensions(m *member, v reflect.Value, hasTasks bool) {
	if !w.payload(m, v) {
		if hasTasks {
			w.named(m)
			w.raw(`{"` + tasksExtension + `":{}}`)
		}
		return
	}
	if w.err != nil || !hasTasks {
		return
	}
	_, raw, message := m.forms(v)
	written, _ := FreeForm(raw, message)
	if _, ok := jsontext.Lookup(written, tasksExtension); !ok {
		w.dst = w.dst[:len(w.dst)-1] // the brace
		w.member(tasksExtension)
		w.raw("{}}")
	}
}

// appendImplementation appends an Implementation object: clientInfo or serverInfo.
func appendImplementation(dst []byte, i *outriggerv1.Implementation) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.object(i)
	return w.done()
}

// ReadCapabilities reads a ClientCapabilities object. An elicitation that names no
// mode means forms; one that names only the URL mode does not. Extensions and
// experimental capabilities keep their bytes. Revision.Narrow restricts the
// declaration to what a legacy revision supports.
func ReadCapabilities(raw []byte) (*outriggerv1.ClientCapabilities, error) {
	var r reader
	c := new(outriggerv1.ClientCapabilities)
	r.message(r.whole(raw), c)
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// ReadImplementation reads an Implementation object, such as clientInfo.
func ReadImplementation(raw []byte) (*outriggerv1.Implementation, error) {
	var r reader
	i := new(outriggerv1.Implementation)
	r.message(r.whole(raw), i)
	if r.err != nil {
		return nil, r.err
	}
	return i, nil
}

// MetaHolder is a message with MCP's _meta in its two forms. Most messages of
// outrigger.v1 that become an object of MCP are one.
type MetaHolder interface {
	GetMeta() *structpb.Struct
	GetMetaJson() []byte
}

// AppendMeta appends one object: the _meta of a message, followed by the members that
// the edge owns, which replace members of the same name. The owned members are trusted
// compact JSON without enclosing braces, separated by commas, such as AppendResultMeta
// appends. from may be nil, and owned may be empty. No value is decoded. The object is
// {} if there are no members.
func AppendMeta(dst []byte, from MetaHolder, owned []byte) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	meta := w.meta(from)
	if len(meta) == 0 || len(owned) == 0 {
		return w.wholeMeta(meta, owned)
	}
	replaced := append(append(make([]byte, 0, len(owned)+2), '{'), owned...)
	replaced = append(replaced, '}')
	w.raw("{")
	for name, value := range jsontext.Members(meta) {
		if _, ok := jsontext.Lookup(replaced, name); !ok {
			w.key(name)
			w.dst = append(w.dst, value...)
		}
	}
	w.comma()
	w.dst = append(w.dst, owned...)
	w.raw("}")
	return w.done()
}

// wholeMeta appends what needs no merging.
func (w *writer) wholeMeta(meta, owned []byte) ([]byte, error) {
	if len(meta) > 0 {
		w.dst = append(w.dst, meta...)
		return w.done()
	}
	w.raw("{")
	w.dst = append(w.dst, owned...)
	w.raw("}")
	return w.done()
}

// meta returns the _meta of a message as compact JSON, nil where there is none.
func (w *writer) meta(from MetaHolder) []byte {
	if from == nil {
		return nil
	}
	text := from.GetMetaJson()
	w.enter(formName("meta_json", text))
	defer w.leave()
	meta := w.freeForm(text, from.GetMeta())
	if meta != nil && !jsontext.IsObject(meta) {
		w.fail("Make it a JSON object.")
	}
	return meta
}

// The methods of questions to a client.
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
	methodRoots  = "roots/list"
)

// AppendInputRequests appends the object "inputRequests" of MCP 2026-07-28: each
// question as {"method", "params"} under its key, sorted by key.
func AppendInputRequests(dst []byte, requests map[string]*outriggerv1.InputRequest) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.questions(requests)
	return w.done()
}

func (w *writer) questions(requests map[string]*outriggerv1.InputRequest) {
	w.enter("input_requests")
	w.raw("{")
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		request := requests[key]
		w.key(key)
		w.enter(key)
		w.raw(`{"method":"` + questionMethod(request) + `","params":`)
		w.question(request)
		w.raw("}")
		w.leave()
	}
	w.raw("}")
	w.leave()
}

// AppendInputRequest appends the params of a question to dst and returns them with the
// method of the question as a request from the server, the form that the legacy
// revisions use. A question that the revision cannot express is an *UnsupportedError.
// An elicitation by URL needs an elicitation_id in 2025-11-25: generate one if the
// backend omitted it.
func AppendInputRequest(dst []byte, request *outriggerv1.InputRequest, rev Revision) (method string, params []byte, err error) {
	w := newWriter(dst, rev)
	w.question(request)
	params, err = w.done()
	return questionMethod(request), params, err
}

func questionMethod(request *outriggerv1.InputRequest) string {
	switch request.GetRequest().(type) {
	case *outriggerv1.InputRequest_Elicitation:
		return methodElicit
	case *outriggerv1.InputRequest_Sampling:
		return methodSample
	case *outriggerv1.InputRequest_ListRoots:
		return methodRoots
	default:
		return ""
	}
}

// question appends the params of a question.
func (w *writer) question(request *outriggerv1.InputRequest) {
	w.raw("{")
	switch q := request.GetRequest().(type) {
	case *outriggerv1.InputRequest_Elicitation:
		w.enter("elicitation")
		w.elicitation(q.Elicitation)
		w.leave()
	case *outriggerv1.InputRequest_Sampling:
		w.enter("sampling")
		w.sampling(q.Sampling)
		w.leave()
	case *outriggerv1.InputRequest_ListRoots:
		w.enter("list_roots")
		w.members(q.ListRoots)
		w.leave()
	default:
		w.fail("Set what is asked.")
	}
	w.raw("}")
}

func (w *writer) elicitation(e *outriggerv1.Elicitation) {
	if !w.rev.hasElicitation() {
		w.unsupported("elicitation")
	}
	p := planOf(e)
	v := p.at(reflect.ValueOf(e))
	switch mode := e.GetMode().(type) {
	case *outriggerv1.Elicitation_Form:
		if w.rev.hasModes() {
			w.raw(`"mode":"form"`)
		}
		w.write(p.field("message"), v)
		w.enter("form")
		w.requestedSchema(mode.Form)
		w.leave()
	case *outriggerv1.Elicitation_Url:
		if !w.rev.hasModes() {
			w.unsupported("elicitation by URL")
		}
		w.raw(`"mode":"url"`)
		w.write(p.field("message"), v)
		w.enter("url")
		w.members(mode.Url)
		if w.rev.namesElicitations() {
			w.require("elicitation_id", mode.Url.GetElicitationId())
			w.member("elicitationId")
			w.quote(mode.Url.GetElicitationId())
		}
		w.leave()
	default:
		w.fail("Set how to ask, form or url.")
	}
	w.write(p.field("meta"), v)
}

// requestedSchema appends the schema of a form, unchanged. MCP requires its type
// and its properties (ElicitRequestFormParams).
func (w *writer) requestedSchema(f *outriggerv1.ElicitationForm) {
	text := f.GetRequestedSchemaJson()
	w.enter(formName("requested_schema_json", text))
	defer w.leave()
	schema := w.freeForm(text, f.GetRequestedSchema())
	properties, _ := jsontext.Lookup(schema, "properties")
	if !isObjectSchema(schema) || !jsontext.IsObject(properties) {
		w.fail(`Give a JSON Schema with "type": "object" and "properties".`)
		return
	}
	w.member("requestedSchema")
	w.dst = append(w.dst, schema...)
}

// featureSamplingTools is what the revisions before 2025-11-25 lack.
const featureSamplingTools = "tools in sampling"

// sampling appends the members of the params of sampling/createMessage.
func (w *writer) sampling(s *outriggerv1.Sampling) {
	if usesTools(s) && !w.rev.hasSamplingTools() {
		w.unsupported(featureSamplingTools)
	}
	w.members(s)
}

// usesTools reports whether a conversation is for a client that knows tools in
// sampling.
func usesTools(s *outriggerv1.Sampling) bool {
	return len(s.GetTools()) > 0 || s.GetToolChoice() != nil ||
		slices.ContainsFunc(s.GetMessages(), func(m *outriggerv1.SamplingMessage) bool {
			return slices.ContainsFunc(m.GetContent(), func(c *outriggerv1.SamplingContent) bool {
				return c.GetToolUse() != nil || c.GetToolResult() != nil
			})
		})
}

// conversation appends the messages of a conversation. In the revisions in which a
// message is one block, each block becomes a message of the same role.
func (w *writer) conversation(m *member, messages []*outriggerv1.SamplingMessage) {
	w.checkToolUses(messages)
	w.named(m)
	w.raw("[")
	w.enter(m.field)
	for i, message := range messages {
		w.item(i)
		switch blocks := message.GetContent(); {
		case len(blocks) == 0:
			w.failIn("content", "Give at least one block.")
		case len(blocks) == 1 || w.rev.hasSamplingTools():
			w.comma()
			w.planned(m.of, reflect.ValueOf(message))
		default:
			for j := range blocks {
				w.comma()
				w.firstBlock = int32(j)
				w.object(&outriggerv1.SamplingMessage{Role: message.GetRole(), Content: blocks[j : j+1], MetaForm: message.GetMetaForm()})
			}
			w.firstBlock = 0
		}
		w.leave()
	}
	w.leave()
	w.raw("]")
}

// checkToolUses keeps what breaks MCP's rule for tools in a conversation: a message
// with tool results holds nothing else, and answers exactly the tool uses of the
// message before (MCP 2026-07-28, sampling). Clients and model providers refuse
// other conversations.
func (w *writer) checkToolUses(messages []*outriggerv1.SamplingMessage) {
	w.enter("messages")
	defer w.leave()
	if len(messages) == 0 {
		w.fail("Give at least one message.")
	}
	var open []string
	for i, m := range messages {
		var uses, results []string
		for _, c := range m.GetContent() {
			if u := c.GetToolUse(); u != nil {
				uses = append(uses, u.GetId())
			}
			if r := c.GetToolResult(); r != nil {
				results = append(results, r.GetToolUseId())
			}
		}
		w.item(i)
		if len(results) > 0 && len(results) != len(m.GetContent()) {
			w.failIn("content", "A message with tool results holds nothing else.")
		}
		slices.Sort(open)
		slices.Sort(results)
		if !slices.Equal(open, results) {
			w.failIn("content", "Answer each tool use of the message before with one tool result, and nothing else.")
		}
		w.leave()
		open = uses
	}
	if len(open) > 0 {
		w.fail("The last message uses tools; give their results behind it.")
	}
}

// AppendSkills appends the entries of skills/list as a JSON array.
func AppendSkills(dst []byte, skills []*outriggerv1.Skill) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw("[")
	w.enter("skills")
	for i, s := range skills {
		w.comma()
		w.item(i)
		w.skill(s)
		w.leave()
	}
	w.leave()
	w.raw("]")
	return w.done()
}

// AppendSkill appends one entry, as in skills/list.
func AppendSkill(dst []byte, s *outriggerv1.Skill) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.skill(s)
	return w.done()
}

// skill appends an entry. Its files are an array, or a word where they have no digests.
func (w *writer) skill(s *outriggerv1.Skill) {
	w.raw("{")
	w.members(s)
	w.member("resources")
	if s.GetDynamic() {
		w.raw(`"dynamic"`)
	} else {
		array(w, "resources", s.GetResources())
	}
	w.raw("}")
}

// AppendNewTask appends the members of a task for the response to tools/call: its
// identity and progress, without questions, result or error, which only tasks/get
// returns (extension io.modelcontextprotocol/tasks, CreateTaskResult).
func AppendNewTask(dst []byte, t *outriggerv1.Task) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.taskState(t)
	return w.done()
}

// AppendTask appends the members of a task for tasks/get and notifications/tasks. The
// result of a completed task is the given bytes: one compact JSON value, the whole
// result of tools/call, written by its era. The bytes are ignored for other tasks.
func AppendTask(dst []byte, t *outriggerv1.Task, result []byte) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.taskState(t)
	switch t.GetStatus() {
	case outriggerv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED:
		if len(t.GetInputRequests()) == 0 {
			w.failIn("input_requests", "A task that requires input says which.")
		}
		w.member("inputRequests")
		w.questions(t.GetInputRequests())
	case outriggerv1.TaskStatus_TASK_STATUS_COMPLETED:
		if len(result) == 0 {
			w.failIn("result", "A completed task has a result.")
		}
		w.member("result")
		w.dst = append(w.dst, result...)
	case outriggerv1.TaskStatus_TASK_STATUS_FAILED:
		w.member("error")
		w.enter("error")
		w.object(t.GetError())
		w.leave()
	}
	return w.done()
}

// taskState appends what every view of a task has.
func (w *writer) taskState(t *outriggerv1.Task) {
	w.members(t)
	w.member("ttlMs")
	if t.GetTtl() == nil {
		w.raw("null")
	} else {
		w.milliseconds("ttl", t.GetTtl(), 0)
	}
	if t.GetPollInterval() != nil {
		w.member("pollIntervalMs")
		w.milliseconds("poll_interval", t.GetPollInterval(), time.Millisecond-1)
	}
}

// milliseconds appends a duration in whole milliseconds, after something was added to
// round up with.
func (w *writer) milliseconds(field string, d *durationpb.Duration, extra time.Duration) {
	if d.CheckValid() != nil || d.GetSeconds() < 0 || d.GetNanos() < 0 {
		w.failIn(field, "Make it a duration that is not negative.")
		return
	}
	// Not by time.Duration, which ends at 292 years and Protobuf's at 10,000.
	w.dst = strconv.AppendInt(w.dst, d.GetSeconds()*1000+(int64(d.GetNanos())+int64(extra))/int64(time.Millisecond), 10)
}

// ReadProgressToken reads a progressToken with its JSON type: a string, or an
// integer of any size.
func ReadProgressToken(raw []byte) (*outriggerv1.Id, error) {
	var r reader
	most := compiled().token.MaxBytes
	raw = jsontext.Trim(raw)
	if text, ok := jsontext.Text(raw); ok {
		if len(text) > most {
			r.fail("Make it at most %d bytes long.", most)
			return nil, r.err
		}
		return &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: text}}, nil
	}
	if n, ok := jsontext.Int64(raw); ok {
		return &outriggerv1.Id{Kind: &outriggerv1.Id_Integer{Integer: n}}, nil
	}
	switch {
	case !jsontext.IsInteger(raw):
		r.fail("Make it a string or an integer, not %s.", kindOf(raw))
	case len(raw) > most:
		r.fail("Make it at most %d bytes long.", most)
	default:
		return &outriggerv1.Id{Kind: &outriggerv1.Id_BigInteger{BigInteger: string(raw)}}, nil
	}
	return nil, r.err
}

// appendID appends a request id or a progress token with its JSON type.
func appendID(dst []byte, id *outriggerv1.Id) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	switch kind := id.GetKind().(type) {
	case *outriggerv1.Id_Text:
		w.quote(kind.Text)
	case *outriggerv1.Id_Integer:
		w.dst = strconv.AppendInt(w.dst, kind.Integer, 10)
	case *outriggerv1.Id_BigInteger:
		digits := []byte(kind.BigInteger)
		if !jsontext.IsInteger(digits) || jsonrpc.Check(digits, jsonrpc.Limits{}) != nil {
			w.failIn("big_integer", "Give decimal digits without leading zeros, behind a minus sign where it is negative.")
		}
		w.raw(kind.BigInteger)
	default:
		w.fail("Set its value.")
	}
	return w.done()
}

// appendTool appends a tool of a backend as an entry of tools/list, under its MCP name.
// The owned members go into its _meta as in AppendMeta; they may be empty.
func appendTool(dst []byte, t *outriggerv1.Tool, owned []byte, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	w.tool(t, owned)
	return w.done()
}

// tool appends a tool, whose _meta has owned members, too.
func (w *writer) tool(t *outriggerv1.Tool, owned []byte) {
	p := planOf(t)
	w.raw("{")
	for _, m := range p.members {
		if m.name != "_meta" {
			w.write(m, p.at(reflect.ValueOf(t)))
		}
	}
	if meta := w.meta(t); len(meta) > 0 || len(owned) > 0 {
		w.member("_meta")
		merged, err := AppendMeta(w.dst, t, owned)
		if err == nil { // otherwise meta has kept it, with its path
			w.dst = merged
		}
	}
	w.raw("}")
}

// toolSchema appends the schema of the arguments, whose root must be an object's, or
// that of the data, where the tool has one that the revision understands.
func (w *writer) toolSchema(m *member, v reflect.Value) {
	field, raw, message := m.forms(v)
	w.enter(field)
	defer w.leave()
	schema := w.freeForm(raw, message)
	isOfObject := isObjectSchema(schema)
	switch {
	case m.kind == kindInputSchema && !isOfObject:
		w.fail(`Give a JSON Schema with "type": "object" at its root.`)
	case schema == nil:
	case !jsontext.IsObject(schema):
		w.fail("Give a JSON Schema that is an object.")
	case w.rev.isModern():
		w.named(m)
		w.dst = append(w.dst, schema...)
	case m.kind == kindInputSchema, w.rev.hasStructuredContent() && isOfObject:
		w.named(m)
		w.dst = AppendLegacySchema(w.dst, schema)
	}
}

// isObjectSchema reports whether a schema says that its instances are objects, in
// the one way that every revision understands.
func isObjectSchema(schema []byte) bool {
	kind, _ := jsontext.Lookup(schema, "type")
	text, ok := jsontext.Text(kind)
	return ok && text == "object"
}

// AppendLegacySchema appends the schema of a tool's input or output, a JSON object, in
// the form of the legacy revisions. They require the properties at its root to be
// objects, and clients refuse a whole list because of one that is not. A boolean is
// replaced by the equivalent object.
func AppendLegacySchema(dst, schema []byte) []byte {
	w := &writer{dst: dst}
	w.raw("{")
	for key, value := range jsontext.Members(schema) {
		w.key(key)
		if key != "properties" || !jsontext.IsObject(value) {
			w.dst = append(w.dst, value...)
			continue
		}
		w.raw("{")
		for property, sub := range jsontext.Members(value) {
			w.key(property)
			switch string(sub) {
			case "true":
				w.raw("{}")
			case "false":
				w.raw(`{"not":{}}`)
			default:
				w.dst = append(w.dst, sub...)
			}
		}
		w.raw("}")
	}
	w.raw("}")
	return w.dst
}

// isURI reports whether s is an absolute URI by the grammar of RFC 3986, section 3,
// as far as the contract's validation accepts it: an IPv6 address is written without
// dots, and neither has a zone nor belongs to a later version.
func isURI(s string) bool {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || !isScheme(scheme) {
		return false
	}
	rest, fragment, _ := strings.Cut(rest, "#")
	path, query, _ := strings.Cut(rest, "?")
	if behind, ok := strings.CutPrefix(path, "//"); ok {
		end := strings.IndexByte(behind, '/')
		if end < 0 {
			end = len(behind)
		}
		if !isAuthority(behind[:end]) {
			return false
		}
		path = behind[end:]
	}
	return consistsOf(path, ":@/") && consistsOf(query, ":@/?") && consistsOf(fragment, ":@/?")
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isLetter(c) && (i == 0 || !isDigit(c) && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}

// isAuthority checks [userinfo "@"] host [":" port] (section 3.2).
func isAuthority(s string) bool {
	if user, host, ok := strings.Cut(s, "@"); ok {
		if !consistsOf(user, ":") {
			return false
		}
		s = host
	}
	if literal, ok := strings.CutPrefix(s, "["); ok {
		address, port, ok := strings.Cut(literal, "]")
		ip, err := netip.ParseAddr(address)
		return ok && err == nil && ip.Is6() && !strings.ContainsAny(address, "%.") && (port == "" || port[0] == ':' && isDigits(port[1:]))
	}
	host, port, _ := strings.Cut(s, ":")
	return consistsOf(host, "") && isDigits(port) && isTextHost(host)
}

func isDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// isTextHost reports whether a registered name is UTF-8 behind its escapes
// (section 3.2.2).
func isTextHost(host string) bool {
	if !strings.Contains(host, "%") {
		return true
	}
	decoded := make([]byte, 0, len(host))
	for i := 0; i < len(host); i++ {
		if host[i] == '%' {
			decoded = append(decoded, byte(jsontext.HexValue(host[i+1])<<4|jsontext.HexValue(host[i+2])))
			i += 2
			continue
		}
		decoded = append(decoded, host[i])
	}
	return utf8.Valid(decoded)
}

// consistsOf reports whether s holds only unreserved characters, escapes,
// sub-delimiters (section 2) and the extra ones.
func consistsOf(s, extra string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case isLetter(c), isDigit(c), strings.IndexByte("-._~!$&'()*+,;=", c) >= 0, strings.IndexByte(extra, c) >= 0:
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			i += 2
		default:
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return jsontext.HexValue(c) >= 0 }

// isTemplate reports whether s is a URI template by the grammar of RFC 6570,
// section 2: literals, and expressions of names in braces.
func isTemplate(s string) bool {
	for {
		literal, rest, more := strings.Cut(s, "{")
		if !isLiteral(literal) {
			return false
		}
		if !more {
			return true
		}
		expression, after, closed := strings.Cut(rest, "}")
		if !closed || !isExpression(expression) {
			return false
		}
		s = after
	}
}

// isLiteral refuses what no URI could hold as it is (section 2.1). Letters
// beyond ASCII are encoded when the template is filled in.
func isLiteral(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c <= ' ', c == 0x7F, strings.IndexByte("\"'<>\\^`|}", c) >= 0:
			return false
		case c == '%' && (i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2])):
			return false
		}
	}
	return true
}

// isExpression checks [operator] name ["," name ...], where a name may have a
// modifier (sections 2.2 to 2.4).
func isExpression(s string) bool {
	if s != "" && strings.IndexByte("+#./;?&", s[0]) >= 0 {
		s = s[1:]
	}
	for name := range strings.SplitSeq(s, ",") {
		if plain, ok := strings.CutSuffix(name, "*"); ok {
			name = plain
		} else if before, length, ok := strings.Cut(name, ":"); ok {
			if length == "" || length[0] == '0' || len(length) > 4 || !isDigits(length) {
				return false
			}
			name = before
		}
		for part := range strings.SplitSeq(name, ".") {
			if !isVariable(part) {
				return false
			}
		}
	}
	return true
}

// isVariable checks a name between dots (section 2.3).
func isVariable(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isLetter(c), isDigit(c), c == '_':
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			i += 2
		default:
			return false
		}
	}
	return s != ""
}

// Revision is a revision of MCP. The methods in this file cover all differences between
// revisions that this package knows.
type Revision uint8

// The revisions, newest first. The zero value is the newest, which is the most expressive.
const (
	Rev20260728 Revision = iota
	Rev20251125
	rev20250618
	Rev20250326
)

// ParseRevision returns the revision with this name, such as "2025-11-25", and
// false if it is none of the four.
func ParseRevision(version string) (Revision, bool) {
	for _, r := range []Revision{Rev20260728, Rev20251125, rev20250618, Rev20250326} {
		if r.String() == version {
			return r, true
		}
	}
	return 0, false
}

// String returns the revision's name, as used in protocolVersion.
func (r Revision) String() string {
	switch r {
	case Rev20260728:
		return "2026-07-28"
	case Rev20251125:
		return "2025-11-25"
	case rev20250618:
		return "2025-06-18"
	case Rev20250326:
		return "2025-03-26"
	default:
		return "of an unknown revision"
	}
}

// Narrow returns what a client's declaration means in this revision. A capability that
// the revision does not define must not be used, whatever the client declares (MCP
// lifecycle). Before 2026-07-28, there are no tasks of the extension. Before
// 2025-11-25, an elicitation is a form, and sampling has neither tools nor context.
// Before 2025-06-18, there is no elicitation. The argument is not modified.
func (r Revision) Narrow(c *outriggerv1.ClientCapabilities) *outriggerv1.ClientCapabilities {
	if c == nil || r.isModern() {
		return c
	}
	c = proto.CloneOf(c)
	c.Tasks = false
	if !r.hasModes() {
		if c.Elicitation != nil {
			c.Elicitation = &outriggerv1.ElicitationCapability{Form: true}
		}
		if c.Sampling != nil {
			c.Sampling = new(outriggerv1.SamplingCapability)
		}
	}
	if !r.hasElicitation() {
		c.Elicitation = nil
	}
	return c
}

// isModern holds for the revision in which structured content may be of any kind
// and an output schema have any root.
func (r Revision) isModern() bool { return r == Rev20260728 }

// hasModes holds where an elicitation says its mode and may be a URL.
func (r Revision) hasModes() bool { return r <= Rev20251125 }

// hasSamplingTools holds where sampling knows tools and messages of several
// blocks.
func (r Revision) hasSamplingTools() bool { return r <= Rev20251125 }

// namesElicitations holds where an elicitation by URL has an elicitationId, under
// which its end is announced.
func (r Revision) namesElicitations() bool { return r == Rev20251125 }

// hasElicitation holds where users can be asked at all.
func (r Revision) hasElicitation() bool { return r <= rev20250618 }

// hasStructuredContent holds where a result has data beside its content.
func (r Revision) hasStructuredContent() bool { return r <= rev20250618 }

// hasResourceLinks holds where content may point to a resource.
func (r Revision) hasResourceLinks() bool { return r <= rev20250618 }
