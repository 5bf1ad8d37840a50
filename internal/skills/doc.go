// SPDX-License-Identifier: Apache-2.0

// Package skills reads folders of Agent Skills, for MCP's extension
// io.modelcontextprotocol/skills (SEP-2640).
//
// A skill is a folder with a SKILL.md, whose YAML frontmatter has the skill's name and
// description. [Load] reads all files of all skills into an immutable [Set], and checks
// them: requests are looked up in the set by their URI and never reach a file system. A
// [Source] has the set in use and replaces it when the folders change.
//
// Symbolic links are followed within a folder, as Kubernetes mounts ConfigMaps with them,
// and never out of it. Entries whose names begin with a dot are no part of a skill.
//
// Everything is safe for concurrent use.
package skills
