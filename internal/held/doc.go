// SPDX-License-Identifier: Apache-2.0

// Package held keeps documents that are too large for one result in memory, so that
// their callers can read them in parts. All documents together are bounded in bytes,
// each caller has a share of them, and each document is kept for a bounded time.
//
// A Store knows neither requests nor tools; package bridge uses it, and seals the ids.
package held
