// SPDX-License-Identifier: Apache-2.0

package search

// What the tests outside the package look at.

const MaxQueryBytes = maxQueryBytes

func EmbeddedThesaurus() string { return thesaurusText }

func ReadThesaurus(text string) error {
	_, err := readThesaurus(text)
	return err
}
