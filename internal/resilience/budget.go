// SPDX-License-Identifier: Apache-2.0

package resilience

import "sync/atomic"

// wholeToken is one repetition, in the parts that percents are paid in.
const wholeToken = 100

// budget pays for repetitions: each call brings a part of a token, each
// repetition costs a whole one. It starts full. Make one with newBudget.
type budget struct {
	share, most int64
	tokens      atomic.Int64
}

func newBudget(percent, burst int) *budget {
	b := &budget{share: int64(percent), most: int64(burst) * wholeToken}
	b.tokens.Store(b.most)
	return b
}

// earn counts one call. Most find the budget full, and only read.
func (b *budget) earn() {
	for {
		now := b.tokens.Load()
		if now >= b.most {
			return
		}
		if b.tokens.CompareAndSwap(now, min(now+b.share, b.most)) {
			return
		}
	}
}

// spend pays for one repetition, or reports that there is too little.
func (b *budget) spend() bool {
	for {
		now := b.tokens.Load()
		if now < wholeToken {
			return false
		}
		if b.tokens.CompareAndSwap(now, now-wholeToken) {
			return true
		}
	}
}
