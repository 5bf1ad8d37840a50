// SPDX-License-Identifier: Apache-2.0

package bridge

// NewAnswerMemory keeps answers in this process.
func NewAnswerMemory(most int, mostBytes int64) KeptAnswers { return newAnswerMemory(most, mostBytes) }
