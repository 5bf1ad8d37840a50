// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// finder describes types, slowly.
type finder struct {
	mu    sync.Mutex
	asked map[protoreflect.FullName]int
	err   error
	takes time.Duration
	none  bool // the files do not define what was asked for
}

// FindType implements catalog.TypeFinder.
func (f *finder) FindType(ctx context.Context, name protoreflect.FullName) ([]*descriptorpb.FileDescriptorProto, error) {
	f.mu.Lock()
	f.asked[name]++
	err, takes, none := f.err, f.takes, f.none
	f.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	defines := string(name.Name())
	if none {
		defines = "Other"
	}
	return []*descriptorpb.FileDescriptorProto{{
		Name: new(string(name) + ".proto"), Package: new(string(name.Parent())), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new(defines)}, {Name: new(defines + "Sibling")}},
	}}, nil
}

func (f *finder) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *finder) times(name protoreflect.FullName) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[name]
}

// learning is a catalog that may learn.
func learning(t *testing.T, most int) (*catalog.Live, *finder) {
	t.Helper()
	f := &finder{asked: map[protoreflect.FullName]int{}, takes: time.Second}
	live := catalog.NewLive([]source.Source{source.NewDescriptorFile("testdata/garden-protoc.binpb", source.Limits{})}, catalog.LiveOptions{
		Types: f, MaxTypes: most,
	})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return live, f
}

const thing = "type.googleapis.com/far.v1.Thing"

func TestATypeIsAskedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		live, f := learning(t, 10)
		c := live.Current()
		if _, err := c.Types().FindMessageByURL(thing); err == nil {
			t.Fatal("it is known before it was learned")
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if !live.Learn(t.Context(), c, []string{thing}) {
					t.Error("it is not known")
				}
			})
		}
		all.Wait()
		if !live.Learn(t.Context(), c, []string{"x/far.v1.ThingSibling"}) {
			t.Error("what the same file defines is not known")
		}
		if n, s := f.times("far.v1.Thing"), f.times("far.v1.ThingSibling"); n != 1 || s != 0 {
			t.Errorf("asked %d and %d times", n, s)
		}
		if mt, err := c.Types().FindMessageByURL(thing); err != nil || mt.Descriptor().FullName() != "far.v1.Thing" {
			t.Errorf("%v %v", mt, err)
		}
		if fd, err := c.Learned().FindFileByPath("far.v1.Thing.proto"); err != nil || fd.Package() != "far.v1" {
			t.Errorf("%v %v", fd, err)
		}
		if got := live.LearnStats(); got != (catalog.LearnStats{Types: 2, Found: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// What failed is remembered: long where the server does not know it, a short time where it did not say so, and not at all
// where the caller left.
func TestWhatCannotBeLearnedIsRemembered(t *testing.T) {
	t.Parallel()
	unknown := connect.NewError(connect.CodeUnimplemented, errors.New("no reflection"))
	for name, tt := range map[string]struct {
		err  error
		none bool
		long time.Duration
	}{
		"no reflection":   {err: unknown, long: 5 * time.Minute},
		"another file":    {none: true, long: 5 * time.Minute},
		"a broken stream": {err: errors.New("connection reset"), long: 10 * time.Second},
		"a timeout":       {err: context.DeadlineExceeded, long: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				live, f := learning(t, 10)
				f.set(func() { f.err, f.none = tt.err, tt.none })
				for range 5 {
					if live.Learn(t.Context(), live.Current(), []string{thing}) {
						t.Error("it is known")
					}
				}
				time.Sleep(tt.long - 2*time.Second)
				live.Learn(t.Context(), live.Current(), []string{thing})
				if n := f.times("far.v1.Thing"); n != 1 {
					t.Errorf("asked %d times before %v", n, tt.long)
				}
				time.Sleep(2 * time.Second)
				f.set(func() { f.err, f.none = nil, false })
				if !live.Learn(t.Context(), live.Current(), []string{thing}) || f.times("far.v1.Thing") != 2 {
					t.Errorf("asked %d times after %v", f.times("far.v1.Thing"), tt.long)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		live, f := learning(t, 10)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if live.Learn(ctx, live.Current(), []string{thing}) {
			t.Error("known to a caller who left")
		}
		if !live.Learn(t.Context(), live.Current(), []string{thing}) || f.times("far.v1.Thing") != 2 {
			t.Error("a caller who left counts as a failure")
		}
	})
}

func TestLearningIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		live, f := learning(t, 3)
		var all []string
		for i := range 10 {
			all = append(all, fmt.Sprintf("x/far%d.Thing", i))
		}
		for _, url := range append(all, "", "x/", "x/no name", "x/1.2") {
			live.Learn(t.Context(), live.Current(), []string{url})
		}
		if got := live.LearnStats(); got.Types != 3 || got.Found != 3 || got.Refused != 7 {
			t.Errorf("%+v", got)
		}
		f.set(func() { f.err, f.takes = connect.NewError(connect.CodeUnimplemented, nil), 0 })
		live, f = learning(t, 3)
		f.set(func() { f.err, f.takes = connect.NewError(connect.CodeUnimplemented, nil), 0 })
		for i := range 3000 {
			live.Learn(t.Context(), live.Current(), []string{fmt.Sprintf("x/far%d.Thing", i)})
		}
		if got := live.LearnStats(); got.Failed != 1024 || got.Refused != 3000-1024 {
			t.Errorf("%+v", got)
		}
		time.Sleep(5 * time.Minute)
		if live.Learn(t.Context(), live.Current(), []string{"x/one.More"}); live.LearnStats().Failed != 1025 {
			t.Errorf("what is over is not forgotten: %+v", live.LearnStats())
		}
	})
}
