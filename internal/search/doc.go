// SPDX-License-Identifier: Apache-2.0

// Package search ranks short documents, such as descriptions of tools, by how well they match a query in words.
//
// An [Index] is made once from all documents and never changes. Its score is BM25 over weighted fields: the words of a
// name count most, then those of its group, of texts, of field names and of enum values. A query matches word forms
// ("backups", "backing up"), synonyms of common verbs and nouns ("remove" finds "delete"; near words count less, see
// loose.go), and words with typing errors if they match nothing else. What the query wants done is read from its first verb
// (intent.go): what only reads is not the answer to "remove". What a query only describes, behind a preposition or as a
// participle, counts less.
//
// The package knows nothing of tools, catalogs or permissions: its caller says which documents may be found. Everything is
// safe for concurrent use.
package search
