// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/overlay"
)

// mutant takes a mend out of the product.
type mutant struct {
	name  string
	edits []overlay.Edit
}

// mutants are faults that random tests of real processes found, each by the line that mends it.
func mutants() []mutant {
	// A refusal that nothing explains is an unknown outcome, which hides what a former leader does. Two mends are taken out together with it.
	noDoubt := overlay.Edit{
		File: "internal/state/refused.go",
		Old:  "return 0, fmt.Errorf(\"%w: %w\", ErrUnavailable, errUnexplained)",
		New:  "return 0, fmt.Errorf(\"%w, %w\", refusal, errUnexplained)",
	}
	return []mutant{
		{
			// A leader that was cut off or stopped refuses a write that its successor stores.
			"the-former-leader-that-refuses",
			[]overlay.Edit{{
				File: "internal/state/refused.go",
				Old:  "!errors.Is(err, ErrConflict) || s.CachedInfo().Config.Replicas <= 1 {",
				New:  "!errors.Is(err, ErrConflict) || s.CachedInfo().Config.Replicas <= 3 {",
			}},
		},
		{
			// Without `sync_interval: always` servers acknowledge what finds no room on their disks. No server loses power: that would
			// be found sooner.
			"the-full-disk",
			[]overlay.Edit{
				{File: "conformance/fleet/sim/sim_test.go", Old: "const syncLater = false", New: "const syncLater = true"},
				{File: "conformance/fleet/sim/faults_test.go", Old: "stop(natsmodel.PowerLoss)", New: "stop(natsmodel.Kill)"},
			},
		},
		{
			// A server that was stopped goes on as the leader that it was, and does not have what was stored meanwhile.
			"the-clock-that-stood-still",
			[]overlay.Edit{{
				File: "internal/state/bucket.go",
				Old:  "\t\t\tif !errors.Is(err, ErrNotFound) || e.Gone {\n",
				New:  "\t\t\tif err == nil || err != nil {\n",
			}, noDoubt},
		},
		{
			// After an outage all leases are over, and the first replica that is back must not judge the others.
			"the-lost-lease",
			[]overlay.Edit{{
				File: "internal/task/taskstore/lease.go",
				Old:  "return loaded && !s.lease.since.IsZero() && now.Sub(s.lease.since) >= s.opts.Lease && now.Sub(s.lease.renewed) < s.opts.Lease",
				New:  "return loaded && !s.lease.since.IsZero() && now.Sub(s.lease.renewed) < s.opts.Lease",
			}},
		},
		{
			// A consent was stored, its acknowledgement was lost, and the same use finds it taken.
			"the-lost-acknowledgement",
			[]overlay.Edit{{
				File: "internal/state/once.go",
				Old:  "\t\t\treturn o.isOurs(ctx, key, mark[:])\n",
				New:  "\t\t\treturn false, nil\n",
			}},
		},
		{
			// A leader that was cut off goes on answering reads from what it has.
			"the-answer-that-no-majority-confirms",
			[]overlay.Edit{{
				File: "internal/state/fresh.go",
				Old:  "\tif s.CachedInfo().Config.Replicas <= 1 {\n\t\treturn classify(ctx, read())\n",
				New:  "\tif s.CachedInfo().Config.Replicas <= 3 {\n\t\treturn classify(ctx, read())\n",
			}, noDoubt},
		},
		{
			// A former owner stores its result over that of the replica that took the task over.
			"the-owner-that-was",
			[]overlay.Edit{{File: "internal/task/run.go", Old: "if taken = record.Owner != r.m.self; taken {", New: "if taken = false; taken {"}},
		},
		{
			// A replica takes an approved call to run it, although another one that lives has taken it.
			"the-claim-that-does-not-compare",
			[]overlay.Edit{{
				File: "internal/task/approval/service.go",
				Old:  "\t\tcase alive:\n\t\t\treturn nil, Refusal(r)\n\t\tcase !idempotent:\n",
				New:  "\t\tcase !alive && !idempotent:\n",
			}},
		},
		{
			// A call runs that an approver denied.
			"the-denied-call-that-runs",
			[]overlay.Edit{{
				File: "internal/task/approval/service.go",
				Old:  "\tcase Approved:\n\t\tif why := s.revoked(",
				New:  "\tcase Approved, Denied:\n\t\tif why := s.revoked(",
			}},
		},
	}
}

// mutantSeeds is how many seeds suffice to find each of them.
const mutantSeeds = 2000

// TestMutants: without its mend, each fault is found within some seeds.
func TestMutants(t *testing.T) {
	t.Parallel()
	if !*mutantsFlag {
		t.Skip("-mutants asks for it")
	}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			binary, err := buildMutant(m.name, m.edits...)
			if err != nil {
				t.Fatal(err)
			}
			const atATime = 100
			began := time.Now()
			for n := 0; n < mutantSeeds; n += atATime {
				out := many(t, binary, *seedFlag+uint64(n), atATime)
				slices.SortFunc(out.Failed, func(a, b result) int { return int(int64(a.Seed) - int64(b.Seed)) })
				if len(out.Failed) > 0 {
					one := out.Failed[0]
					t.Logf("%s: found by seed %d, number %d, after %v: %s", m.name, one.Seed, one.Seed-*seedFlag+1, time.Since(began).Round(time.Second), one.Broken[0])
					return
				}
			}
			t.Errorf("%d seeds did not find it", mutantSeeds)
		})
	}
}
