// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// setReader takes a descriptor set apart while it is read, so that no more than its largest file is in memory at a time.
type setReader struct {
	in   *bufio.Reader
	head []byte // the beginning of the set, for errors
	at   int64  // how much was taken
	body []byte // of the file at hand
}

// headBytes is as much of a set as an error looks at.
const headBytes = 4096

// tagBytes is the most that a tag or a number takes.
const tagBytes = 10

func newSetReader(from io.Reader) *setReader {
	r := &setReader{in: bufio.NewReaderSize(from, 16*headBytes)}
	head, _ := r.in.Peek(headBytes) // a failure comes back when the bytes are taken
	r.head = bytes.Clone(head)
	return r
}

// errBroken is for bytes that are no set.
type errBroken struct{ cause error }

func (e *errBroken) Error() string { return e.cause.Error() }
func (e *errBroken) Unwrap() error { return e.cause }

// next returns the bytes of the next file, which are valid until the next call, or io.EOF after the last.
func (r *setReader) next() ([]byte, error) {
	for {
		if _, err := r.in.Peek(1); err != nil {
			return nil, err
		}
		num, typ, err := r.tag()
		if err != nil {
			return nil, err
		}
		if num == fileField && typ == protowire.BytesType {
			return r.bytes()
		}
		if err := r.skip(num, typ); err != nil {
			return nil, err
		}
	}
}

// tag takes a tag.
func (r *setReader) tag() (protowire.Number, protowire.Type, error) {
	ahead, failed := r.in.Peek(tagBytes)
	num, typ, n := protowire.ConsumeTag(ahead)
	if n < 0 {
		return 0, 0, r.broken(n, failed)
	}
	return num, typ, r.take(n)
}

// bytes takes a length and as many bytes.
func (r *setReader) bytes() ([]byte, error) {
	ahead, failed := r.in.Peek(tagBytes)
	size, n := protowire.ConsumeVarint(ahead)
	if n < 0 {
		return nil, r.broken(n, failed)
	}
	if err := r.take(n); err != nil {
		return nil, err
	}
	r.body = r.body[:0]
	const piece = 1 << 20 // a length alone makes no room for what may not come
	for size > 0 {
		more := int(min(size, piece))
		start := len(r.body)
		r.body = append(r.body, make([]byte, more)...)
		n, err := io.ReadFull(r.in, r.body[start:])
		r.at += int64(n)
		if err != nil {
			return nil, r.cut(err)
		}
		size -= uint64(more)
	}
	return r.body, nil
}

// skip passes over another field.
func (r *setReader) skip(num protowire.Number, typ protowire.Type) error {
	if typ == protowire.BytesType {
		_, err := r.bytes()
		return err
	}
	if typ == protowire.StartGroupType {
		// No set has one. It ends where its last field ends, which takes all of it to find out.
		rest, err := io.ReadAll(r.in)
		if err != nil {
			return err
		}
		n := protowire.ConsumeFieldValue(num, typ, rest)
		if n < 0 {
			return r.broken(n, nil)
		}
		r.at += int64(n)
		r.in.Reset(bytes.NewReader(rest[n:]))
		return nil
	}
	ahead, failed := r.in.Peek(tagBytes)
	n := protowire.ConsumeFieldValue(num, typ, ahead)
	if n < 0 {
		return r.broken(n, failed)
	}
	return r.take(n)
}

func (r *setReader) take(n int) error {
	_, err := r.in.Discard(n)
	r.at += int64(n)
	return err
}

// broken is the error for bytes that could not be read as what they should be; failed says why there were no more.
func (r *setReader) broken(n int, failed error) error {
	if failed != nil && !errors.Is(failed, io.EOF) {
		return failed
	}
	return r.explained(protowire.ParseError(n))
}

// cut is the error for bytes that end too soon.
func (r *setReader) cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.explained(io.ErrUnexpectedEOF)
	}
	return err
}

// explained explains bytes that are no descriptor set, by the usual mix-ups.
func (r *setReader) explained(err error) error {
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(r.head), []byte("{")):
		return &errBroken{errors.New("it looks like JSON; write the binary form: `buf build -o service.binpb`")}
	case bytes.Contains(r.head, []byte("syntax =")), bytes.Contains(r.head, []byte("edition =")):
		return &errBroken{errors.New("it looks like a .proto source; compile it first: `buf build -o service.binpb`")}
	}
	return &errBroken{fmt.Errorf("it is not a FileDescriptorSet, or it is truncated: at byte %d: %w", r.at, err)}
}
