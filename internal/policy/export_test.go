// SPDX-License-Identifier: Apache-2.0

package policy

// BucketCounts says how many buckets a limiter remembers.
func BucketCounts(l *Limiter) (callers, tools int) {
	return len(l.callers.Load().byName), len(l.tools.Load().byName)
}
