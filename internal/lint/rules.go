// SPDX-License-Identifier: Apache-2.0

package lint

// Rule is a property that a list of tools should have. Facts say which client asks for it.
type Rule struct {
	// ID names the rule. About says what should hold; %d stands for the limit of a fact.
	ID, About string
	// tool checks one tool, and list all of them. One of the two is set.
	tool func(c *check, t *Tool)
	list func(c *check)
}

// Rules lists all rules.
func Rules() []Rule {
	return []Rule{
		{ID: "tool-count", About: "the list has at most so many tools", list: (*check).toolCount},
		{ID: "tool-count-advised", About: "the list has at most so many tools, as is advised", list: (*check).toolCount},
		{ID: "tool-tokens", About: "a tool costs at most so many tokens", tool: (*check).toolTokens},
		{ID: "list-tokens", About: "the list costs at most so many tokens", list: (*check).listTokens},

		{ID: "name-length", About: "the name has at most so many characters, with the prefix that the client adds", tool: (*check).nameLength},
		{ID: "name-pattern", About: "the name has no other characters than those of the pattern", tool: (*check).namePattern},
		{ID: "name-unique", About: "no two tools have one name in MCP's list", list: (*check).nameUnique},
		{ID: "name-similar", About: "names differ in more than case, separators and plural", list: (*check).nameSimilar},

		{ID: "title-missing", About: "the tool has a title", tool: (*check).titleMissing},
		{ID: "description-missing", About: "somebody describes the tool", tool: (*check).descriptionMissing},
		{ID: "description-short", About: "the description has at least so many characters, and says more than the name", tool: (*check).descriptionShort},
		{ID: "description-length", About: "the description has at most so many characters", tool: (*check).descriptionLength},
		{ID: "description-same", About: "no two tools have one description", list: (*check).descriptionSame},
		{ID: "property-description", About: "each property has a description", tool: (*check).propertyDescription},

		{ID: "hints-conflict", About: "a tool that only reads is not destructive", tool: (*check).hintsConflict},
		{ID: "hint-not-destructive", About: "a tool that deletes, by its name, is shown as destructive", tool: (*check).hintNotDestructive},
		{ID: "hint-not-read-only", About: "a tool that changes something, by its name, is not shown as read-only", tool: (*check).hintNotReadOnly},
		{ID: "hint-destructive", About: "a tool that reads, by its name, is not shown as destructive", tool: (*check).hintDestructive},
		{ID: "hint-missing", About: "a tool that reads, by its name, is shown as read-only", tool: (*check).hintMissing},

		{ID: "root-type", About: `the root of the schema has "type": "object"`, tool: (*check).rootType},
		{ID: "root-properties", About: `the root of the schema has "properties"`, tool: (*check).rootProperties},
		{ID: "root-combinator", About: "the root of the schema has none of the keywords", tool: (*check).rootCombinator},
		{ID: "property-name", About: "names of arguments match the pattern", tool: (*check).propertyName},
		{ID: "keyword", About: "the schema has none of the keywords", tool: (*check).keyword},
		{ID: "format", About: "strings have no other formats than these", tool: (*check).format},
		{ID: "type-list", About: `"type" is one name, not a list`, tool: (*check).typeList},
		{ID: "enum-type", About: "values of an enum are strings", tool: (*check).enumType},
		{ID: "array-items", About: `an array has "items"`, tool: (*check).arrayItems},
		{ID: "empty-object", About: "an object below the root has properties", tool: (*check).emptyObject},
		{ID: "required-all", About: "each property is required", tool: (*check).requiredAll},
		{ID: "closed-objects", About: `each object has "additionalProperties": false`, tool: (*check).closedObjects},
		{ID: "ref", About: "the schema has no $ref", tool: (*check).ref},
		{ID: "recursive-ref", About: "the schema does not contain itself by $ref", tool: (*check).recursiveRef},
		{ID: "dangling-ref", About: "each $ref leads to a place in the schema", tool: (*check).danglingRef},
		{ID: "depth", About: "objects and arrays are nested in at most so many levels", tool: (*check).depth},
		{ID: "property-count", About: "the schema has at most so many properties", tool: (*check).propertyCount},
		{ID: "enum-size", About: "all enums of the schema have at most so many values together", tool: (*check).enumSize},
		{ID: "enum-text", About: "the values of an enum of more than 250 have at most so many characters together", tool: (*check).enumText},
		{ID: "schema-text", About: "names of properties and values of enums have at most so many characters together", tool: (*check).schemaText},
	}
}

// isOfSchemas reports whether the rule can be applied to schemas alone.
func (f Fact) isOfSchemas() bool { return f.Where != 0 && f.Client != "" }
