// SPDX-License-Identifier: Apache-2.0

// Package lint judges a list of tools by what clients and model providers do with it: what they refuse, cut or misread,
// and what a model cannot choose by.
//
// What is known of clients is data: [Facts] in facts.go, each with its source and date. A fact applies one [Rule] to one
// client, with its limits. The rules themselves know no client. [Run] applies the facts of the chosen clients, and those
// that hold for every client, and returns findings with what to do about each: lines for the configuration file where
// those can help.
//
// The package judges what a client sees and nothing else, so that a list that was saved is judged as the live one. It
// makes no calls and changes nothing. All functions are safe for concurrent use; a [Tool] is immutable.
package lint
