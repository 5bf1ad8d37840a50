// SPDX-License-Identifier: Apache-2.0

//go:build !race

package transcode_test

// raced is for runs without the race detector.
const raced = false
