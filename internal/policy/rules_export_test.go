// SPDX-License-Identifier: Apache-2.0

package policy

// Kept returns how much a set keeps: tools, types of arguments with their files, and programs.
func (s *Set) Kept() (tools, inputs, programs int) {
	s.tools.Range(func(any, any) bool {
		tools++
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return tools, len(s.inputs), len(s.programs)
}

// ArgumentsType is the type of a native tool's arguments.
func ArgumentsType(schema string) string {
	kind, _ := argumentsType([]byte(schema))
	return kind.String()
}
