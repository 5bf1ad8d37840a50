// SPDX-License-Identifier: Apache-2.0

//go:build race

package transcode_test

// raced is set under the race detector, where pools drop things on purpose.
const raced = true
