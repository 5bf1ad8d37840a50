// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// TypeFinder asks a server for the files that define a message. [source.NewReflection] returns one.
type TypeFinder interface {
	FindType(ctx context.Context, name protoreflect.FullName) ([]*descriptorpb.FileDescriptorProto, error)
}

// TypeLimits bound the types learned from google.protobuf.Any values in responses, for one catalog. The zero value
// learns nothing.
type TypeLimits struct {
	// Max is the maximum number of learned types; values of further types stay bytes. 0 means that no server is asked.
	Max int
}

// LearnStats counts the lookups of a Live.
type LearnStats struct {
	// Types is the number of types that the catalog in use has learned.
	Types int
	// Found and Failed count the lookups that found a type and those that did not. Refused counts lookups that a limit
	// prevented.
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

// Learn asks the backend for the types, given by URL, that a response named. It reports whether the catalog knows any of
// them afterwards. Concurrent callers share one request per type, and failed lookups are remembered for some time.
// The context bounds the call. Use it for responses only: input from a caller must not cause the sidecar to ask a backend.
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
	merged, err := mergeFiles([]*source.Loaded{{Source: "reflection", Files: files}}, nil)
	if err != nil {
		return nil, 0, err
	}
	linked, err := linkFiles(merged, nil)
	if err != nil {
		return nil, 0, err
	}
	return linked.registry, size, nil
}
