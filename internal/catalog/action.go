// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
)

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
	if len(parts) > 1 && isVerb(parts[1]) {
		switch strings.ToLower(parts[0]) {
		case "batch":
			parts, suffix = parts[1:], " in one batch"
		case "stream", "streamed", "streaming":
			parts, suffix = parts[1:], " as a stream"
		}
	}
	name := cutRunes(humanWords(parts), maxPhraseRunes)
	if !isVerb(parts[0]) {
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
	case !isCreating(parts[0]):
		article = "the "
	case !isUncountable(head):
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
		case isAcronym(lower):
			parts[i] = strings.ToUpper(w)
		case strings.HasSuffix(lower, "s") && isAcronym(strings.TrimSuffix(lower, "s")):
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

func isAcronym(word string) bool {
	switch word {
	case "id", "url", "uri", "uuid", "ip", "api", "http", "json", "sql", "ttl", "dns", "tls", "acl", "iam", "cpu", "gpu", "os", "vm":
		return true
	}
	return false
}

// isVerb reports whether methods whose names begin with the word do what it says: the verbs of AIP-131 to 136 and AIP-231
// to 235, and those that are common in public APIs.
func isVerb(word string) bool {
	switch strings.ToLower(word) {
	case "get", "list", "create", "update", "delete", "undelete", "search", "purge", "import", "export", "query",
		"abort", "accept", "acknowledge", "activate", "add", "analyze", "append", "apply", "approve", "archive", "assign", "attach",
		"authenticate", "authorize", "backup", "begin", "bind", "block", "build", "calculate", "call", "cancel", "change", "check",
		"clear", "clone", "close", "commit", "compact", "complete", "compute", "configure", "confirm", "connect", "convert", "copy",
		"count", "deactivate", "decrypt", "deploy", "deregister", "describe", "detach", "diagnose", "disable", "disconnect", "download",
		"drain", "drop", "edit", "enable", "encrypt", "enqueue", "estimate", "evaluate", "execute", "expand", "explain", "extend",
		"fail", "fetch", "filter", "find", "finish", "flush", "force", "generate", "grant", "inspect", "insert", "install", "invoke",
		"join", "kill", "launch", "leave", "link", "load", "lock", "login", "logout", "lookup", "make", "mark", "merge", "migrate",
		"modify", "move", "mutate", "notify", "observe", "open", "parse", "patch", "pause", "ping", "poll", "post", "predict", "preview",
		"process", "promote", "provision", "publish", "pull", "push", "put", "read", "rebuild", "receive", "record", "refresh", "register",
		"reject", "release", "reload", "remove", "rename", "renew", "repair", "replace", "report", "request", "reset", "resize",
		"resolve", "respond", "restart", "restore", "resume", "retrieve", "retry", "revoke", "rollback", "rotate", "run", "save", "scale",
		"scan", "schedule", "select", "send", "set", "show", "sign", "signal", "simulate", "sort", "split", "start", "stop", "store",
		"submit", "subscribe", "suspend", "swap", "sync", "tail", "terminate", "test", "transfer", "transform", "translate", "trigger",
		"unarchive", "unassign", "unbind", "unblock", "uninstall", "unlink", "unlock", "unregister", "unsubscribe", "upgrade", "upload",
		"upsert", "validate", "verify", "wait", "watch", "withdraw", "write":
		return true
	}
	return false
}

// isCreating holds for verbs whose object is not there before.
func isCreating(verb string) bool {
	switch strings.ToLower(verb) {
	case "add", "create", "generate", "insert", "make", "post", "publish", "register", "schedule", "send", "start", "submit", "open", "launch", "build":
		return true
	}
	return false
}

// headNoun is the noun of an object: its last word before a preposition. Empty where the object begins with one, so that
// it takes no article: "Get by name", "List all books".
func headNoun(object []string) string {
	end := slices.IndexFunc(object, func(w string) bool {
		switch strings.ToLower(w) {
		case "by", "to", "from", "for", "with", "without", "and", "or", "in", "into", "of", "on", "at", "as", "if", "via":
			return true
		}
		return false
	})
	switch {
	case end < 0:
		end = len(object)
	case end == 0:
		return ""
	}
	switch strings.ToLower(object[0]) {
	case "all", "any", "my", "is", "multi", "multiple":
		return ""
	}
	return object[end-1]
}

func isPlural(word string) bool {
	lower := strings.ToLower(word)
	switch lower {
	case "children", "people", "data", "metadata", "media", "indices", "news":
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

func isUncountable(word string) bool {
	switch strings.ToLower(word) {
	case "access", "config", "feedback", "health", "history", "info", "information", "text", "traffic", "usage":
		return true
	}
	return false
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
