// SPDX-License-Identifier: Apache-2.0

package content

import (
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// tasksExtension is MCP's identifier of the tasks extension, which
// ClientCapabilities has as its own field.
const tasksExtension = "io.modelcontextprotocol/tasks"

// ReadCapabilities reads a ClientCapabilities object. An elicitation that names no
// mode means forms; one that names only the URL mode does not. Extensions and
// experimental capabilities keep their bytes. Revision.Narrow restricts the
// declaration to what a legacy revision supports.
func ReadCapabilities(raw []byte) (*outriggerv1.ClientCapabilities, error) {
	var r reader
	c := new(outriggerv1.ClientCapabilities)
	r.message(r.whole(raw), c)
	return outcome(&r, c)
}

// ReadImplementation reads an Implementation object, such as clientInfo.
func ReadImplementation(raw []byte) (*outriggerv1.Implementation, error) {
	var r reader
	i := new(outriggerv1.Implementation)
	r.message(r.whole(raw), i)
	return outcome(&r, i)
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

// What parts of a URI consist of (RFC 3986, sections 2 and 3).
const (
	uriEscape = `%[0-9A-Fa-f]{2}`
	uriChars  = `A-Za-z0-9\-._~!$&'()*+,;=`
	inHost    = `(?:[` + uriChars + `]|` + uriEscape + `)*`
	inUser    = `(?:[` + uriChars + `:]|` + uriEscape + `)*`
	inSegment = `(?:[` + uriChars + `:@]|` + uriEscape + `)`
	inPath    = `(?:[` + uriChars + `:@/]|` + uriEscape + `)*`
	inQuery   = `(?:[` + uriChars + `:@/?]|` + uriEscape + `)*`
)

// uriGrammar has two groups: the host that is an IPv6 address, and the one that is a name.
var uriGrammar = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.\-]*:` +
		`(?://(?:` + inUser + `@)?(?:\[([0-9A-Fa-f:]+)\]|(` + inHost + `))(?::[0-9]*)?(?:/` + inPath + `)?|/?(?:` + inSegment + inPath + `)?)` +
		`(?:\?` + inQuery + `)?(?:#` + inQuery + `)?$`)
})

// isURI reports whether s is an absolute URI by the grammar of RFC 3986, section 3, as far as the contract's validation
// accepts it: an IPv6 address is written without dots, and neither has a zone nor belongs to a later version.
func isURI(s string) bool {
	parts := uriGrammar().FindStringSubmatch(s)
	if parts == nil {
		return false
	}
	if parts[1] != "" {
		_, err := netip.ParseAddr(parts[1])
		return err == nil
	}
	name, _ := url.PathUnescape(parts[2])
	return utf8.ValidString(name) // section 3.2.2
}

// What a URI template consists of (RFC 6570, sections 2.1 to 2.4): literals, and expressions of variables in braces. Letters
// beyond ASCII are encoded when the template is filled in.
const (
	inLiteral = `[^\x00-\x20\x7F"'%<>\\^\x60{|}]|` + uriEscape
	variable  = `(?:[A-Za-z0-9_]|` + uriEscape + `)+`
	spec      = variable + `(?:\.` + variable + `)*(?::[1-9][0-9]{0,3}|\*)?`
)

var templateGrammar = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:` + inLiteral + `|\{[+#./;?&]?` + spec + `(?:,` + spec + `)*\})*$`)
})

// isTemplate reports whether s is a URI template.
func isTemplate(s string) bool { return templateGrammar().MatchString(s) }

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
