// SPDX-License-Identifier: Apache-2.0

// Package console is the console: two pages for operators on the admin listener, and their API, outrigger.admin.v1.
package console
