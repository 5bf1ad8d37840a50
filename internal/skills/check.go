// SPDX-License-Identifier: Apache-2.0

package skills

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Check holds the entry of a skill against the rules of the extension that the contract's own do not have: the name is that
// of the folder, and the files are complete and below it, within the limits.
func Check(s *outriggerv1.Skill) error {
	folder, ok := strings.CutSuffix(s.GetUri(), "/"+FileName)
	if !ok {
		return fmt.Errorf("skill %s: the URI does not end in /%s", cut(s.GetUri()), FileName)
	}
	name, description := named(s)
	switch {
	case checkName(name) != nil:
		return fmt.Errorf("skill %s: %w", cut(s.GetUri()), checkName(name))
	case name != path.Base(folder):
		return fmt.Errorf("skill %s: the name in its frontmatter is %q", cut(s.GetUri()), cut(name))
	case description == "":
		return fmt.Errorf("skill %s: its frontmatter has no description", cut(s.GetUri()))
	case s.GetDynamic() && len(s.GetResources()) > 0:
		return fmt.Errorf("skill %s: it is dynamic and has digests", cut(s.GetUri()))
	case s.GetDynamic():
		return nil
	}
	if err := checkFiles(s, folder); err != nil {
		return fmt.Errorf("skill %s: %w", cut(s.GetUri()), err)
	}
	return nil
}

func checkFiles(s *outriggerv1.Skill, folder string) error {
	seen, size := map[string]bool{}, int64(0)
	for _, f := range s.GetResources() {
		switch {
		case seen[f.GetUri()]:
			return fmt.Errorf("the file %s is listed twice", cut(f.GetUri()))
		case !strings.HasPrefix(f.GetUri(), folder+"/"):
			return fmt.Errorf("the file %s is not in its folder", cut(f.GetUri()))
		}
		seen[f.GetUri()] = true
		size += f.GetSize()
	}
	most := Limits{}.withDefaults()
	switch {
	case !seen[s.GetUri()]:
		return errors.New("its files lack " + FileName)
	case len(seen) > most.MaxFiles:
		return fmt.Errorf("it has %d files; the limit is %d", len(seen), most.MaxFiles)
	case size > most.MaxBytes:
		return fmt.Errorf("its files have %d bytes; the limit is %d", size, most.MaxBytes)
	}
	return nil
}

// named returns the name and the description in the frontmatter of an entry.
func named(s *outriggerv1.Skill) (name, description string) {
	if fields := s.GetFrontmatter().GetFields(); fields != nil {
		return text(fields["name"]), text(fields["description"])
	}
	for key, raw := range jsontext.Members(s.GetFrontmatterJson()) {
		switch key {
		case "name":
			name, _ = jsontext.Text(raw)
		case "description":
			description, _ = jsontext.Text(raw)
		}
	}
	return name, description
}

func text(v *structpb.Value) string { return v.GetStringValue() }
