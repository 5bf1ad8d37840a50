// SPDX-License-Identifier: Apache-2.0

package natsmodel_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/natsmodel"
)

// ackPattern finds acknowledgements: the number of the message, and its sequence.
var ackPattern = regexp.MustCompile(`MSG in\.(\d+) \d+ \d+\r\n\{"stream":"S","seq":(\d+)\}`)

// schedule runs a random schedule of writes, steps and faults, and returns what happened. It checks that what was acknowledged
// stays, in its order; with SyncLater disks are wiped, too, and it may be lost.
func schedule(t *testing.T, seed uint64, o natsmodel.Options, ends ...natsmodel.End) (what string, acknowledged int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	o.Servers = 3
	now := noon
	c := natsmodel.New(o, now, rng)
	var trace strings.Builder
	conns, acked := make([]int, 3), map[string]string{}
	advance := func(d time.Duration) {
		now = now.Add(d)
		c.Advance(now)
	}
	read := func() {
		for i, id := range conns {
			out := string(c.Output(id))
			trace.WriteString(out)
			for _, m := range ackPattern.FindAllStringSubmatch(out, -1) {
				acked[m[1]] = m[2]
			}
			if c.Closed(id) || id == 0 {
				conns[i] = 0
				if id, ok := c.Open(i); ok {
					conns[i] = id
					c.Input(id, []byte(connect+"SUB in.* 9\r\n"))
				}
			}
		}
	}
	settle := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); {
			advance(100 * time.Millisecond)
			c.Settle()
			read()
		}
	}
	read()
	settle(20 * time.Second)
	create := strings.Replace(stream, "{", `{"num_replicas":3,`, 1)
	c.Input(conns[0], []byte(pub("$JS.API.STREAM.CREATE.S", strings.Replace(create, "400", "1000000", 1))))
	settle(5 * time.Second)
	mend := func() {
		for i := range 3 {
			c.Resume(i)
			c.Start(i)
			c.Heal(i, (i+1)%3)
		}
	}
	for n := range 300 {
		if n%30 == 0 {
			mend()
			settle(12 * time.Second)
		}
		switch at := rng.IntN(3); rng.IntN(20) {
		case 0, 1, 2, 3, 12, 13:
			text := fmt.Sprintf("%d-%d", seed, n)
			c.Input(conns[at], fmt.Appendf(nil, "PUB s.%d in.%d %d\r\n%s\r\n", n, n, len(text), text))
		case 4:
			advance(time.Duration(rng.Int64N(int64(6 * time.Second))))
		case 5:
			c.Stop(at, ends[rng.IntN(len(ends))])
			if o.SyncLater && rng.IntN(3) == 0 {
				c.Wipe(at)
			}
		case 6:
			c.Start(at)
		case 7:
			c.Pause(at)
		case 8:
			c.Resume(at)
		case 9:
			c.Cut(at, (at+1)%3)
		case 10:
			c.Heal(at, (at+1)%3)
		case 11:
			c.StepDown("S")
		case 14:
			c.LoseAck(at)
		default:
			for range rng.IntN(12) {
				if steps := c.Pending(); len(steps) > 0 {
					step := steps[rng.IntN(len(steps))]
					trace.WriteString(step.String() + "\n")
					c.Do(step)
				}
			}
		}
		advance(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
		read()
	}
	mend()
	settle(time.Minute)
	for n, seq := range acked {
		c.Input(conns[1], []byte("SUB got 1\r\n"+strings.Replace(pub("$JS.API.STREAM.MSG.GET.S", `{"last_by_subj":"s.`+n+`"}`), " in ", " got ", 1)))
		if got := said(c, conns[1]); !o.SyncLater && !strings.Contains(got, `"subject":"s.`+n+`","seq":`+seq+`,`) {
			t.Errorf("seed %d: message %s was acknowledged as %s, and is now %q", seed, n, seq, got)
		}
	}
	states := map[int]string{}
	for n := 0; o.SyncLater && len(states) < 3 && n < 40; n++ {
		if at := c.Leader("S"); at >= 0 {
			c.Input(conns[1], []byte("SUB state 2\r\n"+strings.Replace(pub("$JS.API.STREAM.INFO.S", ""), " in ", " state ", 1)))
			states[at] = statePattern.FindString(said(c, conns[1]))
		}
		c.StepDown("S")
		settle(5 * time.Second)
	}
	for at, is := range states {
		if is == "" || is != states[c.Leader("S")] {
			t.Errorf("seed %d: n%d says %q, and n%d %q", seed, at, is, c.Leader("S"), states[c.Leader("S")])
		}
	}
	return trace.String(), len(acked)
}

// statePattern finds what a stream has.
var statePattern = regexp.MustCompile(`"messages":\d+,"bytes":\d+,"first_seq":\d+,|"err_code":10059`)

// TestSchedules: under random schedules of faults nothing that was acknowledged is lost, and the same seed gives the same bytes.
func TestSchedules(t *testing.T) {
	t.Parallel()
	all := 0
	for seed := range uint64(40) {
		got, n := schedule(t, seed, natsmodel.Options{}, natsmodel.Term, natsmodel.Kill, natsmodel.PowerLoss)
		all += n
		if seed < 5 {
			if again, _ := schedule(t, seed, natsmodel.Options{}, natsmodel.Term, natsmodel.Kill, natsmodel.PowerLoss); got != again {
				t.Errorf("seed %d does not repeat", seed)
			}
		}
	}
	if t.Logf("%d acknowledged", all); all < 400 {
		t.Error("too few writes succeed for a check")
	}
}

// TestLosses: where acknowledged writes can be lost, servers agree in the end all the same.
func TestLosses(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		schedule(t, seed, natsmodel.Options{SyncLater: true}, natsmodel.Kill, natsmodel.PowerLoss)
	}
}
