// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

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

// NewDescriptorFile is a source that reads the file anew on every load: a google.protobuf.FileDescriptorSet as written
// by `protoc --include_imports -o` or a buf image as written by `buf build -o`, plain or gzipped. Errors are
// *Error and permanent, since only another file can help. One file of the set that cannot be decoded is a
// warning; a set without any is an error.
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
	raw, err := readBounded(d.path, d.limits.MaxBytes)
	if err != nil {
		return nil, fail("read file", err)
	}
	sum := sha256.Sum256(raw)
	if before.Is(sum) {
		return nil, nil
	}
	out, err := ParseDescriptorSet(d.Name(), raw, d.limits)
	if err != nil {
		return nil, fail("decode", err)
	}
	out.Revision = &Revision{Digest: sum}
	return out, nil
}

// readBounded reads the whole file, unpacked if it is gzipped, and refuses more than most bytes of either.
func readBounded(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("it is a directory; use the file that `buf build -o` or `protoc -o` wrote")
	}
	raw, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) && len(raw) <= most {
		unpack, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		if raw, err = io.ReadAll(io.LimitReader(unpack, int64(most)+1)); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
	}
	if len(raw) > most {
		return nil, fmt.Errorf("it has more than %d bytes, the limit for one source (limits.max_descriptor_bytes)", most)
	}
	return raw, nil
}

const (
	// fileField is the number of FileDescriptorSet.file.
	fileField = 1
	// imageExtensionField is where a buf image, a superset of a FileDescriptorSet, keeps what it knows about a file;
	// isImportField within it is true for files that are there only because others import them.
	imageExtensionField = 8042
	isImportField       = 1
)

// ParseDescriptorSet reads a descriptor set that is in memory already. It takes the set apart file by file, so that one
// undecodable file does not cost the others. The source is the name that its warnings have.
func ParseDescriptorSet(source string, raw []byte, l Limits) (*Loaded, error) {
	l = l.withDefaults()
	if len(raw) == 0 {
		return nil, errors.New("the file is empty")
	}
	out := &Loaded{Source: source, Static: true}
	index := 0
	for rest := raw; len(rest) > 0; {
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return nil, notASet(rest, raw, protowire.ParseError(n))
		}
		rest = rest[n:]
		if num != fileField || typ != protowire.BytesType {
			size := protowire.ConsumeFieldValue(num, typ, rest)
			if size < 0 {
				return nil, notASet(rest, raw, protowire.ParseError(size))
			}
			rest = rest[size:]
			continue
		}
		body, size := protowire.ConsumeBytes(rest)
		if size < 0 {
			return nil, notASet(rest, raw, protowire.ParseError(size))
		}
		rest = rest[size:]
		if index++; index > l.MaxFiles {
			return nil, fmt.Errorf("it has more than %d files, the limit for one source", l.MaxFiles)
		}
		file, err := decodeFile(body)
		switch {
		case err != nil:
			out.Warnings = append(out.Warnings, Warning{source, fmt.Sprintf("file %d of the set omitted: %v", index, err)})
		case file.GetName() == "":
			out.Warnings = append(out.Warnings, Warning{source, fmt.Sprintf("file %d of the set omitted: it has no name", index)})
		default:
			if isBufImport(file.ProtoReflect().GetUnknown()) {
				out.Imported = append(out.Imported, file.GetName())
			}
			out.Files = append(out.Files, file)
		}
	}
	if len(out.Files) == 0 {
		if len(out.Warnings) > 0 {
			return nil, fmt.Errorf("no file of the set can be used; the first one: %s", out.Warnings[0].Text)
		}
		return nil, errors.New("it holds no files; is it a FileDescriptorSet, as `buf build -o` or `protoc -o` write it?")
	}
	return out, nil
}

// decodeFile decodes one file with all its extensions left as unknown fields. They are read from their bytes where they
// are needed, so that a foreign extension under a number that this process knows otherwise does no harm.
func decodeFile(raw []byte) (*descriptorpb.FileDescriptorProto, error) {
	file := &descriptorpb.FileDescriptorProto{}
	err := proto.UnmarshalOptions{Resolver: (*protoregistry.Types)(nil)}.Unmarshal(raw, file)
	return file, err
}

// notASet explains bytes that are no descriptor set, by the usual mix-ups.
func notASet(rest, raw []byte, err error) error {
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")):
		return errors.New("it looks like JSON; write the binary form: `buf build -o service.binpb`")
	case bytes.Contains(raw[:min(len(raw), 4096)], []byte("syntax =")), bytes.Contains(raw[:min(len(raw), 4096)], []byte("edition =")):
		return errors.New("it looks like a .proto source; compile it first: `buf build -o service.binpb`")
	}
	return fmt.Errorf("it is not a FileDescriptorSet, or it is truncated: at byte %d: %w", len(raw)-len(rest), err)
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
