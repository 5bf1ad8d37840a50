// SPDX-License-Identifier: Apache-2.0

package schema

// ConsentForm returns the schema of a form with nothing to fill in, in the subset of JSON Schema for forms (MCP,
// elicitation): a user accepts or declines it.
func ConsentForm() []byte { return []byte(`{"type":"object","properties":{}}`) }
