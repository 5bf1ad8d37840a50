// SPDX-License-Identifier: Apache-2.0

// Package truncate cuts JSON documents to a size. What is left out are whole elements at the ends of lists and maps, and whole
// members of objects where nothing else helps. What stays is copied as it is: no text and no number is changed. What a schema
// requires stays, so that the document stays valid.
package truncate
