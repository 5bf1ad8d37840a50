// SPDX-License-Identifier: Apache-2.0

package report

// What the tests of lint and server.json need to see.

type (
	UnknownClientError = unknownClientError
	SchemaSide         = schemaSide
)

const (
	InputSchemas         = inputSchemas
	OutputSchemas        = outputSchemas
	MaxServerDescription = maxServerDescription
)

func Facts() []lintFact     { return lintFacts() }
func Rules() []lintRule     { return lintRules() }
func Clients() []lintClient { return lintClients() }
