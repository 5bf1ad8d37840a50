// SPDX-License-Identifier: Apache-2.0

// Package reload detects changed files and reloads them.
//
// A [Watcher] polls all files of the process that may change while it runs, with
// one interval. The code that added a file reloads it. The watcher calls these
// functions one at a time, except that those which may wait for other hosts have a
// goroutine beside the others. It counts their outcomes, and records the last
// success. [Diff] compares two configurations field by field.
//
// Files are polled, not watched. Kubernetes swaps symbolic links two levels above
// a mounted file, editors replace files, and network file systems send no events.
// Polling detects all of these, and costs one stat per file.
package reload

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// Outcome is the result of a reload.
type Outcome uint8

// The outcomes. Unchanged: the content is the same as before. Applied: the content
// is in use. Partial: part of it is in use, and the rest was refused, with its
// names. Refused: none of it is in use, and the previous content stays in use.
// Deferred: as Refused, but a dependency was not ready, so the reload may succeed
// without another change of the files; it is retried at the next poll, and later after
// pauses if the group is slow ([Group.Slow]).
const (
	Unchanged Outcome = iota
	Applied
	Partial
	Refused
	Deferred
	outcomes int = iota
)

// Outcomes returns all outcomes, in order.
func Outcomes() []Outcome { return []Outcome{Unchanged, Applied, Partial, Refused, Deferred} }

// String returns the outcome's name, for logs and metrics.
func (o Outcome) String() string {
	switch o {
	case Unchanged:
		return "unchanged"
	case Applied:
		return "applied"
	case Partial:
		return "partial"
	case Refused:
		return "refused"
	}
	return "deferred"
}

// succeeded reports whether the files are good.
func (o Outcome) succeeded() bool { return o <= Partial }

// Status is the state of a group of files.
type Status struct {
	// Group is the name of the group.
	Group string
	// Files is the number of files.
	Files int
	// Counts are the number of reloads with each outcome.
	Counts [outcomes]uint64
	// Last is the outcome of the last reload. Tried is the time of the last reload;
	// zero if the files have not been reloaded yet.
	Last  Outcome
	Tried time.Time
	// Good is the time when valid content was last read: at startup, or by a reload.
	Good time.Time
}

// Failing reports whether the last reload failed, so that older content is in use.
func (s Status) Failing() bool { return !s.Tried.IsZero() && !s.Last.succeeded() }

const (
	// maxHashed is the largest file whose content is compared: as much as all
	// descriptors of a source may have. A larger one differs by its size and
	// times alone.
	maxHashed = 64 << 20
	// coarse is how long after its last change a file may change again without a
	// trace in its times: the clocks of file systems tick in up to two seconds.
	// Until it is older than that, its content is compared at every look.
	coarse = 2 * time.Second
)

// version tells one state of a file from another. A file that is not there has
// one too.
type version struct {
	// info is what stat says, nil for no file; while it stays the same, the content is not read.
	info fs.FileInfo
	// settled is set where the file had been left alone for a while when it was
	// read, so that an equal info means an equal content.
	settled bool
	// content is what counts: a file that is written again as it was, or whose
	// link points to a copy, has not changed.
	content string
}

// look finds out the version of a file, given the one of the last look. Links
// are followed.
func look(path string, before version) version {
	info, err := os.Stat(path)
	if err != nil {
		return version{content: "absent: " + reason(err)}
	}
	// A copy that keeps the times of its original is another file.
	if was := before.info; before.settled && os.SameFile(was, info) && was.Size() == info.Size() && was.ModTime().Equal(info.ModTime()) {
		return before
	}
	now := version{info: info, settled: time.Since(info.ModTime()) > coarse}
	if !info.Mode().IsRegular() || info.Size() > maxHashed {
		// To open a pipe would wait for a writer.
		now.content, now.settled = fmt.Sprintf("%d %d, seen %d", info.Size(), info.ModTime().UnixNano(), time.Now().UnixNano()), true
		return now
	}
	if now.content, err = hash(path); err != nil {
		now.content, now.settled = "unreadable: "+reason(err), false
	}
	return now
}

// reason is the error without the path, which says nothing new.
func reason(err error) string {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err.Error()
	}
	return err.Error()
}

func hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, io.LimitReader(f, maxHashed+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return string(sum.Sum(nil)), nil
}

// Diff returns the paths of the fields that differ between two configurations, such
// as "limits.caller_rate.per_second", in definition order. A list is compared as a
// whole.
func Diff(a, b *configv1.Config) []string {
	return diff(nil, "", a.ProtoReflect(), b.ProtoReflect())
}

func diff(found []string, prefix string, a, b protoreflect.Message) []string {
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		path := prefix + string(fd.Name())
		switch {
		case isGroup(fd):
			found = diff(found, path+".", a.Get(fd).Message(), b.Get(fd).Message())
		case a.Has(fd) != b.Has(fd) || !a.Get(fd).Equal(b.Get(fd)):
			found = append(found, path)
		}
	}
	return found
}

// isGroup reports whether a field has fields that are compared one by one.
func isGroup(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.MessageKind && fd.Cardinality() != protoreflect.Repeated &&
		fd.Message().FullName() != (*durationpb.Duration)(nil).ProtoReflect().Descriptor().FullName() &&
		fd.Message().ParentFile().Package() == configv1.File_outrigger_config_v1_config_proto.Package()
}

// Merge returns a copy of a, with the fields at the given paths taken from b.
func Merge(a, b *configv1.Config, paths []string) *configv1.Config {
	// Both are copied, so that nothing is shared with what comes out.
	out, b := proto.CloneOf(a), proto.CloneOf(b)
	for _, path := range paths {
		to, from := out.ProtoReflect(), b.ProtoReflect()
		for {
			name, rest, deeper := strings.Cut(path, ".")
			fd := to.Descriptor().Fields().ByName(protoreflect.Name(name))
			if deeper {
				to, from, path = to.Mutable(fd).Message(), from.Get(fd).Message(), rest
				continue
			}
			to.Clear(fd)
			if from.Has(fd) {
				to.Set(fd, from.Get(fd))
			}
			break
		}
	}
	return out
}
