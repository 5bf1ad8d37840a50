// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// skillFrontmatter is the YAML at the beginning of a SKILL.md.
type skillFrontmatter struct {
	Name, Description string
	// JSON is all of it as a JSON object, with its members in their order.
	JSON []byte
}

// reservedPrefix is that of keys of `metadata` which extensions of MCP define.
const reservedPrefix = "io.modelcontextprotocol/"

// parseFrontmatter reads the frontmatter of a SKILL.md: YAML between two lines "---", the first of which begins the file.
// Name and description must fit the Agent Skills specification. What JSON cannot say is an error: aliases, tags other
// than YAML's own, keys that are no scalars, and numbers that versions of YAML read differently.
func parseFrontmatter(file []byte) (skillFrontmatter, error) {
	var out skillFrontmatter
	if !utf8.Valid(file) {
		return out, errors.New("it is not UTF-8")
	}
	text, err := cutFrontmatter(file)
	if err != nil {
		return out, err
	}
	if len(text) > maxFrontmatter {
		return out, fmt.Errorf("the frontmatter has %d bytes; the limit is %d", len(text), maxFrontmatter)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return out, fmt.Errorf("the frontmatter is no YAML: %w", err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return out, errors.New("the frontmatter is no mapping; give it a name and a description")
	}
	top := document.Content[0]
	if out.JSON, err = appendNode(nil, top, 0); err != nil {
		return out, err
	}
	if out.Name, err = textOf(top, "name"); err == nil {
		out.Description, err = textOf(top, "description")
	}
	if err == nil {
		err = out.check(top)
	}
	return out, err
}

// cutFrontmatter returns what is between the lines.
func cutFrontmatter(file []byte) ([]byte, error) {
	file = bytes.TrimPrefix(file, []byte("\ufeff"))
	var first []byte
	first, rest, ok := bytes.Cut(file, []byte("\n"))
	if !ok || string(bytes.TrimSuffix(first, []byte("\r"))) != "---" {
		return nil, errors.New(`it does not begin with a line "---" and YAML frontmatter`)
	}
	for at := 0; at < len(rest); {
		line := rest[at:]
		end := bytes.IndexByte(line, '\n')
		if end >= 0 {
			line = line[:end]
		}
		if string(bytes.TrimRight(bytes.TrimSuffix(line, []byte("\r")), " \t")) == "---" {
			return rest[:at], nil
		}
		if end < 0 {
			break
		}
		at += end + 1
	}
	return nil, errors.New(`the frontmatter does not end: a line "---" is missing`)
}

// check holds name and description against the Agent Skills specification.
func (f *skillFrontmatter) check(top *yaml.Node) error {
	if err := checkSkillName(f.Name); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(f.Description); n > maxDescriptionChars {
		return fmt.Errorf("the description has %d characters; the limit is %d", n, maxDescriptionChars)
	}
	if metadata := valueOf(top, "metadata"); metadata != nil && metadata.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(metadata.Content); i += 2 {
			if key := metadata.Content[i].Value; strings.HasPrefix(key, reservedPrefix) {
				return fmt.Errorf("metadata key %q: the prefix %s is reserved", key, reservedPrefix)
			}
		}
	}
	return nil
}

var namePattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// checkSkillName holds a name against the naming rules of skills.
func checkSkillName(name string) error {
	if len(name) > maxNameChars || !namePattern.MatchString(name) {
		return fmt.Errorf("the name %q is not valid: use 1 to %d lower-case letters and digits, with single hyphens between them", shorten(name), maxNameChars)
	}
	return nil
}

// shorten shortens a text that is shown.
func shorten(text string) string {
	const most = 100
	if utf8.RuneCountInString(text) > most {
		return string([]rune(text)[:most]) + "…"
	}
	return text
}

func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// textOf is a member that must be a text.
func textOf(mapping *yaml.Node, key string) (string, error) {
	switch v := valueOf(mapping, key); {
	case v == nil:
		return "", fmt.Errorf("the frontmatter has no %s", key)
	case v.Kind != yaml.ScalarNode || v.ShortTag() != "!!str":
		return "", fmt.Errorf("%s in the frontmatter is no text; put it in quotes", key)
	case strings.TrimSpace(v.Value) == "":
		return "", fmt.Errorf("%s in the frontmatter is empty", key)
	default:
		return v.Value, nil
	}
}

// appendNode appends a value as JSON.
func appendNode(dst []byte, n *yaml.Node, depth int) ([]byte, error) {
	if depth > maxValueDepth {
		return nil, fmt.Errorf("line %d: the frontmatter is nested more than %d levels deep", n.Line, maxValueDepth)
	}
	var err error
	switch n.Kind {
	case yaml.MappingNode:
		if n.ShortTag() != "!!map" {
			return nil, tagError(n)
		}
		seen := make(map[string]bool, len(n.Content)/2)
		dst = append(dst, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch {
			case key.Kind != yaml.ScalarNode:
				return nil, fmt.Errorf("line %d: a key of the frontmatter is no text", key.Line)
			case seen[key.Value]:
				return nil, fmt.Errorf("line %d: the key %q is given twice", key.Line, shorten(key.Value))
			}
			seen[key.Value] = true
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsontext.AppendString(dst, key.Value), ':')
			if dst, err = appendNode(dst, n.Content[i+1], depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case yaml.SequenceNode:
		if n.ShortTag() != "!!seq" {
			return nil, tagError(n)
		}
		dst = append(dst, '[')
		for i, item := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendNode(dst, item, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case yaml.ScalarNode:
		return appendScalar(dst, n)
	}
	return nil, fmt.Errorf("line %d: aliases are not supported in the frontmatter; write the value again", n.Line)
}

// appendScalar appends a scalar as JSON. A date is a text, because JSON has none.
func appendScalar(dst []byte, n *yaml.Node) ([]byte, error) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp", "!!merge":
		return jsontext.AppendString(dst, n.Value), nil
	case "!!null":
		return append(dst, "null"...), nil
	case "!!bool":
		var v bool
		if err := n.Decode(&v); err != nil {
			return nil, valueError(n)
		}
		return strconv.AppendBool(dst, v), nil
	case "!!int", "!!float":
		return appendNumber(dst, n)
	}
	return nil, tagError(n)
}

// plainNumber is a decimal number that every version of YAML reads as the same one: not 0777, 0x1f or 1_000.
var plainNumber = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func appendNumber(dst []byte, n *yaml.Node) ([]byte, error) {
	if !plainNumber.MatchString(n.Value) {
		return nil, valueError(n)
	}
	if number, err := strconv.ParseFloat(n.Value, 64); err != nil || math.IsInf(number, 0) {
		return nil, valueError(n)
	}
	return append(dst, strings.TrimPrefix(n.Value, "+")...), nil // which is JSON
}

func valueError(n *yaml.Node) error {
	return fmt.Errorf("line %d: %q has no form in JSON; put it in quotes", n.Line, shorten(n.Value))
}

func tagError(n *yaml.Node) error {
	return fmt.Errorf("line %d: the tag %s is not supported in the frontmatter", n.Line, shorten(n.Tag))
}
