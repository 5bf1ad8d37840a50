// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"errors"
	"fmt"
	"strings"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// OpenSkills reads the folders of skills of a configuration, nil if there are none.
func OpenSkills(cfg *configv1.Config) (*Skills, error) {
	folders := cfg.GetCatalog().GetSkills()
	if len(folders) == 0 {
		return nil, nil
	}
	return openSkills(folders, limitsOf(cfg))
}

// SkillPaths returns what lists the files and folders of the folders of skills.
func SkillPaths(cfg *configv1.Config) func() []string {
	return func() []string { return skillPaths(cfg.GetCatalog().GetSkills(), limitsOf(cfg)) }
}

func limitsOf(cfg *configv1.Config) skillLimits {
	l := cfg.GetCatalog().GetSkillLimits()
	return skillLimits{
		MaxSkills: int(l.GetMaxSkills()), MaxFiles: int(l.GetMaxFiles()), MaxBytes: l.GetMaxBytes(), MaxTotalBytes: l.GetMaxTotalBytes(),
		MaxFileBytes: cfg.GetLimits().GetMaxResultBytes(),
	}
}

// CheckSkills reads the folders of skills before a port opens.
func CheckSkills(cfg *configv1.Config, report func(path, message string)) {
	_, err := OpenSkills(cfg)
	var wrong *skillsError
	switch {
	case err == nil:
	case errors.As(err, &wrong):
		// One error for each folder, with all of its faults: others of the same field would not be shown.
		for i := range cfg.GetCatalog().GetSkills() {
			var texts []string
			for _, f := range wrong.Faults {
				if f.Folder == i {
					texts = append(texts, f.String())
				}
			}
			if len(texts) > 0 {
				report(fmt.Sprintf("catalog.skills[%d]", i), strings.Join(texts, "; "))
			}
		}
		if wrong.More > 0 {
			report("catalog.skills", fmt.Sprintf("%d more errors", wrong.More))
		}
	default:
		report("catalog.skills", err.Error())
	}
}
