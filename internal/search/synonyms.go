// SPDX-License-Identifier: Apache-2.0

package search

import "strings"

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
