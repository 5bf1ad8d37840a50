// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

const (
	// maxHashed is the largest file whose content is compared: as much as all
	// descriptors of a source may have. A larger one is told apart by its size and
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
	// stamp is what stat says; while it stays the same, the content is not read.
	stamp string
	// settled is set where the file had been left alone for a while when it was
	// read, so that an equal stamp means an equal content.
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
		return version{stamp: "absent", settled: true, content: "absent: " + reason(err)}
	}
	stamp := fmt.Sprintf("%d %d %s", info.Size(), info.ModTime().UnixNano(), identity(info))
	if stamp == before.stamp && before.settled {
		return before
	}
	now := version{stamp: stamp, settled: time.Since(info.ModTime()) > coarse}
	if !info.Mode().IsRegular() || info.Size() > maxHashed {
		// To open a pipe would wait for a writer.
		now.content, now.settled = stamp, true
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
