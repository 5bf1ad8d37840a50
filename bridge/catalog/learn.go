// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/bridge/catalog/source"
)

// TypeFinder asks a server for the files that define a message. [source.NewReflection] returns one.
type TypeFinder interface {
	FindType(ctx context.Context, name protoreflect.FullName) ([]*descriptorpb.FileDescriptorProto, error)
}

// TypeLimits bound what is learned of types that answers hold in google.protobuf.Any, for one catalog. The zero value
// learns nothing.
type TypeLimits struct {
	// Max is the most types that are learned; the values of others stay bytes. 0 means that no server is asked.
	Max int
}

// Bounds of look-ups that no operator has a reason to change.
const (
	// maxAsking is how many look-ups run at a time.
	maxAsking = 4
	// maxFailed is how many failed look-ups are remembered. While that many are, no others are begun.
	maxFailed = 1024
	// maxLearnedBytes bounds the descriptors of all learned types together.
	maxLearnedBytes = 16 << 20
	// refusedFor is how long a server's word counts that it does not know a type, and failedFor that of a look-up which
	// got no word.
	refusedFor = 5 * time.Minute
	failedFor  = 10 * time.Second
)

// learned are the types that answers named and a server described. They are never forgotten as long as the catalog is in
// use, so that what was read once as a message is not bytes the next time.
type learned struct {
	types atomic.Pointer[map[protoreflect.FullName]protoreflect.MessageType]
	slots chan struct{} // of those who ask

	mu     sync.Mutex
	files  []*protoregistry.Files
	bytes  int
	failed map[protoreflect.FullName]time.Time // until when
	asking map[protoreflect.FullName]chan struct{}
}

func newLearned() *learned {
	return &learned{
		slots:  make(chan struct{}, maxAsking),
		failed: map[protoreflect.FullName]time.Time{}, asking: map[protoreflect.FullName]chan struct{}{},
	}
}

// find returns a learned type, or nil.
func (k *learned) find(name protoreflect.FullName) protoreflect.MessageType {
	if types := k.types.Load(); types != nil {
		return (*types)[name]
	}
	return nil
}

// LearnStats counts the look-ups of a Live.
type LearnStats struct {
	// Types is how many types the catalog in use has learned.
	Types int
	// Found, Failed and Refused count look-ups: those that brought a type, those that did not, and those that a limit kept
	// from being begun.
	Found, Failed, Refused uint64
}

// learnCounts are the counts of LearnStats.
type learnCounts struct{ found, failed, refused atomic.Uint64 }

// LearnStats returns the counts since the start.
func (l *Live) LearnStats() LearnStats {
	out := LearnStats{Found: l.learns.found.Load(), Failed: l.learns.failed.Load(), Refused: l.learns.refused.Load()}
	if c := l.Current(); c != nil {
		if types := c.types.learned.types.Load(); types != nil {
			out.Types = len(*types)
		}
	}
	return out
}

// Learn asks for the types that an answer of a catalog's backend named, by their URLs, and reports whether it knows any of
// them afterwards. It asks for one type once at a time, however many callers wait, and remembers for some time what it did
// not find. The context bounds it. It is for answers only: what a caller sends must not make the sidecar ask for anything.
func (l *Live) Learn(ctx context.Context, c *Catalog, urls []string) bool {
	if l.types == nil || l.typeLimits.Max <= 0 {
		return false
	}
	knows := false
	for _, url := range urls {
		name := protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
		if ctx.Err() != nil {
			return knows
		}
		if len(name) <= maxTypeName && name.IsValid() && l.learn(ctx, c.types.learned, name) {
			knows = true
		}
	}
	return knows
}

// maxTypeName bounds the names that are asked for.
const maxTypeName = 512

// learn makes sure that one type is known, and reports whether it is.
func (l *Live) learn(ctx context.Context, k *learned, name protoreflect.FullName) bool {
	for {
		verdict, wait := k.begin(name, l.typeLimits.Max)
		switch verdict {
		case typeKnown:
			return true
		case typeMissing:
			return false
		case typeRefused:
			l.learns.refused.Add(1)
			return false
		case typeToAsk:
			return l.ask(ctx, k, name)
		case typeAsked:
			select {
			case <-wait:
			case <-ctx.Done():
				return false
			}
		}
	}
}

// typeVerdict says what is to be done about a type.
type typeVerdict uint8

const (
	typeKnown   typeVerdict = iota
	typeMissing             // it was asked for not long ago, in vain
	typeRefused             // a limit is met
	typeToAsk               // by who gets this verdict
	typeAsked               // by somebody else, who can be waited for
)

// begin says what is to be done about a type.
func (k *learned) begin(name protoreflect.FullName, most int) (typeVerdict, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.find(name) != nil {
		return typeKnown, nil
	}
	now := time.Now()
	if until, ok := k.failed[name]; ok && now.Before(until) {
		return typeMissing, nil
	}
	if wait, ok := k.asking[name]; ok {
		return typeAsked, wait
	}
	for _, files := range k.files {
		if mt := messageIn(files, name); mt != nil && k.count() < most {
			k.add(name, mt)
			return typeKnown, nil
		}
	}
	if len(k.failed) >= maxFailed {
		for name, until := range k.failed {
			if !now.Before(until) {
				delete(k.failed, name)
			}
		}
	}
	if k.count()+len(k.asking) >= most || len(k.failed)+len(k.asking) >= maxFailed || k.bytes >= maxLearnedBytes {
		return typeRefused, nil
	}
	k.asking[name] = make(chan struct{})
	return typeToAsk, nil
}

func (k *learned) count() int {
	if types := k.types.Load(); types != nil {
		return len(*types)
	}
	return 0
}

// add makes a type known. The caller holds the lock.
func (k *learned) add(name protoreflect.FullName, mt protoreflect.MessageType) {
	now := map[protoreflect.FullName]protoreflect.MessageType{name: mt}
	if before := k.types.Load(); before != nil {
		maps.Copy(now, *before)
	}
	k.types.Store(&now)
}

// ask asks for one type and keeps what comes of it.
func (l *Live) ask(ctx context.Context, k *learned, name protoreflect.FullName) bool {
	var files *protoregistry.Files
	var size int
	var mt protoreflect.MessageType
	var err error
	select {
	case k.slots <- struct{}{}:
		files, size, err = l.fetch(ctx, name)
		<-k.slots
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		if mt = messageIn(files, name); mt == nil {
			err = source.ErrRefused // the files of the answer do not define the message
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.asking[name])
	delete(k.asking, name)
	if err == nil {
		k.files, k.bytes = append(k.files, files), k.bytes+size
		k.add(name, mt)
		l.learns.found.Add(1)
		return true
	}
	l.learns.failed.Add(1)
	switch {
	case errors.Is(err, source.ErrRefused), connect.CodeOf(err) == connect.CodeUnimplemented:
		k.failed[name] = time.Now().Add(refusedFor)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil: // its caller has gone, which says nothing of the type
	default:
		k.failed[name] = time.Now().Add(failedFor)
	}
	return false
}

// fetch asks the server, and links what it sends by itself: it need not fit the files of the catalog.
func (l *Live) fetch(ctx context.Context, name protoreflect.FullName) (*protoregistry.Files, int, error) {
	files, err := l.types.FindType(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	size := 0
	for _, f := range files {
		size += proto.Size(f)
	}
	return linkFiles(mergeFiles([]*source.Loaded{{Source: "reflection", Files: files}})).registry, size, nil
}

// messageIn returns a type of linked files, or nil.
func messageIn(files *protoregistry.Files, name protoreflect.FullName) protoreflect.MessageType {
	d, err := files.FindDescriptorByName(name)
	md, ok := d.(protoreflect.MessageDescriptor)
	if err != nil || !ok {
		return nil
	}
	return dynamicpb.NewMessageType(md)
}

// FindFileByPath finds a file of learned types.
func (k *learned) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, files := range k.files {
		if fd, err := files.FindFileByPath(path); err == nil {
			return fd, nil
		}
	}
	return nil, protoregistry.NotFound
}

// FindDescriptorByName finds a descriptor in the files of learned types.
func (k *learned) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, files := range k.files {
		if d, err := files.FindDescriptorByName(name); err == nil {
			return d, nil
		}
	}
	return nil, protoregistry.NotFound
}

var _ protodesc.Resolver = (*learned)(nil)
