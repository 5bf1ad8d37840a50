// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
	"google.golang.org/protobuf/proto"
)

// describe fills in all of a tool that is for reading: texts, hints, metadata, examples. What is declared wins over what
// the descriptors say: the options of this project, then comments, then annotations of other tools. What nothing describes
// gets a generated description.
func (b *builder) describe(t *Tool, options methodOptions, declared *configv1.ToolOptions, noted schema.MethodAnnotations) {
	id := t.Subject()
	md := t.Method.Descriptor
	b.applyDeclared(t, declared, t.Method.Service)
	if (options.deprecated || noted.Deprecated) && t.Metadata.DeprecatedIn == "" {
		t.Metadata.DeprecatedIn = unknownVersion
	}
	t.Annotations = annotate(options, declared)
	t.markDestructive(b.declaredOnly)

	said := b.comments.of(md, b.linked)
	title := cmp.Or(shown.OneSpaced(declared.GetTitle()), firstSentence(said), strings.TrimSuffix(shown.OneSpaced(noted.Summary), "."), humanName(string(md.Name())))
	t.Title = cutRunes(title, b.limits.MaxTitleRunes)
	text := cmp.Or(strings.TrimSpace(shown.Clean(declared.GetDescription())), strings.TrimSpace(said), annotated(t, noted))
	if t.Undescribed = text == ""; t.Undescribed {
		text = b.generated(t, noted)
	}
	t.Paging = pagingOf(t, declared)
	text = t.Paging.describe(text)
	text, wasCut := shown.CutBytes(deprecation(t.Metadata.DeprecatedIn)+text, b.limits.MaxDescriptionBytes)
	if wasCut {
		b.warn(id, fmt.Sprintf("its description is truncated to %d bytes", b.limits.MaxDescriptionBytes))
	}
	t.Description = text
	t.Examples = b.examples(t, declared.GetExamples())
	for _, e := range declared.GetErrors() {
		t.Errors = append(t.Errors, ToolError{Status: e.GetStatus(), When: shown.OneSpaced(e.GetWhen())})
	}
}

// noted is what annotations of other tools say of a method.
func (b *builder) noted(t *Tool) schema.MethodAnnotations {
	said, problems := schema.AnnotationsOfMethod(t.Method.Descriptor)
	for _, p := range problems {
		b.warn(t.Subject(), p)
	}
	return said
}

// applyDeclared fills in what is declared and needs no words; what says nothing gets its default.
func (b *builder) applyDeclared(t *Tool, declared *configv1.ToolOptions, module string) {
	t.Version = cmp.Or(declared.GetVersion(), defaultVersion)
	t.Timeout = declared.GetTimeout().AsDuration()
	t.Tags, t.Icons, t.Scopes = declared.GetTags(), declared.GetIcons(), declared.GetScopes()
	t.TaskSupport = cmp.Or(declared.GetTaskSupport(), "forbidden")
	t.TaskUnsaid = declared.GetTaskSupport() == ""
	t.TaskAfter = declared.GetTaskAfter().AsDuration()
	t.StreamTime = declared.GetStreamTime().AsDuration()
	if declared != nil && declared.ResultBudget != nil {
		t.ResultBudget = new(int(declared.GetResultBudget()))
	}
	t.Metadata = Metadata{
		Module:       cmp.Or(shown.Clean(declared.GetModule()), module),
		Destructive:  declared.GetDestructive(),
		DeprecatedIn: shown.Clean(declared.GetDeprecatedIn()),
		CacheTTL:     defaultCacheTTL,
	}
	if ttl := declared.GetCacheTtl(); ttl != nil {
		t.Metadata.CacheTTL = ttl.AsDuration()
	}
}

// generated is the description of a method that nothing describes: verb and object from its name, the main inputs, what
// comes back, and what its service is about.
func (b *builder) generated(t *Tool, said schema.MethodAnnotations) string {
	md := t.Method.Descriptor
	text := action(string(md.Name()), string(md.Parent().Name())) + ". " + exchanged(t, said)
	if about := b.aboutService(md.Parent()); about != "" {
		text += " " + about + "."
	}
	return text
}

// aboutService is the first sentence of a service's comment, else of its description in an annotation, else of that of its file.
func (b *builder) aboutService(d protoreflect.Descriptor) string {
	if about := firstSentence(b.comments.of(d, b.linked)); about != "" {
		return about
	}
	sd, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return ""
	}
	said := cmp.Or(strings.TrimSpace(schema.ServiceDescription(sd)), strings.TrimSpace(schema.FileDescription(sd.ParentFile())))
	return firstSentence(shown.Clean(said))
}

// tell reads what each service says of itself.
func (b *builder) tell(services []Service) {
	for i := range services {
		s := &services[i]
		if s.Descriptor == nil {
			continue
		}
		file := schema.AnnotationsOfFile(s.Descriptor.ParentFile())
		_, e := editionOf(s.Descriptor)
		s.about = serviceAbout{
			text: cutRunes(cmp.Or(b.comments.of(s.Descriptor, b.linked), shown.Clean(schema.ServiceDescription(s.Descriptor)), shown.Clean(file.Description)), maxInstructions),
			title: cutRunes(cmp.Or(shown.OneSpaced(file.Title),
				humanName(strings.TrimSuffix(string(s.Descriptor.Name()), "Service")), string(s.Descriptor.Name())), b.limits.MaxTitleRunes),
			version: cutRunes(cmp.Or(shown.OneSpaced(file.Version), e.version), b.limits.MaxTitleRunes),
		}
	}
}

// annotate gathers the hints. Declared ones come first, then the idempotency level, then the HTTP verb. A mark as
// destructive also takes back a read-only hint, since both cannot be true and the mark is the safe one.
func annotate(options methodOptions, declared *configv1.ToolOptions) Annotations {
	yes, no := true, false
	var a Annotations
	switch {
	case options.idempotency == NoSideEffects,
		options.idempotency == IdempotencyUnknown && options.httpVerb == httpGet:
		a = Annotations{ReadOnly: &yes, Destructive: &no, Idempotent: &yes}
	case options.idempotency == Idempotent,
		options.httpVerb == httpPut:
		a = Annotations{Idempotent: &yes}
	}
	if options.idempotency != NoSideEffects && options.httpVerb == httpDelete {
		a.Destructive = &yes
	}
	for _, hint := range [...]struct {
		to       **bool
		declared *bool
	}{
		// The pointers tell a declared false from nothing, which the getters do not.
		{&a.ReadOnly, declared.ReadOnly},       //nolint:protogetter // See above.
		{&a.Destructive, declared.Destructive}, //nolint:protogetter // See above.
		{&a.Idempotent, declared.Idempotent},   //nolint:protogetter // See above.
		{&a.OpenWorld, declared.OpenWorld},     //nolint:protogetter // See above.
	} {
		if hint.declared != nil {
			value := *hint.declared
			*hint.to = &value
		}
	}
	if declared.GetDestructive() {
		a.ReadOnly = &no
	}
	if declared.GetReadOnly() && declared.Destructive == nil {
		a.Destructive = &no
	}
	return a
}

// examples keeps the examples whose arguments the tool accepts; a wrong one would teach a model to fail.
func (b *builder) examples(t *Tool, declared []*outriggerv1.ToolExample) []Example {
	id := t.Subject()
	var out []Example
	for i, e := range declared {
		example := Example{
			Name: shown.Clean(e.GetName()), Description: shown.Clean(e.GetDescription()),
			Arguments: json.RawMessage(e.GetArgumentsJson()), Status: e.GetStatus(),
		}
		if err := t.checkExample(example.Arguments); err != nil {
			b.warn(id, fmt.Sprintf("example %d (%s) omitted: the tool rejects its arguments: %v", i+1, shown.Clip(example.Name), err))
			continue
		}
		if data := e.GetDataJson(); json.Valid([]byte(data)) {
			example.Data = json.RawMessage(data)
		}
		out = append(out, example)
	}
	return out
}

// maxPhraseRunes bounds one name in a generated description.
const maxPhraseRunes = 60

// action says what a method does, by its name: "GetStore" is "Get the store", "BatchGetStores" is "Get stores in one batch",
// and "Check" of OpenFGAService is "Check in the OpenFGA service". A name whose first word is no verb stays as it is.
func action(method, service string) string {
	parts := words(method)
	if len(parts) == 0 {
		return method
	}
	suffix := ""
	if len(parts) > 1 && isIn("verbs", parts[1]) {
		switch strings.ToLower(parts[0]) {
		case "batch":
			parts, suffix = parts[1:], " in one batch"
		case "stream", "streamed", "streaming":
			parts, suffix = parts[1:], " as a stream"
		}
	}
	name := cutRunes(humanWords(parts), maxPhraseRunes)
	if !isIn("verbs", parts[0]) {
		return name
	}
	if len(parts) == 1 {
		place := strings.TrimSuffix(service, "Service")
		if place == "" {
			return name + suffix
		}
		return name + " in the " + cutRunes(place, maxPhraseRunes) + " service" + suffix
	}
	verb, object, _ := strings.Cut(name, " ")
	article := ""
	switch head := headNoun(parts[1:]); {
	case head == "", isPlural(head):
	case !isIn("creating", parts[0]):
		article = "the "
	case !isIn("uncountable", head):
		article = indefinite(object) + " "
	}
	return verb + " " + article + object + suffix
}

// humanWords are words as a line begins: the first with a capital, acronyms as they are.
func humanWords(parts []string) string {
	return humanName(strings.Join(parts, "_"))
}

// phrase is an identifier in words: "store_id" is "store ID". With asName it keeps the form that types have.
func phrase(ident string, asName bool) string {
	if asName {
		return cutRunes(ident, maxPhraseRunes)
	}
	parts := words(ident)
	for i, w := range parts {
		lower := strings.ToLower(w)
		switch {
		case isIn("acronyms", lower):
			parts[i] = strings.ToUpper(w)
		case strings.HasSuffix(lower, "s") && isIn("acronyms", strings.TrimSuffix(lower, "s")):
			parts[i] = strings.ToUpper(w[:len(w)-1]) + "s"
		case len(w) > 1 && strings.ToUpper(w) == w:
		default:
			parts[i] = lower
		}
	}
	if len(parts) == 0 {
		return cutRunes(ident, maxPhraseRunes)
	}
	return cutRunes(strings.Join(parts, " "), maxPhraseRunes)
}

// headNoun is the noun of an object: its last word before a preposition. Empty where the object begins with one, so that
// it takes no article: "Get by name", "List all books".
func headNoun(object []string) string {
	end := slices.IndexFunc(object, func(w string) bool { return isIn("prepositions", w) })
	switch {
	case end < 0:
		end = len(object)
	case end == 0:
		return ""
	}
	if isIn("no article", object[0]) {
		return ""
	}
	return object[end-1]
}

func isPlural(word string) bool {
	lower := strings.ToLower(word)
	if isIn("plural", lower) {
		return true
	}
	if len(word) < 3 || word == strings.ToUpper(word) {
		return false
	}
	for _, suffix := range [...]string{"ss", "us", "is", "as"} {
		if strings.HasSuffix(lower, suffix) {
			return false
		}
	}
	return strings.HasSuffix(lower, "s")
}

// withArticle is a noun phrase with "a" or "an", or alone where it is a plural.
func withArticle(noun string) string {
	if parts := strings.Fields(noun); len(parts) > 0 && isPlural(parts[len(parts)-1]) {
		return noun
	}
	return indefinite(noun) + " " + noun
}

// indefinite is the article by the sound of the first word.
func indefinite(noun string) string {
	first, _, _ := strings.Cut(noun, " ")
	lower := strings.ToLower(first)
	if len(first) > 1 && first == strings.ToUpper(first) { // spelled out
		if strings.ContainsAny(first[:1], "AEFHILMNORSX") {
			return "an"
		}
		return "a"
	}
	for _, prefix := range [...]string{"uni", "use", "usa", "util", "one", "eu"} {
		if strings.HasPrefix(lower, prefix) {
			return "a"
		}
	}
	if strings.HasPrefix(lower, "hour") || lower != "" && strings.ContainsAny(lower[:1], "aeiou") {
		return "an"
	}
	return "a"
}

// Bounds of a generated description, so that it stays a few lines whatever the descriptors hold.
const (
	maxNamedInputs  = 4
	maxNamedOutputs = 3
)

// annotated is the description that annotations of other tools have; empty for none. A summary alone is a title more than
// a description, so the inputs and outputs follow it.
func annotated(t *Tool, said schema.MethodAnnotations) string {
	summary, text := strings.TrimSuffix(shown.OneSpaced(said.Summary), "."), strings.TrimSpace(shown.Clean(said.Description))
	switch {
	case summary == "":
		return text
	case text == "":
		return summary + ". " + exchanged(t, said)
	case strings.HasPrefix(strings.ToLower(text), strings.ToLower(summary)):
		return text
	}
	return summary + ".\n\n" + text
}

// exchanged says in two sentences what a method takes and what it returns.
func exchanged(t *Tool, said schema.MethodAnnotations) string {
	return inputText(t.Method.Descriptor, said) + " " + outputText(t)
}

func inputText(md protoreflect.MethodDescriptor, said schema.MethodAnnotations) string {
	in := md.Input()
	if md.IsStreamingClient() {
		return "Takes a stream of " + phrase(string(in.Name()), true) + " messages."
	}
	if fields := signed(in, said.Signatures); len(fields) > 0 {
		return "Takes " + listed(fields, maxNamedInputs) + "."
	}
	var required, others []string
	for i := range in.Fields().Len() {
		fd := in.Fields().Get(i)
		switch name := phrase(string(fd.Name()), false); {
		case schema.BehaviorOf(fd).Hides(schema.Input), isDeprecatedField(fd):
		case schema.IsRequired(fd):
			required = append(required, name)
		case isPaging(fd):
		default:
			others = append(others, name)
		}
	}
	switch {
	case len(required) > 0:
		return "Requires " + listed(required, maxNamedInputs) + "."
	case len(others) > 0:
		return "Takes " + listed(others, maxNamedInputs) + "."
	case in.Fields().Len() > 0:
		return "Requires no arguments."
	}
	return "Takes no arguments."
}

// signed are the fields of the first signature that names any, as far as the request has them.
func signed(in protoreflect.MessageDescriptor, signatures [][]string) []string {
	for _, names := range signatures {
		var out []string
		for _, path := range names {
			first, _, _ := strings.Cut(path, ".")
			if fd := in.Fields().ByName(protoreflect.Name(first)); fd != nil && !schema.BehaviorOf(fd).Hides(schema.Input) && !isPaging(fd) {
				out = append(out, phrase(strings.ReplaceAll(path, ".", "_"), false))
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// isPaging holds for what chooses a page of a list (AIP-158), and not what is in it.
func isPaging(fd protoreflect.FieldDescriptor) bool {
	return fd.Name() == "page_size" || fd.Name() == "page_token"
}

func isDeprecatedField(fd protoreflect.FieldDescriptor) bool {
	options, ok := fd.Options().(interface{ GetDeprecated() bool })
	return ok && options.GetDeprecated()
}

func outputText(t *Tool) string {
	md := t.Method.Descriptor
	out := md.Output()
	switch {
	case t.Operation != nil && t.Operation.Response != nil:
		return "Starts a long-running operation that ends with " + withArticle(phrase(string(t.Operation.Response.Name.Name()), false)) + "."
	case t.Operation != nil:
		return "Starts a long-running operation."
	case t.IsDocument():
		return "Returns a document."
	case md.IsStreamingServer():
		if isEnvelope(out.Name()) && out.Fields().Len() > 0 {
			return "Returns a stream, each message with " + listed(mainFields(out), maxNamedOutputs) + "."
		}
		return "Returns a stream of " + phrase(string(out.Name()), true) + " messages."
	}
	if text := wordLists()["types"][string(out.FullName())]; text != "" {
		return "Returns " + text + "."
	}
	if out.Fields().Len() == 0 {
		return "Returns nothing."
	}
	if !isEnvelope(out.Name()) {
		return "Returns the " + phrase(string(out.Name()), false) + "."
	}
	return "Returns " + listed(mainFields(out), maxNamedOutputs) + "."
}

// isEnvelope reports whether a message exists for the sake of the RPC: its fields are what comes back.
func isEnvelope(name protoreflect.Name) bool {
	for _, suffix := range [...]string{"Response", "Reply", "Result", "Resp", "Res", "Out", "Output"} {
		if strings.HasSuffix(string(name), suffix) {
			return true
		}
	}
	return false
}

// mainFields are the fields of a response, without those that page through it where there are others.
func mainFields(out protoreflect.MessageDescriptor) []string {
	var main, paging []string
	for i := range out.Fields().Len() {
		fd := out.Fields().Get(i)
		switch name := phrase(string(fd.Name()), false); fd.Name() {
		case "next_page_token", "total_size":
			paging = append(paging, name)
		default:
			main = append(main, name)
		}
	}
	if len(main) == 0 {
		return paging
	}
	return main
}

// listed joins names: "a, b and c". Those above the limit are counted.
func listed(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// cleanComment removes from a comment what is addressed to tools: lines with directives for linters and generators,
// "(-- ... --)" notes for API reviewers, and everything if the comment begins with @exclude, the mark by which
// documentation generators leave something out. What remains are paragraphs, one blank line apart.
func cleanComment(raw string) string {
	text := cutNotes(shown.Clean(raw))
	var out []string
	blank := false
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t")
		// One space is what is between the slashes and the words.
		line = strings.TrimPrefix(line, " ")
		bare := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(bare, "@exclude") && len(out) == 0:
			return ""
		case isDirective(bare):
			continue
		case bare == "":
			blank = len(out) > 0
			continue
		}
		if blank {
			out = append(out, "")
			blank = false
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// cutNotes removes "(-- ... --)" blocks. One that does not end goes on to the comment's end.
func cutNotes(text string) string {
	if !strings.Contains(text, "(--") {
		return text
	}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "(--")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		_, text, _ = strings.Cut(rest, "--)")
	}
}

// isDirective reports whether a line of a comment speaks to a tool and not to a reader.
func isDirective(line string) bool {
	for _, prefix := range [...]string{
		"buf:lint:", "buf:breaking:", "protolint:", "api-linter:", "@exclude", "nolint", "lint:",
		"clang-format off", "clang-format on", "prettier-ignore", "[#", "+kubebuilder:", "+k8s:", "@gotags:", "@inject_tag:",
	} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// firstSentence is the first sentence of the first paragraph, on one line, without the full stop at its end.
func firstSentence(text string) string {
	paragraph, _, _ := strings.Cut(text, "\n\n")
	line := strings.Join(strings.Fields(paragraph), " ")
	for i := 0; i < len(line); i++ {
		if !strings.ContainsRune(".!?", rune(line[i])) {
			continue
		}
		atEnd := i+1 == len(line)
		if !atEnd && (line[i+1] != ' ' || isAbbreviation(line[:i])) {
			continue
		}
		if line[i] == '.' {
			return line[:i]
		}
		return line[:i+1]
	}
	return strings.TrimSuffix(line, ":")
}

// isAbbreviation reports whether the text ends in a word whose full stop ends no sentence.
func isAbbreviation(text string) bool {
	word := text[strings.LastIndexAny(text, " (")+1:]
	return isIn("abbreviations", word)
}

// cutRunes shortens a line to the limit, at a word's end where there is one in its second half, and marks the cut.
func cutRunes(line string, most int) string {
	if utf8.RuneCountInString(line) <= most {
		return line
	}
	kept := string([]rune(line)[:most-1])
	if i := strings.LastIndexByte(kept, ' '); i > len(kept)/2 {
		kept = kept[:i]
	}
	return kept + "…"
}

// oneLine is the text of a joined error on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// comments are those of the services and methods of the files that are built: by file, then by the indices of the service
// and of the method. They are read from the files, because the descriptors would make an index of all locations of a file
// to find one, and keep it.
type comments map[string]map[[2]int]string

const (
	// servicesInFile and methodsInService are the numbers by which comments name them.
	servicesInFile   = 6
	methodsInService = 2
	// noMethod represents the service itself.
	noMethod = -1
)

// of is the comment of a service or a method as prose: the one before it, else the one behind it, cleaned. Empty where the
// source kept none.
func (c comments) of(d protoreflect.Descriptor, linked *linker) string {
	file := d.ParentFile()
	if file == nil {
		return ""
	}
	proto := linked.merged.files[file.Path()]
	if proto == nil {
		at := file.SourceLocations().ByDescriptor(d)
		return chosenComment(at.LeadingComments, at.TrailingComments)
	}
	known := cached(c, file.Path(), func() map[[2]int]string { return commentsOfServices(proto) })
	if _, isMethod := d.(protoreflect.MethodDescriptor); isMethod {
		return known[[2]int{d.Parent().Index(), d.Index()}]
	}
	return known[[2]int{d.Index(), noMethod}]
}

// commentsOfServices are the comments of a file's services and methods. The first of two at one place counts.
func commentsOfServices(file *descriptorpb.FileDescriptorProto) map[[2]int]string {
	out := map[[2]int]string{}
	for _, l := range file.GetSourceCodeInfo().GetLocation() {
		path := l.GetPath()
		if len(path) < 2 || path[0] != servicesInFile {
			continue
		}
		at := [2]int{int(path[1]), noMethod}
		switch {
		case len(path) == 4 && path[2] == methodsInService:
			at[1] = int(path[3])
		case len(path) != 2:
			continue
		}
		if _, isKnown := out[at]; !isKnown {
			out[at] = chosenComment(l.GetLeadingComments(), l.GetTrailingComments())
		}
	}
	return out
}

func chosenComment(before, behind string) string {
	return cmp.Or(cleanComment(before), cleanComment(behind))
}

// maxInstructions bounds what services say of themselves in Instructions, in characters: a model reads all of it in every
// session, and clients cut texts of more than 2 KB.
const maxInstructions = 2000

// About is how the services of a catalog name themselves. What none of them says is empty.
type About struct{ Name, Title, Version string }

// offering are the services with tools that callers see. Those of Google's packages that serve every API, such as
// google.longrunning, do not count beside others.
func (c *Catalog) offering() []Service {
	out := slices.DeleteFunc(slices.Clone(c.lists().services), func(s Service) bool {
		return s.Descriptor == nil || !slices.ContainsFunc(s.Tools, func(t *Tool) bool { return !t.Hidden })
	})
	isGoogle := func(s Service) bool { return strings.HasPrefix(s.Name, "google.") }
	if slices.ContainsFunc(out, func(s Service) bool { return !isGoogle(s) }) {
		out = slices.DeleteFunc(out, isGoogle)
	}
	return out
}

// About returns how the catalog names itself: as the native backend does, else by its service's full name, or by the package
// that all of several services have in common. Title and version are those that all services agree on.
func (c *Catalog) About() About {
	services := c.offering()
	said := About{Name: commonName(services)}
	for i, s := range services {
		if i == 0 {
			said.Title, said.Version = s.about.title, s.about.version
		}
		if s.about.title != said.Title {
			said.Title = ""
		}
		if s.about.version != said.Version {
			said.Version = ""
		}
	}
	d := c.description
	if d.GetName() != "" {
		return About{d.GetName(), d.GetTitle(), cmp.Or(d.GetVersion(), said.Version)}
	}
	return About{said.Name, cmp.Or(d.GetTitle(), said.Title), cmp.Or(d.GetVersion(), said.Version)}
}

// commonName is the name of one service, or the package around all of several; empty if they have none in common.
func commonName(services []Service) string {
	if len(services) == 0 {
		return ""
	}
	if len(services) == 1 {
		return services[0].Name
	}
	common := strings.Split(string(protoreflect.FullName(services[0].Name).Parent()), ".")
	for _, s := range services[1:] {
		other, n := strings.Split(string(protoreflect.FullName(s.Name).Parent()), "."), 0
		for n < min(len(common), len(other)) && common[n] == other[n] {
			n++
		}
		common = common[:n]
	}
	return strings.Join(common, ".")
}

// Instructions returns what models read of the catalog before its tools: the native backend's instructions, else the comment
// of its service, or the first sentences of the comments of several. It is empty if there are none.
func (c *Catalog) Instructions() string {
	if text := c.description.GetInstructions(); text != "" {
		return text
	}
	services := c.offering()
	if len(services) == 1 {
		return services[0].about.text
	}
	var out strings.Builder
	left := maxInstructions
	for i, s := range services {
		sentence := s.Summary()
		if sentence == "" {
			continue
		}
		line := string(s.Descriptor.Name()) + ": " + sentence
		if out.Len() > 0 {
			line = "\n" + line
		}
		if left -= utf8.RuneCountInString(line); left < 0 {
			out.WriteString("\nAnd " + strconv.Itoa(len(services)-i) + " more services.")
			break
		}
		out.WriteString(line)
	}
	return out.String()
}

const (
	// maxContents is the size in bytes of the text about what a catalog has: some clients cut descriptions at 2,048
	// characters without a word.
	maxContents = 1900
	// maxStrictContents is that of the strict profile, whose clients send descriptions to OpenAI's models: some deployments
	// refuse one of more than 1,024 characters.
	maxStrictContents = 1000
	// maxVerbs is how many verbs it names for each module.
	maxVerbs = 6
	// maxSummary is the size of a tool's summary in characters.
	maxSummary = 120
	// tail is what is left free for the last sentence.
	contentsTail = 60
)

// module is a part of a catalog, as its contents name it.
type module struct {
	name  string
	tools int
	verbs map[string]int
}

// contents describes the tools that callers see: how many there are, in which modules, and what those can do.
func (c *Catalog) contents() string {
	modules, limit := c.modules(), maxContents
	if c.isStrict {
		limit = maxStrictContents
	}
	own, then := "three", "call it"
	if c.reserved.programs {
		own, then = "four", "call it, or several in one program"
	}
	text := fmt.Appendf(nil, "Finds tools of this server by what they do: %s, of which only these %s are listed. "+
		"Search with a few words such as \"%s\", describe the tool, then %s. Modules, with the number of tools and their most frequent verbs:",
		counted(c.count(), "tool"), own, c.sampleQuery(), then)
	for i, m := range modules {
		line := "\n" + m.String()
		if len(text)+len(line) > limit-contentsTail {
			text = fmt.Appendf(text, "\nand %s", counted(len(modules)-i, "more module"))
			break
		}
		text = append(text, line...)
	}
	return string(text)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// modules are the parts of the catalog, the largest first. A module is named by its last part, unless two have the same.
func (c *Catalog) modules() []*module {
	byName, short := map[string]*module{}, map[string]int{}
	var out []*module
	for _, t := range c.Tools() {
		name := t.Metadata.Module
		m := byName[name]
		if m == nil {
			m = &module{name: name, verbs: map[string]int{}}
			byName[name], out = m, append(out, m)
			short[lastPart(name)]++
		}
		m.tools++
		m.verbs[verbOf(t)]++
	}
	for _, m := range out {
		if short[lastPart(m.name)] == 1 {
			m.name = lastPart(m.name)
		}
	}
	slices.SortFunc(out, func(a, b *module) int { return cmp.Or(cmp.Compare(b.tools, a.tools), cmp.Compare(a.name, b.name)) })
	return out
}

// String is the line about a module.
func (m *module) String() string {
	verbs := shown.SortedKeys(m.verbs)
	slices.SortStableFunc(verbs, func(a, b string) int { return cmp.Compare(m.verbs[b], m.verbs[a]) })
	return fmt.Sprintf("%s (%d): %s", m.name, m.tools, strings.Join(verbs[:min(len(verbs), maxVerbs)], ", "))
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// verbOf is the first word of what the tool is called.
func verbOf(t *Tool) string {
	verb, _, _ := strings.Cut(lastPart(t.Name), "_")
	return verb
}

// sampleQuery is a query that finds something here: the words of the shortest name that has a verb and an object.
func (c *Catalog) sampleQuery() string {
	best := ""
	for _, t := range c.Tools() {
		name := lastPart(t.Name)
		if strings.Contains(name, "_") && (best == "" || len(name) < len(best)) {
			best = name
		}
	}
	return cmp.Or(strings.ReplaceAll(best, "_", " "), "list items")
}

// Summary returns what the tool does in one line of at most maxSummary characters.
func (t *Tool) Summary() string {
	text, prefix := t.Description, ""
	if d := deprecation(t.Metadata.DeprecatedIn); d != "" {
		text, prefix = strings.TrimPrefix(text, d), "Deprecated: "
	}
	line := prefix + cmp.Or(firstSentence(text), t.Title)
	if utf8.RuneCountInString(line) < maxSummary && !strings.HasSuffix(line, "?") {
		line += "."
	}
	return cutRunes(line, maxSummary)
}

//go:embed words.txt
var wordsText string

// wordLists are the sections of words.txt: their words, each with what is behind "=" in its line.
var wordLists = sync.OnceValue(func() map[string]map[string]string {
	section := map[string]string{}
	lists := map[string]map[string]string{}
	for line := range strings.Lines(wordsText) {
		line = strings.TrimSpace(line)
		switch name, isHead := strings.CutPrefix(line, "["); {
		case line == "", line[0] == '#':
		case isHead:
			section = map[string]string{}
			lists[strings.TrimSuffix(name, "]")] = section
		default:
			words, text, _ := strings.Cut(line, " = ")
			for word := range strings.FieldsSeq(words) {
				section[word] = text
			}
		}
	}
	return lists
})

// isIn reports whether a list of words has a word, in any case.
func isIn(list, word string) bool {
	_, is := wordLists()[list][strings.ToLower(word)]
	return is
}

// IsDestroying reports whether the word, in lower case, is a verb that destroys.
func IsDestroying(word string) bool { return isIn("destroying", word) }

// DestroyingVerb returns the verb of a name if that destroys, else "". The first verb of a name says what it does:
// DeleteImage, MemberRemove and BatchDelete destroy, ListDeleted and UpdateDeletePolicy do not.
func DestroyingVerb(name string) string {
	for _, word := range nameWords(name) {
		switch {
		case IsDestroying(word):
			return word
		case isIn("verbs", word) && !isIn("carriers", word):
			return ""
		}
	}
	return ""
}

// nameWords are the words of a method's or a tool's name, in lower case.
func nameWords(name string) []string {
	plain := strings.NewReplacer(".", "_", "-", "_", "/", "_").Replace(name)
	out := words(plain)
	for i, w := range out {
		out[i] = strings.ToLower(w)
	}
	return out
}

// UnmarkedVerb returns the verb that would mark the tool as destructive if the catalog were not built from declarations
// alone; "" if there is none.
func (t *Tool) UnmarkedVerb() string {
	if a := t.Annotations; a.Destructive != nil || t.Metadata.Destructive || a.ReadOnly != nil && *a.ReadOnly {
		return ""
	}
	names := []string{string(t.Method.Descriptor.Name()), t.Name[strings.LastIndexByte(t.Name, '.')+1:]}
	if t.Native {
		names = []string{t.NativeName}
	}
	for _, name := range names {
		if verb := DestroyingVerb(name); verb != "" {
			return verb
		}
	}
	return ""
}

// markDestructive marks a tool as destructive that is shown so: by an option, by the overlay, by a DELETE verb, by a native
// backend, or, unless marks are declared only, by the verb of its name. So hint and gate agree.
func (t *Tool) markDestructive(declaredOnly bool) {
	if verb := t.UnmarkedVerb(); verb != "" && !declaredOnly {
		t.Verb, t.Annotations.Destructive = verb, new(true)
	}
	if t.Annotations.Destructive != nil && *t.Annotations.Destructive {
		t.Metadata.Destructive = true
	}
}

// warnUnlessRivals says that there is nothing to read where an operator expects it: with protomcp, every method would be a tool.
func (b *builder) warnUnlessRivals(isRead bool) {
	if isRead && b.world.rivals == 0 {
		b.warn("catalog", "rival-annotations is on, and the descriptors define no annotations of protomcp.v1, mcp.v1 or grpcmcpgateway.v1: "+
			"nothing is read, and no method is left out for want of one; add the files that define them to the descriptors")
	}
}

// rival is what the annotations of a rival say of a method. The zero value says nothing.
type rival struct {
	// options are theirs in our terms; nil for none.
	options *configv1.ToolOptions
	// isDenied: it is no tool there, because its authors did not say that it is one.
	isDenied bool
	// mcpName is the name by which agents know the tool; empty for the derived one.
	mcpName string
}

// below is what is declared, on top of what the rival says. What contradicts it there is let go.
func (r rival) below(declared *configv1.ToolOptions) *configv1.ToolOptions {
	if r.options == nil {
		return declared
	}
	if declared.GetDestructive() {
		r.options.ReadOnly = nil
	}
	if declared.GetReadOnly() {
		r.options.Destructive = nil
	}
	return override(r.options, declared)
}

// Bounds of their texts, those of our own options. A longer one is cut.
const (
	maxRivalTitle       = 1024
	maxRivalDescription = 65536
)

// rivalOf reads what a rival says of a method. Where protomcp.v1 is defined, a method with no annotation of any kind is denied.
func (b *builder) rivalOf(md protoreflect.MethodDescriptor, ours methodOptions) (rival, error) {
	if b.world.rivals == 0 {
		return rival{}, nil
	}
	said, err := schema.RivalToolOf(md, schema.RivalsOf(md.ParentFile()))
	if err != nil {
		return rival{}, err
	}
	out := rival{options: &configv1.ToolOptions{}}
	if said.Asks {
		out.options.Destructive = proto.Bool(true) // the gate has the user confirm such calls
	}
	if said.Of == 0 {
		out.isDenied = b.world.rivals&schema.RivalProtoMCP != 0 && proto.Size(ours.tool) == 0
		if !out.isDenied && !said.Asks {
			return rival{}, nil
		}
		return out, nil
	}
	out.options.Title, _ = shown.CutBytes(said.Title, maxRivalTitle)
	out.options.Description, _ = shown.CutBytes(said.Description, maxRivalDescription)
	out.options.ReadOnly, out.options.Idempotent, out.options.OpenWorld = said.ReadOnly, said.Idempotent, said.OpenWorld
	out.options.Destructive = cmp.Or(said.Destructive, out.options.Destructive)
	if out.options.GetDestructive() {
		out.options.ReadOnly = nil // both cannot be true, and this is the safe one
	}
	for _, icon := range said.Icons {
		out.options.Icons = append(out.options.Icons, &outriggerv1.Icon{Src: icon.Src, MimeType: icon.MimeType, Sizes: icon.Sizes, Theme: icon.Theme})
	}
	if err := b.rules.checkOptions(&configv1.ToolOptions{Icons: out.options.GetIcons()}); err != nil {
		b.warn(methodName(md), "its icons are omitted: "+oneLine(err))
		out.options.Icons = nil
	}
	out.mcpName = b.rivalName(md, said)
	return out, nil
}

// rivalResource is what a rival says of resources of a method, as our option says it; nil for nothing.
func (b *builder) rivalResource(md protoreflect.MethodDescriptor) (*configv1.ResourceOptions, error) {
	if b.world.rivals == 0 {
		return nil, nil //nolint:nilnil // no option is no fault
	}
	said, err := schema.RivalResourceOf(md, schema.RivalsOf(md.ParentFile()))
	if err != nil || said == (schema.RivalResource{}) {
		return nil, err
	}
	return &configv1.ResourceOptions{
		UriTemplate: said.URITemplate, MimeType: said.MimeType, ContentField: said.Content, ItemsField: said.Items, NameField: said.Label,
	}, nil
}
