// SPDX-License-Identifier: Apache-2.0

package search

import "strings"

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
