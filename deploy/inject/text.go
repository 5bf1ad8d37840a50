// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// errRewrite says that a document has to be rendered anew, because a map or list is
// in flow style or empty.
var errRewrite = errors.New("not in block style")

func sorted(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }

// text makes the edit in a document. It inserts lines before the first entry of the
// map or list, which leaves all other bytes; where that cannot be done the
// document is rendered anew, with its comments.
func (e Edit) text(chunk []byte) ([]byte, error) {
	root, err := parseNode(chunk)
	if err != nil {
		return nil, err
	}
	node, missing, err := walk(root, e.Path)
	if err != nil {
		return nil, err
	}
	// What is missing is made with the value in it.
	key, value := e.Key, e.Value
	if len(missing) > 0 {
		if key == "" {
			value = []any{value}
		} else {
			value = map[string]any{key: value}
		}
		for _, name := range slices.Backward(missing[1:]) {
			value = map[string]any{name: value}
		}
		key = missing[0]
	}
	var fresh yaml.Node
	if err := fresh.Encode(value); err != nil {
		return nil, err
	}
	nameFirst(&fresh)
	out, err := insert(chunk, node, key, &fresh)
	if !errors.Is(err, errRewrite) {
		return out, err
	}
	if key != "" {
		if old := entry(node, key); old >= 0 {
			node.Content[old+1] = &fresh
			return rewrite(chunk, root)
		}
		name := &yaml.Node{Kind: yaml.ScalarNode, Value: key}
		node.Kind, node.Tag, node.Value = yaml.MappingNode, "", ""
		node.Content = append([]*yaml.Node{name, &fresh}, node.Content...)
	} else {
		node.Kind, node.Tag, node.Value = yaml.SequenceNode, "", ""
		node.Content = append([]*yaml.Node{&fresh}, node.Content...)
	}
	return rewrite(chunk, root)
}

// nameFirst puts the name of each element of a list first, as people write it.
func nameFirst(node *yaml.Node) {
	for _, inner := range node.Content {
		nameFirst(inner)
	}
	if at := entry(node, "name"); at > 0 {
		key, value := node.Content[at], node.Content[at+1]
		node.Content = slices.Insert(slices.Delete(node.Content, at, at+2), 0, key, value)
	}
}

// insert inserts the text of a value.
func insert(chunk []byte, node *yaml.Node, key string, fresh *yaml.Node) ([]byte, error) {
	if node.Style&yaml.FlowStyle != 0 || len(node.Content) == 0 {
		return nil, errRewrite
	}
	if key != "" {
		if node.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("line %d: is not a map", node.Line)
		}
		if old := entry(node, key); old >= 0 {
			return replaceScalar(chunk, node.Content[old+1], fresh)
		}
		fresh = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, fresh}}
	} else {
		if node.Kind != yaml.SequenceNode {
			return nil, fmt.Errorf("line %d: is not a list", node.Line)
		}
		fresh = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{fresh}}
	}
	text, err := encode(fresh)
	if err != nil {
		return nil, err
	}
	offset, indent := place(chunk, node)
	if !opensLine(chunk, node, offset) {
		return nil, errRewrite
	}
	var b bytes.Buffer
	b.Write(chunk[:offset])
	for line := range strings.Lines(string(endLines(chunk, text))) {
		b.WriteString(line)
		b.WriteString(strings.Repeat(" ", indent))
	}
	b.Write(chunk[offset:])
	return b.Bytes(), nil
}

// place is the offset of the first entry of a map or list, and its column from 0.
func place(chunk []byte, node *yaml.Node) (offset, column int) {
	if node.Kind == yaml.SequenceNode { // begins at its first dash
		return offsetOf(chunk, node), node.Column - 1
	}
	return offsetOf(chunk, node.Content[0]), node.Content[0].Column - 1
}

// opensLine reports whether lines may be inserted before the first entry of a map or list: it has no tag, and its key no question mark.
func opensLine(chunk []byte, node *yaml.Node, offset int) bool {
	if node.Kind == yaml.SequenceNode {
		return offset < len(chunk) && chunk[offset] == '-'
	}
	line := chunk[bytes.LastIndexByte(chunk[:offset], '\n')+1 : offset]
	return !bytes.ContainsRune(line, '?')
}

// endLines ends the lines of a text as those of a document end.
func endLines(chunk, text []byte) []byte {
	if first := bytes.IndexByte(chunk, '\n'); first < 1 || chunk[first-1] != '\r' {
		return text
	}
	return bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
}

// offsetOf is where a node begins. Before it, a line has blanks and dashes only, or
// a key; columns count characters.
func offsetOf(chunk []byte, node *yaml.Node) int {
	offset := 0
	for range node.Line - 1 {
		offset += bytes.IndexByte(chunk[offset:], '\n') + 1
	}
	column := 1
	for n := range string(chunk[offset:]) {
		if column == node.Column {
			return offset + n
		}
		column++
	}
	return len(chunk)
}

// replaceScalar changes a plain value in its line.
func replaceScalar(chunk []byte, old, fresh *yaml.Node) ([]byte, error) {
	offset := offsetOf(chunk, old)
	if old.Kind != yaml.ScalarNode || fresh.Tag != "!!int" || !bytes.HasPrefix(chunk[offset:], []byte(old.Value)) || old.Value == "" {
		return nil, errRewrite
	}
	return slices.Concat(chunk[:offset], []byte(fresh.Value), chunk[offset+len(old.Value):]), nil
}

// removal takes a key out of a map, or an element out of a list by its name. What
// is empty then goes too, except for the pod's spec.
type removal struct {
	path      []string
	key, name string
}

func (r removal) text(chunk []byte) ([]byte, error) {
	root, err := parseNode(chunk)
	if err != nil {
		return nil, err
	}
	node, missing, err := walk(root, r.path)
	if err != nil || len(missing) > 0 {
		return chunk, err
	}
	start, step := entry(node, r.key), 2
	if r.key == "" {
		step = 1
		start = slices.IndexFunc(node.Content, func(n *yaml.Node) bool {
			at := entry(n, "name")
			return at >= 0 && n.Content[at+1].Value == r.name
		})
	}
	if start < 0 {
		return chunk, nil
	}
	if len(node.Content) == step && len(r.path) > 1 {
		return removal{path: r.path[:len(r.path)-1], key: r.path[len(r.path)-1]}.text(chunk)
	}
	if node.Style&yaml.FlowStyle == 0 && start+step < len(node.Content) {
		from, to := offsetOf(chunk, node.Content[start]), offsetOf(chunk, node.Content[start+step])
		if node.Kind == yaml.SequenceNode {
			// Elements begin after their dashes, which have one column.
			back := node.Content[start].Column - node.Column
			from, to = from-back, to-(node.Content[start+step].Column-node.Column)
		}
		if from >= 0 && from < to && (node.Kind == yaml.MappingNode || chunk[from] == '-' && chunk[to] == '-') {
			return slices.Concat(chunk[:from], chunk[to:]), nil
		}
	}
	node.Content = slices.Delete(node.Content, start, start+step)
	return rewrite(chunk, root)
}

// parseNode reads a document.
func parseNode(chunk []byte) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(chunk, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, errors.New("the document is empty")
	}
	return &document, nil
}

// walk follows a path to its end, or to the last map that is there.
func walk(document *yaml.Node, path []string) (node *yaml.Node, missing []string, err error) {
	node = document.Content[0]
	for n, name := range path {
		if err := single(node, path[:n]); err != nil {
			return nil, nil, err
		}
		if node.Kind == yaml.SequenceNode {
			index, err := strconv.Atoi(name)
			if err != nil || index >= len(node.Content) {
				return nil, nil, fmt.Errorf("line %d: %s has no element %s", node.Line, strings.Join(path[:n], "."), name)
			}
			node = node.Content[index]
			continue
		}
		at := entry(node, name)
		if at < 0 && merges(node, name) {
			return nil, nil, fmt.Errorf("line %d: %s is from a YAML merge key (<<); write it out", node.Line, strings.Join(path[:n+1], "."))
		}
		if at < 0 {
			return node, path[n:], nil
		}
		node = node.Content[at+1]
	}
	return node, nil, single(node, path)
}

// single refuses a map or list that is in two places of the document.
func single(node *yaml.Node, path []string) error {
	if node.Kind == yaml.AliasNode || node.Anchor != "" {
		return fmt.Errorf("line %d: %s is shared by a YAML anchor; write it out", node.Line, strings.Join(path, "."))
	}
	return nil
}

// merges reports whether a merge key gives a map that entry: an entry beside it would take its place.
func merges(node *yaml.Node, key string) bool {
	var all map[string]yaml.Node
	if entry(node, "<<") < 0 || node.Decode(&all) != nil {
		return false
	}
	_, found := all[key]
	return found
}

// entry is the index of a key in a map, or -1.
func entry(node *yaml.Node, key string) int {
	if node.Kind != yaml.MappingNode {
		return -1
	}
	for n := 0; n < len(node.Content); n += 2 {
		if node.Content[n].Value == key {
			return n
		}
	}
	return -1
}

// rewrite renders a document anew, between the lines that begin and end it.
func rewrite(chunk []byte, root *yaml.Node) ([]byte, error) {
	text, err := encode(root)
	if err != nil {
		return nil, err
	}
	var head, tail []byte
	begun := false
	for line := range bytes.Lines(chunk) {
		switch {
		case line[0] == '%' && !begun:
			head = append(head, line...)
		case marks(line, "---"):
			head = append(head, endLines(chunk, []byte("---\n"))...)
			begun = true
		case marks(line, "..."):
			tail = line
		default:
			begun = true
		}
	}
	return slices.Concat(head, endLines(chunk, text), tail), nil
}

func encode(node *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(node), e.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
