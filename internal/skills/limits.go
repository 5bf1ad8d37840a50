// SPDX-License-Identifier: Apache-2.0

package skills

import "github.com/outrigger-mcp/outrigger/internal/defaults"

// Limits bound what is read. Zero fields have their defaults.
type Limits struct {
	// MaxSkills is the maximum number of skills of all folders, MaxTotalBytes the maximum
	// size of their files. All of it is held in memory.
	MaxSkills     int
	MaxTotalBytes int64
	// MaxFiles and MaxBytes bound one skill.
	MaxFiles int
	MaxBytes int64
	// MaxFileBytes is the maximum size of one file, which is one result; zero is MaxBytes.
	MaxFileBytes int64
}

const (
	// maxDepth bounds the folders within folders.
	maxDepth = 16
	// maxFolderLinks bounds the symbolic links to folders that are followed.
	maxFolderLinks = 256
	// maxURI is the maximum length of a URI in the contract.
	maxURI = 8192
	// maxFrontmatter bounds the frontmatter of one skill: each list of skills repeats it.
	maxFrontmatter = 64 << 10
	// maxNameChars and maxDescriptionChars are those of the Agent Skills specification.
	maxNameChars        = 64
	maxDescriptionChars = 1024
	// maxValueDepth bounds the nesting of the frontmatter.
	maxValueDepth = 16
	// maxFaults bounds the faults that one error names.
	maxFaults = 20
)

func (l Limits) withDefaults() Limits {
	defaults.Fill(&l.MaxSkills, defaults.MaxSkills)
	defaults.Fill(&l.MaxFiles, defaults.MaxSkillFiles)
	defaults.Fill(&l.MaxBytes, int64(defaults.MaxSkillBytes))
	defaults.Fill(&l.MaxTotalBytes, int64(defaults.MaxSkillTotalBytes))
	defaults.Fill(&l.MaxFileBytes, l.MaxBytes)
	return l
}

// maxEntries bounds the files and folders that are looked at.
func (l Limits) maxEntries() int { return 2 * l.MaxSkills * l.MaxFiles }
