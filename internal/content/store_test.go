// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

const mib = 1 << 20

// doc is a document of n bytes.
func doc(n int) content.Document {
	return content.Document{Tool: "archive.fetch", MediaType: "application/pdf", Data: bytes.Repeat([]byte{'x'}, n)}
}

// put keeps a document for which there has to be room.
func put(t *testing.T, s *content.Store, caller string, d content.Document) content.DocumentID {
	t.Helper()
	id, _, verdict, err := s.Put(caller, d)
	if err != nil || verdict != peer.Granted {
		t.Fatalf("%d bytes for %s: verdict %d, error %v", len(d.Data), caller, verdict, err)
	}
	return id
}

func TestADocumentIsHeldUntilItExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := content.NewStore(content.StoreOptions{MaxBytes: mib, TTL: time.Minute})
		first := put(t, s, "a", doc(10))
		time.Sleep(30 * time.Second)
		second := put(t, s, "a", doc(20))
		if d, ok := s.Get(first); !ok || len(d.Data) != 10 || d.Tool != "archive.fetch" || d.MediaType != "application/pdf" {
			t.Errorf("got %+v, %t", d, ok)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := s.Stats(); got.Documents != 1 {
			t.Errorf("the timer left %d documents, want 1", got.Documents)
		}
		if _, ok := s.Get(first); ok {
			t.Error("a document was read after its time")
		}
		if _, ok := s.Get(second); !ok {
			t.Error("a document is gone before its time")
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got := s.Stats(); got.Documents != 0 || got.Bytes != 0 || got.Missed != 1 {
			t.Errorf("no one asked, and there are still %+v", got)
		}
		third := put(t, s, "a", doc(1)) // the timer starts again
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := s.Stats(); got.Documents != 0 {
			t.Errorf("after a pause the timer left %+v", got)
		}
		if _, ok := s.Get(third); ok {
			t.Error("a document was read after its time")
		}
	})
}

// Newer documents of a caller displace its own older ones, and never those of others.
func TestRoomIsMadeByTheSameCaller(t *testing.T) {
	t.Parallel()
	s := content.NewStore(content.StoreOptions{MaxBytes: mib, Share: peer.Percent(80)})
	defer s.Close()
	quiet := put(t, s, "quiet", doc(100<<10))
	var last content.DocumentID
	for range 50 {
		last = put(t, s, "busy", doc(200<<10))
	}
	if _, ok := s.Get(quiet); !ok {
		t.Error("the busy caller's documents displaced another's")
	}
	if _, ok := s.Get(last); !ok {
		t.Error("the newest document is not held")
	}
	got := s.Stats()
	if got.Bytes > mib || got.Displaced == 0 || got.Documents < 3 {
		t.Errorf("got %+v", got)
	}
	if _, _, verdict, _ := s.Put("busy", doc(mib-(50<<10))); verdict != peer.ShareFull {
		t.Errorf("a document that cannot fit: verdict %d, want Full", verdict)
	}
	if _, ok := s.Get(last); !ok {
		t.Error("a refused document displaced others in vain")
	}
	if after := s.Stats(); after.Refused != 1 {
		t.Errorf("%d refused, want 1", after.Refused)
	}
}

func TestWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := content.NewStore(content.StoreOptions{MaxBytes: mib, Share: peer.Percent(25)})
	defer s.Close()
	if s.Most() != mib/4-512 {
		t.Errorf("one document may have %d bytes", s.Most())
	}
	put(t, s, "a", doc(int(s.Most())))
	put(t, s, "b", doc(200<<10))
	if _, _, verdict, _ := s.Put("c", doc(int(s.Most()))); verdict != peer.Over {
		t.Errorf("verdict %d, want Over: a third of what is left is less", verdict)
	}
	if _, _, verdict, _ := s.Put("b", doc(mib)); verdict != peer.ShareFull {
		t.Errorf("verdict %d, want Full", verdict)
	}
	broken := content.NewStore(content.StoreOptions{Rand: iotest.ErrReader(errors.New("no entropy"))})
	if _, _, _, err := broken.Put("a", doc(1)); err == nil {
		t.Error("an id without random bytes")
	}
}

// Empty documents cost something too.
func TestManyEmptyDocumentsAreBounded(t *testing.T) {
	t.Parallel()
	s := content.NewStore(content.StoreOptions{MaxBytes: mib})
	defer s.Close()
	for range 10000 {
		put(t, s, "a", doc(0))
	}
	if got := s.Stats(); got.Documents > 2048 {
		t.Errorf("%d documents in a mebibyte", got.Documents)
	}
}

func TestAWriterCountsAsItGrows(t *testing.T) {
	t.Parallel()
	s := content.NewStore(content.StoreOptions{MaxBytes: mib})
	defer s.Close()
	one, two := content.NewDocumentWriter(s, "a", int(s.Most())), content.NewDocumentWriter(s, "b", int(s.Most()))
	defer one.Release()
	defer two.Release()
	part := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	full := 0
	for range 20 {
		for _, w := range []*content.DocumentWriter{one, two} {
			if !w.Write(part) {
				full++
			}
		}
		if used := s.Stats().Bytes; used > mib {
			t.Fatalf("%d bytes are held", used)
		}
	}
	if full == 0 || one.Len() == 0 || two.Len() == 0 {
		t.Errorf("%d parts refused, %d and %d bytes written", full, one.Len(), two.Len())
	}
	for i, b := range one.Bytes() {
		if b != part[i%len(part)] {
			t.Fatalf("byte %d is another", i)
		}
	}
	two.Release()
	size := int64(one.Len())
	id, _, verdict, err := one.Keep(content.Document{Data: one.Bytes()})
	if err != nil || verdict != peer.Granted {
		t.Fatalf("verdict %d, %v", verdict, err)
	}
	one.Release()
	if got := s.Stats(); got.Bytes < size || got.Bytes > size+512 || got.Documents != 1 {
		t.Errorf("one document of %d bytes is held as %+v", size, got)
	}
	if d, ok := s.Get(id); !ok || len(d.Data) != int(size) {
		t.Errorf("got %d bytes, %t", len(d.Data), ok)
	}
	unbound := content.NewDocumentWriter(nil, "a", 0)
	for range 2 {
		if !unbound.Write(part) {
			t.Error("a writer without a bound refused")
		}
	}
	if unbound.Len() != 2*len(part) {
		t.Errorf("%d bytes were written", unbound.Len())
	}
	unbound.Release()
	bound := content.NewDocumentWriter(nil, "a", 10)
	if bound.Write(part) || bound.Len() != 10 {
		t.Errorf("a writer of 10 bytes took %d", bound.Len())
	}
}

// Whatever callers do, the books are right, and nothing is held in the end.
func TestTheBooksAreRight(t *testing.T) {
	t.Parallel()
	s := content.NewStore(content.StoreOptions{MaxBytes: mib, Share: peer.Percent(80)})
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			name, rng := strconv.Itoa(caller), rand.New(rand.NewPCG(uint64(caller), 1))
			for range 60 {
				switch rng.IntN(3) {
				case 0:
					if id, _, verdict, err := s.Put(name, doc(rng.IntN(mib/8))); err == nil && verdict == peer.Granted {
						s.Get(id)
					}
				default:
					w := content.NewDocumentWriter(s, name, int(s.Most()))
					for w.Write(make([]byte, rng.IntN(mib/16))) && rng.IntN(4) > 0 {
					}
					if rng.IntN(2) == 0 {
						_, _, _, _ = w.Keep(content.Document{Data: w.Bytes()})
					}
					w.Release()
				}
				if used := s.Stats().Bytes; used > mib || used < 0 {
					t.Errorf("%d bytes are held", used)
				}
			}
		})
	}
	wg.Wait()
	s.Close()
	if got := s.Stats(); got.Bytes != 0 || got.Documents != 0 {
		t.Errorf("after the end: %+v", got)
	}
}
