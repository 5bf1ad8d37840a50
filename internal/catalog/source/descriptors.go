// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/wire"
)

// descriptorFile is a Source that reads a FileDescriptorSet.
type descriptorFile struct {
	path   string
	limits Limits
}

// NewDescriptorFile returns a source that rereads the file on every load. The file holds a
// google.protobuf.FileDescriptorSet as written by `protoc --include_imports -o`, or a buf image as written by
// `buf build -o`, plain or gzipped. Errors are *Error and permanent, since only another file can help. A file of the set
// that cannot be decoded is a warning; a set with no decodable file is an error.
func NewDescriptorFile(path string, l Limits) Source {
	return &descriptorFile{path: path, limits: l.withDefaults()}
}

func (d *descriptorFile) Name() string { return "descriptor set " + d.path }

func (d *descriptorFile) Load(ctx context.Context) (*Loaded, error) { return d.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional.
func (d *descriptorFile) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fail := func(step string, err error) error {
		return &Error{Source: d.Name(), Step: step, Permanent: true, Cause: err}
	}
	known := knownFiles(before)
	for try := range 3 {
		if try == 2 {
			known = nil // the file changes while it is read
		}
		in, err := openBounded(d.path, d.limits.MaxBytes)
		if err != nil {
			return nil, fail("read file", err)
		}
		out, err := readSet(d.Name(), in, d.limits, known)
		_ = in.Close()
		var broken *errBroken
		switch {
		case errors.As(err, &broken):
			return nil, fail("decode", err)
		case err != nil:
			return nil, fail("read file", err)
		case before.Is(out.Revision.Digest):
			return nil, nil
		case known.suffice(out):
			return out, nil
		}
		// Files that have not changed import some that have.
	}
	return nil, nil // not reached: nothing known is always enough
}

const (
	// fileField is the number of FileDescriptorSet.file.
	fileField = 1
	// imageExtensionField is where a buf image, a superset of a FileDescriptorSet, keeps what it knows about a file;
	// isImportField within it is true for files that are there only because others import them.
	imageExtensionField = 8042
	isImportField       = 1
)

// ParseDescriptorSet decodes a descriptor set in memory. It decodes file by file, so that an undecodable file does not
// affect the others. Warnings name the given source.
func ParseDescriptorSet(source string, raw []byte, l Limits) (*Loaded, error) {
	out, err := readSet(source, bytes.NewReader(raw), l.withDefaults(), nil)
	if err != nil {
		return nil, err
	}
	out.Revision = nil
	return out, nil
}

// readSet reads a descriptor set. What is known is not decoded.
func readSet(source string, from io.Reader, l Limits, known *knownSet) (*Loaded, error) {
	out := &Loaded{Source: source, Static: true}
	memory, sum := setMemory{}, newSummer()
	in, index := newSetReader(from), 0
	for {
		body, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if index++; index > l.MaxFiles {
			return nil, &errBroken{fmt.Errorf("it has more than %d files, the limit for one source", l.MaxFiles)}
		}
		digest := sha256.Sum256(body)
		sum.add(digest[:])
		note, isKnown := known.file(digest)
		if isKnown {
			out.Same = append(out.Same, note.name)
		} else {
			file, err := decodeFile(body)
			switch {
			case err != nil:
				out.Warnings = append(out.Warnings, Warning{source, fmt.Sprintf("file %d of the set omitted: %v", index, err)})
				continue
			case file.GetName() == "":
				out.Warnings = append(out.Warnings, Warning{source, fmt.Sprintf("file %d of the set omitted: it has no name", index)})
				continue
			}
			note = setFile{name: file.GetName(), imports: file.GetDependency(), isImport: isBufImport(file.ProtoReflect().GetUnknown())}
			out.Files = append(out.Files, file)
		}
		if note.isImport {
			out.Imported = append(out.Imported, note.name)
		}
		memory[digest] = note
	}
	sum.add(binary.BigEndian.AppendUint64(nil, uint64(in.at))) // and the rest by its size, which nothing reads
	out.Revision = &Revision{Digest: sum.sum(), Memory: memory}
	if len(out.Files)+len(out.Same) > 0 {
		return out, nil
	}
	switch {
	case in.at == 0:
		return nil, &errBroken{errors.New("the file is empty")}
	case len(out.Warnings) > 0:
		return nil, &errBroken{fmt.Errorf("no file of the set can be used; the first one: %s", out.Warnings[0].Text)}
	}
	return nil, &errBroken{errors.New("it holds no files; is it a FileDescriptorSet, as `buf build -o` or `protoc -o` write it?")}
}

// decodeFile decodes one file with all its extensions left as unknown fields. They are read from their bytes where they
// are needed, so that a foreign extension under a number that this process knows otherwise does no harm.
func decodeFile(raw []byte) (*descriptorpb.FileDescriptorProto, error) {
	file := &descriptorpb.FileDescriptorProto{}
	err := proto.UnmarshalOptions{Resolver: (*protoregistry.Types)(nil)}.Unmarshal(raw, file)
	return file, err
}

// isBufImport looks for the mark of an imported file in a buf image.
func isBufImport(unknown []byte) bool {
	for len(unknown) > 0 {
		num, typ, n := protowire.ConsumeField(unknown)
		if n < 0 {
			return false
		}
		field := unknown[:n]
		unknown = unknown[n:]
		if num != imageExtensionField || typ != protowire.BytesType {
			continue
		}
		_, _, tag := protowire.ConsumeTag(field)
		body, _ := protowire.ConsumeBytes(field[tag:])
		if v, ok := wire.LastVarint(body, isImportField); ok && v != 0 {
			return true
		}
	}
	return false
}
