// SPDX-License-Identifier: Apache-2.0

// Package search ranks short documents, such as descriptions of tools, by how well they match a query in words.
//
// An [Index] is made once from all documents and never changes. Its score is BM25 over weighted fields: the words of a
// name count most, then those of its group, of texts, of field names and of enum values. A query matches word forms
// ("backups", "backing up"), synonyms of common verbs and nouns ("remove" finds "delete"; near words count less), and
// words with typing errors if they match nothing else. What the query wants done is read from its first verb: what only
// reads is not the answer to "remove". What a query only describes, behind a preposition or as a participle, counts less.
//
// The package knows nothing of tools, catalogs or permissions: its caller says which documents may be found. Everything is
// safe for concurrent use.
package search

import (
	"cmp"
	"math"
	"strings"
	"sync"
)

// Document is one thing to be found. Every field is text, which is split into words.
type Document struct {
	// Name is the name without its group.
	Name string
	// Group is what the name belongs to.
	Group string
	// Summary says in a sentence what it is, and Text is prose.
	Summary, Text string
	// Types are names of messages. Inputs and Outputs are names of fields, Notes what is said about inputs, Remarks what is said about
	// outputs, and Values those of enums.
	Types, Inputs, Outputs, Notes, Remarks, Values []string
}

// Index is a set of documents, ready to be searched. It is immutable.
type Index struct {
	// terms are the stems of all words, each with its number.
	terms    map[string]int32
	postings [][]posting
	// letters are the letters of each term as bits, and spelled the terms by number: for typing errors.
	letters []uint64
	spelled []string
	// named is the number of words of each document's name.
	named []float32
	// intents are what the verb of each document's name does.
	intents []intent
	words   *thesaurus
	// pool has what a search needs, one accumulator each.
	pool sync.Pool
}

// posting is what a term adds to the score of a document.
type posting struct {
	doc int32
	// isName is set if the name has the word, isPlural if it has it in the plural only: then it is no verb. isSummary is set
	// if the summary has it.
	isName, isPlural, isSummary bool
	impact                      float32
}

// The fields of a document.
const (
	inName = iota
	inGroup
	inSummary
	inText
	inTypes
	inInputs
	inOutputs
	inNotes
	inRemarks
	inValues
	fields
)

// weights are how much a word counts in each field.
func weights() [fields]float64 {
	return [fields]float64{inName: 6, inGroup: 0.9, inSummary: 1.5, inText: 0.3, inTypes: 0.4, inInputs: 0.5, inOutputs: 0.2, inNotes: 0.12, inRemarks: 0.1, inValues: 0.07}
}

// The parameters of BM25: how fast more of a word stops to count, and how much longer fields count less.
const (
	saturation = 1.1
	lengthPart = 0.5
)

// formWeight is what the exact form of a word adds, as a part of what the word itself counts: "tables" is a little more
// the name of ListTables than of GetTable.
const formWeight = 0.6

// formMark precedes an exact form among the terms. No word contains it.
const formMark = "="

// read is one document while the index is made.
type read struct {
	counts  map[int32]*[fields]float64
	plurals map[int32]bool
	lengths [fields]float64
}

// New returns an index of documents. A search returns their places in docs.
func New(docs []Document) *Index {
	x := &Index{terms: map[string]int32{}, named: make([]float32, len(docs)), intents: make([]intent, len(docs)), words: newThesaurus()}
	all := make([]read, len(docs))
	var total [fields]float64
	for i := range docs {
		all[i] = x.read(&docs[i])
		for f := range fields {
			total[f] += all[i].lengths[f]
		}
		x.intents[i] = x.words.intentOfName(docs[i].Name)
		x.named[i] = float32(all[i].lengths[inName])
	}
	x.weigh(all, total)
	x.spelled, x.letters = make([]string, len(x.postings)), make([]uint64, len(x.postings))
	for term, id := range x.terms {
		if term[0] != formMark[0] {
			x.spelled[id], x.letters[id] = term, lettersOf(term)
		}
	}
	x.pool.New = func() any { return newScores(len(docs)) }
	return x
}

// Len returns the number of documents.
func (x *Index) Len() int { return len(x.named) }

// read counts the words of a document.
func (x *Index) read(d *Document) read {
	r := read{counts: map[int32]*[fields]float64{}, plurals: map[int32]bool{}}
	x.count(&r, inName, d.Name)
	x.count(&r, inGroup, d.Group)
	x.count(&r, inSummary, d.Summary)
	x.count(&r, inText, d.Text)
	x.countAll(&r, inTypes, d.Types)
	x.countAll(&r, inInputs, d.Inputs)
	x.countAll(&r, inOutputs, d.Outputs)
	x.countAll(&r, inNotes, d.Notes)
	x.countAll(&r, inRemarks, d.Remarks)
	x.countAll(&r, inValues, d.Values)
	return r
}

func (x *Index) countAll(r *read, field int, texts []string) {
	for _, text := range texts {
		x.count(r, field, text)
	}
}

func (x *Index) count(r *read, field int, text string) {
	for word := range words(text) {
		if x.words.stops[word] {
			continue
		}
		s := stem(word)
		id := x.add(r, field, s, 1)
		if field == inName {
			x.add(r, field, formMark+word, formWeight)
			if isPlural, ok := r.plurals[id]; isPlural || !ok {
				r.plurals[id] = s != word && strings.HasSuffix(word, "s")
			}
		}
		r.lengths[field]++
	}
}

func (x *Index) add(r *read, field int, term string, n float64) int32 {
	id, ok := x.terms[term]
	if !ok {
		id = int32(len(x.terms))
		x.terms[term] = id
	}
	counts := r.counts[id]
	if counts == nil {
		counts = new([fields]float64)
		r.counts[id] = counts
	}
	counts[field] += n
	return id
}

// weigh makes the postings: all of the score that does not depend on the query.
func (x *Index) weigh(all []read, total [fields]float64) {
	x.postings = make([][]posting, len(x.terms))
	with := make([]int, len(x.terms))
	for i := range all {
		for id := range all[i].counts {
			with[id]++
		}
	}
	weight, n := weights(), float64(len(all))
	for i := range all {
		for id, counts := range all[i].counts {
			frequency := 0.0
			for f := range fields {
				if counts[f] > 0 {
					mean := total[f] / n
					frequency += weight[f] * counts[f] / (1 - lengthPart + lengthPart*all[i].lengths[f]/mean)
				}
			}
			rarity := math.Log(1 + (n-float64(with[id])+0.5)/(float64(with[id])+0.5))
			x.postings[id] = append(x.postings[id], posting{
				doc: int32(i), isName: counts[inName] > 0, isPlural: all[i].plurals[id], isSummary: counts[inSummary] > 0,
				impact: float32(rarity * frequency * (saturation + 1) / (frequency + saturation)),
			})
		}
	}
}

// Hit is a document that was found.
type Hit struct {
	// Doc is its place among the documents of the index.
	Doc   int
	Score float32
}

// scores is what one search adds up, by document.
type scores struct {
	sum, best, named, met []float32
	bestIsName            []bool
	touched               []int32 // by the query
	current               []int32 // by the concept at hand
}

func newScores(docs int) *scores {
	return &scores{
		sum: make([]float32, docs), best: make([]float32, docs), named: make([]float32, docs), met: make([]float32, docs), bestIsName: make([]bool, docs),
		touched: make([]int32, 0, docs), current: make([]int32, 0, docs),
	}
}

// namePart and queryPart are how much of a score depends on how many words of the name are in the query, and how many words
// of the query the document has.
const (
	namePart  = 0.65
	queryPart = 0.77
)

// Search returns the documents that match a query best, the best one first, at most limit of them. Equal ones are in the
// order of the index. visible says which documents may be found; nil is all.
func (x *Index) Search(query string, limit int, visible func(doc int) bool) []Hit {
	if limit <= 0 {
		return nil
	}
	concepts, wants := x.parse(query)
	s, _ := x.pool.Get().(*scores)
	var total float32
	for i := range concepts {
		s.add(x, &concepts[i])
		if !concepts[i].isForm {
			total += concepts[i].weight
		}
	}
	out := make([]Hit, 0, limit)
	for _, doc := range s.touched {
		score := s.sum[doc]
		if n := x.named[doc]; n > 0 {
			score *= 1 - namePart + namePart*min(1, s.named[doc]/n)
		}
		if total > 0 {
			score *= 1 - queryPart + queryPart*s.met[doc]/total
		}
		score *= wants.factor(x.intents[doc])
		out = insert(out, Hit{int(doc), score}, visible)
		s.sum[doc], s.named[doc], s.met[doc] = 0, 0, 0
	}
	s.touched = s.touched[:0]
	x.pool.Put(s)
	return out
}

// add adds what a concept says of each document: what its best term says.
func (s *scores) add(x *Index, c *concept) {
	for _, t := range c.terms {
		for _, p := range x.postings[t.term] {
			if t.isAlike && (!p.isName && !p.isSummary || t.isVerb && p.isPlural) {
				continue
			}
			if c.isImplied && s.sum[p.doc] == 0 {
				continue
			}
			score := p.impact * t.weight
			if s.best[p.doc] == 0 {
				s.current = append(s.current, p.doc)
			}
			if score > s.best[p.doc] {
				s.best[p.doc], s.bestIsName[p.doc] = score, p.isName
			}
		}
	}
	for _, doc := range s.current {
		if s.sum[doc] == 0 {
			s.touched = append(s.touched, doc)
		}
		s.sum[doc] += s.best[doc] * c.weight
		if !c.isForm {
			if s.bestIsName[doc] {
				s.named[doc]++
			}
			s.met[doc] += c.weight
		}
		s.best[doc], s.bestIsName[doc] = 0, false
	}
	s.current = s.current[:0]
}

// insert puts a hit among the best ones, if it is one of them. It asks last whether the document may be seen, because
// that may cost more than the rest.
func insert(best []Hit, h Hit, visible func(int) bool) []Hit {
	if len(best) == cap(best) && before(best[len(best)-1], h) {
		return best
	}
	if visible != nil && !visible(h.Doc) {
		return best
	}
	if len(best) < cap(best) {
		best = append(best, h)
	} else {
		best[len(best)-1] = h
	}
	for i := len(best) - 1; i > 0 && before(best[i], best[i-1]); i-- {
		best[i], best[i-1] = best[i-1], best[i]
	}
	return best
}

// before reports whether a is to be shown before b.
func before(a, b Hit) bool {
	return cmp.Or(-cmp.Compare(a.Score, b.Score), cmp.Compare(a.Doc, b.Doc)) < 0
}

// intent is what a verb does to what it is about, as a set: some verbs may do one thing or another. A query that wants to
// remove something is seldom answered by a tool that creates it, although both have the same noun.
type intent uint8

const (
	reads intent = 1 << iota
	creates
	changes
	deletes
	acts // any other effect: to start, to stop, to send

	effects = creates | changes | deletes | acts
)

// intents are the verbs of each intent. Words that are as often nouns (backup, snapshot, record) are in none, nor are verbs
// that do not say what they do (run, execute).
func intents() map[intent]string {
	return map[intent]string{
		reads: `get describe read show fetch view list enumerate find search query scan count check test verify validate look lookup
			inspect see display tell know print browse retrieve return compare explain expand watch follow tail observe monitor poll
			sample hash ask evaluate determine audit download discover locate peek examine review learn understand debug
			investigate diagnose identify filter estimate calculate measure preview`,
		creates: `create add new make insert register provision generate define build allocate introduce upload put save store
			import clone copy duplicate submit grant give assign attach join invite let allow`,
		changes: `update change modify edit alter rename patch adjust set resize scale replace move reconfigure increase decrease
			raise lower tweak mutate put upgrade downgrade correct extend limit override grant give assign let allow`,
		deletes: `delete remove drop erase destroy purge clear revoke detach deregister unregister wipe discard forget deprovision
			uninstall prune evict kick truncate empty take withdraw`,
		acts: `start stop cancel pause resume terminate kill send publish enable disable acknowledge restart reset
			complete respond fail signal shutdown promote rollback undelete restore abort seek commit`,
		effects: "write",
	}
}

// determiners stand before nouns: what precedes one at the beginning of a query is a verb.
const determiners = `a an the my our their this that these those all every each some any no many several new one another its his her`

// openers are what a wish begins with, before its verb.
const openers = `please i we you want wants need needs would like to how do can could should may let me help us must try just`

// prepositions begin what only describes: "a backup of a table". after are those and the conjunctions that do.
const (
	prepositions = `for of in with by from on at`
	after        = prepositions + ` to that which until before into through and without after when if`
)

// How much the score of a tool is worth that does something else than the query wants.
const (
	// excludedSaid is for a tool that reads where the query wants an effect, or creates where it wants to delete, and the other
	// way round.
	excludedSaid = 0.4
	// excludedUnsaid is for a tool with an effect where the query has no verb.
	excludedUnsaid = 0.9
	// otherEffect is for another effect, which may still be meant: to update where the query wants to add.
	otherEffect = 0.9
)

// wish is what a query wants done.
type wish struct {
	intent intent
	// isSaid is set if the query has a verb for it. One without a verb is a noun or a question, which mostly wants to read.
	isSaid bool
}

// factor is what the score of a tool is worth for the wish.
func (w wish) factor(tool intent) float32 {
	isOpposite := w.intent == reads || tool == reads || w.intent == creates && tool == deletes || w.intent == deletes && tool == creates
	switch {
	case w.intent == 0 || tool == 0 || w.intent&tool != 0:
		return 1
	case !isOpposite:
		return otherEffect
	case w.isSaid:
		return excludedSaid
	default:
		return excludedUnsaid
	}
}

// intentOfName is that of the verbs that a name begins with, once the nouns in front of them are passed: LeaseGrant,
// CheckAndMutateRow.
func (t *thesaurus) intentOfName(name string) intent {
	var out intent
	for word := range words(name) {
		of := t.intents[stem(word)]
		switch {
		case of != 0 && !strings.HasSuffix(word, "s") && !isParticiple(word):
			out |= of
		case out != 0 && word != "and":
			return out
		}
	}
	return out
}

// wishOf reads the first verb of a query.
func (t *thesaurus) wishOf(query []string) wish {
	isQuestion := len(query) > 0 && t.questions[query[0]]
	for len(query) > 0 && t.openers[query[0]] {
		query = query[1:]
	}
	if len(query) == 0 {
		return wish{}
	}
	first, second := query[0], ""
	if len(query) > 1 {
		second = query[1]
	}
	isPlural := strings.HasSuffix(first, "s") && stem(first) != first
	if of := t.intents[stem(first)]; of != 0 && !isPlural && !isParticiple(first) {
		return wish{of, true}
	}
	switch {
	case isQuestion || t.determiners[first]:
		return wish{reads, false}
	case t.determiners[second] && !t.prepositions[first]:
		return wish{effects, true}
	case t.verbs[stem(first)] && !isPlural && !isParticiple(first) && second != "" && !t.after[second]:
		return wish{} // a verb, or a noun: "schedule daily backups"
	default:
		return wish{reads, false}
	}
}

// verbSynonyms are groups of verbs that callers use for one another. A word may be in many groups. They are common words of
// APIs, not those of one API.
func verbSynonyms() []string {
	return []string{
		"get fetch read show retrieve view describe display see look lookup inspect details information info",
		"list enumerate browse all which every available show",
		"list find search",
		"get find search",
		"read scan",
		"create add new make insert register provision generate define build",
		"start run begin launch execute trigger invoke",
		"delete remove drop erase destroy purge clear discard empty",
		"update change modify edit alter rename patch adjust reconfigure resize extend scale",
		"set change assign resize configure turn",
		"write put save store upload insert publish change set",
		"terminate stop kill end abort halt",
		"cancel stop abort",
		"shutdown stop shut",
		"pause suspend hold freeze",
		"unpause resume continue",
		"restore undelete recover",
		"reset rewind restart retry",
		"check verify validate test evaluate allowed permitted may",
		"grant give allow permit assign",
		"revoke take withdraw remove",
		"send publish emit push",
		"receive pull poll consume",
		"poll wait",
		"watch follow subscribe tail observe notify listen",
		"count number total",
		"copy clone duplicate",
		"move transfer migrate relocate",
		"enable activate",
		"disable deactivate",
		"rollback undo revert",
		"record report",
		"renew keep refresh alive",
		"register join connect",
		"authenticate login token",
		"promote raise",
		"compare conditional condition if",
		"create introduce allocate deploy issue initialize put spin bring",
		"create import",
		"start submit initiate fire activate",
		"delete wipe deregister unregister uninstall prune forget dismiss",
		"update replace correct tweak revise amend upgrade increase decrease raise lower grow shrink switch",
		"attach associate link bind connect add",
		"detach dissociate unlink unbind disconnect remove",
		"acknowledge ack confirm accept",
		"negative reject refuse decline",
		"seek rewind replay",
		"compact defragment reclaim free shrink vacuum",
		"export dump extract download",
		"import load ingest upload restore",
		"lock acquire hold claim",
		"unlock release",
		"expand explain tree",
		"finalize complete finish end",
		"notify signal inform",
		"elect campaign",
		"test try verify validate dry",
		"wait block",
		"complete succeed success",
		"fail failed failure error",
		"ban block deny",
		"rotate renew replace",
		"delete erase wipe tear",
		"remove kick expel evict",
		"discard throw compact delete",
		"export snapshot dump backup download",
		"extend prolong renew keep alive longer",
		"rollback abort revert undo downgrade",
		"commit finish complete save",
		"sink route export forward",
		"truncate drop empty",
		"grant give set allow share",
		"pull receive consume messages",
		"compare hash diff",
		"change mutate write",
		"request ask",
		"read look lookup find range",
		"unsubscribe delete subscription",
		"position snapshot",
		"save create store",
		// Of operating systems.
		"exec execute run spawn command",
		"kill terminate stop end quit halt interrupt",
		"mount attach bind map",
		"unmount umount detach unbind eject",
		"restart reboot reload",
		"use consume consumption occupy",
		"delete remove rm unlink",
		"copy cp",
	}
}

// nounSynonyms are groups of other words that callers use for one another, and abbreviations of names with what they stand for.
func nounSynonyms() []string {
	return []string{
		"auth authentication authenticate authorization authn authz",
		"kv key",
		"txn tx transaction",
		"id identifier",
		"ns namespace",
		"org organization",
		"repo repository",
		"env environment",
		"app application",
		"spec specification",
		"param parameter",
		"stats statistics",
		"perm permission",
		"attr attribute",
		"cert certificate",
		"msg message",
		"op operation",
		"addr address",
		"dir directory folder",
		"doc document",
		"mgmt management",
		"mem memory",
		"pwd passwd password",
		"prod production",
		"req request",
		"resp response",
		"svc service",
		"sub subscription",
		"vol volume",
		"wf workflow",
		"async asynchronous",
		"ts timestamp",
		"exec execute execution",
		"init initialize",
		"desc description describe",
		"permission access privilege right",
		"changes events updates changelog",
		"policy access rule",
		"closed finished completed ended past",
		"open running active current",
		"user account person people who",
		"member node peer",
		"backup snapshot",
		"history event past",
		"schedule cron periodic recurring daily",
		"version revision",
		"config configuration setting option",
		"status state health healthy progress version",
		"ttl expire expiry expiration expires remaining",
		"grant expire",
		"retention keep",
		"database db",
		"kubernetes k8s container gke",
		"batch bulk many several multiple",
		"transaction txn atomic atomically",
		"snooze silence mute",
		"alert alarm alerting",
		"metric measurement usage series",
		"entries logs",
		"message messages event",
		"subscription subscriber subscribe",
		"queue backlog",
		"partition shard",
		"schema ddl definition",
		"key prefix",
		"row rows record",
		"hash checksum digest",
		"instance server machine host",
		"worker poller",
		"error failure problem crash exception fault",
		"document file object resource",
		"log logs line lines",
		"sink export destination route",
		"exclusion exclude filter ignore",
		"uptime availability",
		"collection set group",
		"label tag annotation attribute",
		"limit quota rate throttle",
		"size capacity",
		"profile routing",
		"credentials secret",
		"assertion test tests",
		"tuple relationship relation relations",
		"information metadata properties",
		"namespace tenant project",
		"leader primary master leadership",
		"alive heartbeat keepalive liveness",
		"region zone location",
		"query statement sql",
		"table tables",
		"index secondary",
		"rule rules policy",
		"deadline timeout",
		"deployment release rollout",
		"comment note",
		"upgrade version",
		"address endpoint url",
		"image picture",
		"retention kept keep long bucket",
		"region regions location locations zone zones config",
		"encryption cmek key kms encrypted",
		"permission policy iam access",
		"slo objective level",
		"url uptime website site http",
		"kind type descriptor",
		"traffic ramping gradually percentage",
		"current promote active",
		"feature capability info system",
		"state status describe",
		"split sample points",
		"early warm prepare",
		"compile prepare",
		"precomputed materialized",
		"partition parallel",
		"error errors entries log",
		"subnets subnetworks network",
		"pid pids process",
		"tty pty terminal console",
		"io stdin stdout input output",
		"fs filesystem",
		"blob content",
		"daemon server",
		"plugin extension module",
		"disk space storage size use",
		"exit status",
		"permission chmod chown",
		"nic interface network device",
		"ram memory oom",
		"cpu processor",
		"volume disk device",
		"args argument parameter flag",
		"limit cgroup",
	}
}

// phrases are expressions of more than one word, and the words that they mean.
func phrases() map[string]string {
	return map[string]string{
		"turn on": "enable", "switch on": "enable", "turn off": "disable", "switch off": "disable",
		"set up": "create", "how many": "count", "how long": "ttl", "log in": "authenticate", "sign in": "authenticate",
		"back up": "backup", "shut down": "shutdown", "roll back": "rollback", "go back": "rollback",
		"bring back": "restore", "rid of": "delete", "time to live": "ttl", "take away": "revoke",
		"is there": "list", "are there": "list", "what are": "list", "at once": "batch", "one go": "batch",
		"get rid of": "delete", "get notified": "watch", "be notified": "watch", "be told": "watch", "how large": "size",
		"who may": "permission", "may i": "test permission", "every hour": "schedule",
	}
}

// questions are the words that questions begin with.
const questions = `who which what how is are when why where does do can may`

// answers are what questions ask for by the word that they begin with.
func answers() map[string]string {
	const verdict = "check test verify"
	return map[string]string{
		"who": "user member people",
		"is":  verdict + " status", "are": verdict + " status", "was": "check status",
		"can": verdict, "may": verdict, "does": verdict, "do": verdict, "has": verdict, "have": verdict,
		"why": "history explain describe", "when": "time schedule", "how": "count size status", "where": "location zone region endpoint",
	}
}

// readingVerbs are the verbs of tools that answer questions.
func readingVerbs() []string {
	return []string{"get", "describe", "read", "show", "fetch", "view", "check"}
}

// stopWords say nothing about what is looked for.
func stopWords() map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(`a an the of to in on at by for from with into and or as is are was were be been it its
		this that these those there here my your our their his her i me we you they them he she do does did can could may might must
		should will would want need please what when how why where whether than then so but not no s t d ll just only some any
		has have had one using via about between`) {
		out[word] = true
	}
	return out
}
