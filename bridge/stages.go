// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
)

// maxStages bounds the stages of one call: three rounds of a dialogue. Later ones are one stage.
const maxStages = 32

// stages are the stages that a call has entered, and when. The goroutine that runs the call adds them, and others may read them:
// what lies before count does not change.
type stages struct {
	count atomic.Int32
	all   [maxStages]struct {
		at    time.Duration // since the call began
		stage stage
	}
	began time.Time
}

// newStages begins the stages of a call.
func newStages(began time.Time) *stages {
	s := &stages{began: began}
	s.all[0].stage = stageBegin
	s.count.Store(1)
	return s
}

// enter notes that a call enters a stage. Once there is no room, the last one covers all that follow.
func (s *stages) enter(next stage) {
	n := s.count.Load()
	if n == maxStages {
		return
	}
	if n == maxStages-1 {
		next = stageRounds
	}
	s.all[n].at, s.all[n].stage = time.Since(s.began), next
	s.count.Store(n + 1)
}

// steps are the stages of a call that took so long, or has taken so far. They add up to that. now is the name of the last one if the
// call is under way, and upstream the time of those that waited for others.
func (s *stages) steps(took time.Duration, isUnderWay bool) (steps []*adminv1.Step, now string, upstream time.Duration) {
	if s == nil {
		return nil, "", 0
	}
	n := int(s.count.Load())
	for i := range n {
		at, end := min(s.all[i].at, took), took
		if i+1 < n {
			end = min(s.all[i+1].at, took)
		}
		stage := s.all[i].stage
		if stage.isUpstream() {
			upstream += end - at
		}
		steps = append(steps, &adminv1.Step{
			Name: stage.String(), At: durationpb.New(at), Took: durationpb.New(end - at), IsUpstream: stage.isUpstream(),
		})
	}
	if isUnderWay {
		now = s.all[n-1].stage.String()
	}
	return steps, now, upstream
}

// stage is a step of a call as operators see it, or what comes before, between or after steps.
type stage uint8

// The stages, those that wait for the backend or for users first.
const (
	stageUnary stage = iota
	stagePaged
	stageStreamed
	stageTask
	stageOperation
	stageContinue
	stageNative
	stageExchange
	stageAsk
	stageBegin
	stageRun
	stageResolve
	stageGate
	stageLimit
	stageRoom
	stageShare
	stageAdmit
	stageEnvelope
	stageWanted
	stageValidate
	stagePermit
	stageReopen
	stageConfirm
	stageApprove
	stageRecord
	stagePreview
	stageClaim
	stageCompact
	stageProgram
	stageResult
	stageRounds
	stageFinish
	stageCount
)

// isUpstream reports whether a stage waits for the backend or for users.
func (s stage) isUpstream() bool { return s <= stageAsk }

// String is the name of a stage in docs/ARCHITECTURE.md.
func (s stage) String() string {
	return [stageCount]string{
		stageUnary: "unary", stagePaged: "paged", stageStreamed: "streamed", stageTask: "task", stageOperation: "operation",
		stageContinue: "continue", stageNative: "native", stageExchange: "exchange", stageAsk: "ask",
		stageBegin: "begin", stageRun: "run", stageResolve: "resolve", stageGate: "gate", stageLimit: "limit", stageRoom: "room",
		stageShare: "share", stageAdmit: "admit", stageEnvelope: "envelope", stageWanted: "wanted", stageValidate: "validate",
		stagePermit: "permit", stageReopen: "reopen", stageConfirm: "confirm", stageApprove: "approve", stageRecord: "record", stagePreview: "preview",
		stageClaim: "claim", stageCompact: "compact", stageProgram: "program", stageResult: "result", stageRounds: "rounds", stageFinish: "finish",
	}[s]
}
