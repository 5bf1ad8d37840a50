// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// boundedFile reads a file, unpacked if it is gzipped, up to a number of bytes of either.
type boundedFile struct {
	file *os.File // nil for what is in memory
	from io.Reader
	most int64
	left int64
}

// openBounded opens a file to read no more than most bytes of it.
func openBounded(path string, most int) (*boundedFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file") // to open a pipe waits for a writer
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &boundedFile{file: f, most: int64(most), left: int64(most)}
	if err := b.check(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return b, nil
}

// boundBytes is openBounded for what is in memory.
func boundBytes(body []byte, most int) (*boundedFile, error) {
	b := &boundedFile{most: int64(most), left: int64(most)}
	if len(body) > most {
		return nil, b.tooLarge()
	}
	return b, b.unpack(bytes.NewReader(body))
}

// check looks at what the file is.
func (b *boundedFile) check() error {
	info, err := b.file.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a directory; use the file that `buf build -o` or `protoc -o` wrote")
	case info.Size() > b.most:
		return b.tooLarge()
	}
	return b.unpack(b.file)
}

// unpack looks at the beginning of the content for what it is.
func (b *boundedFile) unpack(from io.Reader) error {
	in := bufio.NewReader(from)
	b.from = in
	if head, _ := in.Peek(2); !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return nil
	}
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		return fmt.Errorf("gzip: %w", err)
	}
	b.from = packed{unpacked}
	return nil
}

// packed says of an error that it is about the packing.
type packed struct{ from io.Reader }

func (p packed) Read(into []byte) (int, error) {
	n, err := p.from.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("gzip: %w", &unreadable{err})
	}
	return n, err
}

// unreadable is an error of reading, which is no end of a file whatever it wraps.
type unreadable struct{ cause error }

func (u *unreadable) Error() string { return u.cause.Error() }

// Read implements io.Reader. It fails if the file exceeds its limit.
func (b *boundedFile) Read(into []byte) (int, error) {
	if int64(len(into)) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.from.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return 0, b.tooLarge()
	}
	return n, err
}

func (b *boundedFile) tooLarge() error {
	return fmt.Errorf("it has more than %d bytes, the limit for one source (limits.max_descriptor_bytes)", b.most)
}

func (b *boundedFile) Close() error {
	if b.file == nil {
		return nil
	}
	return b.file.Close()
}
