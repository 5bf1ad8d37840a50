// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

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
