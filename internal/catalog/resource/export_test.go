// SPDX-License-Identifier: Apache-2.0

package resource

// MaxURIBytes is the longest URI that is matched.
func MaxURIBytes() int { return limits().uri }

// MatchURI matches a URI against the method's template alone.
func (m *Method) MatchURI(uri string) (map[string]string, bool) { return m.template.match(uri) }

// Expand makes a URI of values.
func (m *Method) Expand(values map[string]string) string { return m.template.expand(values) }

// Literals is how particular the template is.
func (m *Method) Literals() int { return m.template.literals }
