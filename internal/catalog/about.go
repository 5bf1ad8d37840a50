// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxInstructions bounds what services say of themselves in Instructions, in characters: a model reads all of it in every
// session, and clients cut texts of more than 2 KB.
const maxInstructions = 2000

// About is how the services of a catalog name themselves. What none of them says is empty.
type About struct{ Name, Title, Version string }

// offering are the services with tools that callers see. Those of Google's packages that serve every API, such as
// google.longrunning, do not count beside others.
func (c *Catalog) offering() []Service {
	out := slices.DeleteFunc(slices.Clone(c.lists().services), func(s Service) bool {
		return s.Descriptor == nil || !slices.ContainsFunc(s.Tools, func(t *Tool) bool { return !t.Hidden })
	})
	isGoogle := func(s Service) bool { return strings.HasPrefix(s.Name, "google.") }
	if slices.ContainsFunc(out, func(s Service) bool { return !isGoogle(s) }) {
		out = slices.DeleteFunc(out, isGoogle)
	}
	return out
}

// About returns how the catalog names itself: as the native backend does, else by its service's full name, or by the package
// that all of several services have in common. Title and version are those that all services agree on.
func (c *Catalog) About() About {
	services := c.offering()
	said := About{Name: commonName(services)}
	for i, s := range services {
		if i == 0 {
			said.Title, said.Version = s.about.title, s.about.version
		}
		if s.about.title != said.Title {
			said.Title = ""
		}
		if s.about.version != said.Version {
			said.Version = ""
		}
	}
	d := c.description
	if d.GetName() != "" {
		return About{d.GetName(), d.GetTitle(), cmp.Or(d.GetVersion(), said.Version)}
	}
	return About{said.Name, cmp.Or(d.GetTitle(), said.Title), cmp.Or(d.GetVersion(), said.Version)}
}

// commonName is the name of one service, or the package around all of several; empty if they have none in common.
func commonName(services []Service) string {
	if len(services) == 0 {
		return ""
	}
	if len(services) == 1 {
		return services[0].Name
	}
	common := strings.Split(string(protoreflect.FullName(services[0].Name).Parent()), ".")
	for _, s := range services[1:] {
		other, n := strings.Split(string(protoreflect.FullName(s.Name).Parent()), "."), 0
		for n < min(len(common), len(other)) && common[n] == other[n] {
			n++
		}
		common = common[:n]
	}
	return strings.Join(common, ".")
}

// Instructions returns what models read of the catalog before its tools: the native backend's instructions, else the comment
// of its service, or the first sentences of the comments of several. It is empty if there are none.
func (c *Catalog) Instructions() string {
	if text := c.description.GetInstructions(); text != "" {
		return text
	}
	services := c.offering()
	if len(services) == 1 {
		return services[0].about.text
	}
	var out strings.Builder
	left := maxInstructions
	for i, s := range services {
		sentence := s.Summary()
		if sentence == "" {
			continue
		}
		line := string(s.Descriptor.Name()) + ": " + sentence
		if out.Len() > 0 {
			line = "\n" + line
		}
		if left -= utf8.RuneCountInString(line); left < 0 {
			out.WriteString("\nAnd " + strconv.Itoa(len(services)-i) + " more services.")
			break
		}
		out.WriteString(line)
	}
	return out.String()
}
