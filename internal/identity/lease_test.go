// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/identity"
)

// leased returns an identity with a lease of ten seconds, due after six.
func leased(renew identity.Renewal, above *identity.Identity) (*identity.Identity, *identity.Lease) {
	l := identity.NewLease(time.Now().Add(6*time.Second), time.Now().Add(10*time.Second), renew)
	return identity.NewLeased(identity.Grant{Name: "iss#ann"}, identity.Facts{Source: identity.SourceOAuth, Issuer: "iss", Subject: "ann"}, l, above), l
}

// TestLeaseEnds: the end comes on time, once, also for those who watch late.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		who, lease := leased(nil, nil)
		var told atomic.Int32
		who.WhenRevoked(func() { told.Add(1) })
		stop := who.WhenRevoked(func() { told.Add(100) })
		if who.Lasts() || !stop() || stop() {
			t.Error("a watcher cannot stop once")
		}
		ended := who.Revoked()
		time.Sleep(10*time.Second - time.Millisecond)
		synctest.Wait()
		if told.Load() != 0 || lease.Ended() {
			t.Error("too early")
		}
		time.Sleep(time.Millisecond)
		<-ended
		synctest.Wait()
		who.WhenRevoked(func() { told.Add(10) })
		synctest.Wait()
		if told.Load() != 11 || !lease.Ended() {
			t.Errorf("told %d", told.Load())
		}
		lease.Extend(time.Now(), time.Now().Add(time.Hour))
		lease.End()
		if !lease.Ended() {
			t.Error("an ended lease lives again")
		}
	})
}

// TestLeaseIsRenewed only while something watches it.
func TestLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		who, _ := leased(func() (time.Time, time.Time) {
			if asked.Add(1) == 3 {
				return time.Now(), time.Now() // revoked
			}
			return time.Now().Add(6 * time.Second), time.Now().Add(10 * time.Second)
		}, nil)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if asked.Load() != 0 {
			t.Error("renewed while nothing watches")
		}
		begin := time.Now()
		<-who.Revoked()
		if asked.Load() != 3 || time.Since(begin) != 12*time.Second {
			t.Errorf("renewed %d times, ended after %v", asked.Load(), time.Since(begin))
		}
	})
}

// TestLeaseOfAnEntry: it ends with the entry of the callers file too.
func TestLeaseOfAnEntry(t *testing.T) {
	t.Parallel()
	subject := identity.Subject{Issuer: "iss", Name: "ann"}
	one := identity.Entry{Grant: identity.Grant{Name: "clerk", Tools: []string{"a.*"}}, Subjects: []identity.Subject{subject}}
	book := identity.NewBook([]identity.Entry{one})
	entry := book.Claimed(subject)
	if entry.Name() != "clerk" || book.Claimed(identity.Subject{Issuer: "other", Name: "ann"}) != nil {
		t.Fatal("the wrong entry")
	}
	lease := identity.NewLease(time.Time{}, time.Now().Add(time.Hour), nil)
	who := identity.NewLeased(entry.Grant(), identity.Facts{Source: identity.SourceOAuth, Issuer: "iss", Subject: "ann", Entry: true}, lease, entry)
	if who.Principal() != entry.Principal() || who.Facts().Subject != "ann" || who.Expires().IsZero() {
		t.Errorf("%q, %q", who.Principal(), entry.Principal())
	}
	ended := who.Revoked()
	one.Tools = []string{"b.*"}
	book.Replace([]identity.Entry{one})
	<-ended
}

// TestAnIdentityIsWithdrawn: by what ends it before its time, and by its entry for ever; and where its issuer is asked, by each end.
func TestAnIdentityIsWithdrawn(t *testing.T) {
	t.Parallel()
	subject := identity.Subject{Issuer: "iss", Name: "ann"}
	for name, tt := range map[string]struct {
		renew     identity.Renewal
		end       func(lease *identity.Lease, book *identity.Book)
		withdrawn bool
	}{
		"its time is over": {end: func(*identity.Lease, *identity.Book) { time.Sleep(time.Minute) }},
		"its key is gone":  {end: func(l *identity.Lease, _ *identity.Book) { l.End() }, withdrawn: true},
		"its entry is gone": {end: func(_ *identity.Lease, b *identity.Book) {
			b.Replace(nil)
		}, withdrawn: true},
		"its entry is gone later": {end: func(_ *identity.Lease, b *identity.Book) {
			time.Sleep(time.Minute)
			b.Replace(nil)
		}, withdrawn: true},
		"its issuer says so": {renew: func() (time.Time, time.Time) { return time.Now(), time.Now() }, end: func(*identity.Lease, *identity.Book) {
			time.Sleep(time.Minute)
		}, withdrawn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				book := identity.NewBook([]identity.Entry{{Grant: identity.Grant{Name: "clerk"}, Subjects: []identity.Subject{subject}}})
				who, lease := leased(tt.renew, book.Claimed(subject))
				var told atomic.Int32
				stop := who.WhenWithdrawn(func() { told.Add(1) })
				tt.end(lease, book)
				synctest.Wait()
				if (told.Load() > 0) != tt.withdrawn {
					t.Errorf("told %d times", told.Load())
				}
				stop()
			})
		})
	}
}
