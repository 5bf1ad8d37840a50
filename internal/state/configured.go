// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// maxStateTTL is the longest state.ttl that the configuration takes.
const maxStateTTL = 30 * 24 * time.Hour

// maxAnswerTTL is the longest limits.answer_ttl that the configuration takes.
const maxAnswerTTL = 7 * 24 * time.Hour

// maxSwitchBytes is room for switches, which are some bytes.
const maxSwitchBytes = 1 << 20

// NewSealer seals what replicas share. A record holds a result, and what is needed to run a call again.
func NewSealer(limits *configv1.Limits, ring *keys.Keys) *keys.Sealer {
	return keys.NewSealer(keys.SealerOptions{Keys: ring, MaxPayload: int(limits.GetMaxResultBytes() + limits.GetMaxMessageBytes())})
}

// Consents says how much is remembered of answers that may be used only once.
func Consents(s *configv1.State) OnceOptions {
	return OnceOptions{Name: "consents", MaxBytes: s.GetMaxConsentBytes(), MaxAge: maxStateTTL}
}

// Answers is the bucket of the first answers of calls with an idempotency key.
func Answers(c *configv1.Config) BucketOptions {
	return BucketOptions{Name: "answers", MaxBytes: c.GetState().GetMaxAnswerBytes(), MaxAge: maxAnswerTTL}
}

// Events says how many events are kept for those who go on after an earlier one.
func Events(s *configv1.State) StreamOptions {
	return StreamOptions{Name: "events", MaxBytes: s.GetMaxEventBytes(), MaxAge: s.GetEventTtl().AsDuration(), DropOldest: true}
}

// Switches is the bucket of what operators switch for all replicas.
func Switches() BucketOptions {
	return BucketOptions{Name: "switches", MaxBytes: maxSwitchBytes}
}
