// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// nativeFile is the JSON of a [Native]. What ListTools of outrigger.v1.ToolService answers is one, too, without a server.
type nativeFile struct {
	Server json.RawMessage   `json:"server,omitempty"`
	Tools  []json.RawMessage `json:"tools"`
}

// nativeSuffix ends the names of files with tools of a native backend.
const nativeSuffix = ".json"

// newNativeFile returns a source of the tools in a file, as [NativeJSON] writes it. Nothing runs them: it is for replays, inventions
// and for looking at them. Errors are permanent.
func newNativeFile(path string, l Limits) Source {
	most := l.withDefaults().MaxBytes
	return &staticSource{NewNative("tools in "+path, func(context.Context) (*Native, error) {
		native, err := readNative(path, most)
		if err != nil {
			return nil, &Error{Source: "tools in " + path, Step: "read file", Permanent: true, Cause: err}
		}
		return native, nil
	})}
}

func readNative(path string, most int) (*Native, error) {
	in, err := openBounded(path, most)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var file nativeFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("no JSON of native tools: %w", err)
	}
	if file.Tools == nil {
		return nil, errors.New(`it has no member "tools": --record-payloads writes tools.json for a native backend; descriptor sets are binary, as "buf build -o api.binpb" writes them`)
	}
	read := protojson.UnmarshalOptions{DiscardUnknown: true}
	out := &Native{}
	if file.Server != nil {
		out.Description = &outriggerv1.ServerDescription{}
		if err := read.Unmarshal(file.Server, out.Description); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
	}
	for i, raw := range file.Tools {
		tool := &outriggerv1.Tool{}
		if err := read.Unmarshal(raw, tool); err != nil {
			return nil, fmt.Errorf("tools[%d]: %w", i, err)
		}
		out.Tools = append(out.Tools, tool)
	}
	return out, nil
}

// NativeJSON is what a backend offers as a file from which its tools can be made without it. Other than tools, it offers nothing then.
func NativeJSON(n *Native) ([]byte, error) {
	file := nativeFile{Tools: []json.RawMessage{}}
	if n.Description != nil {
		about := proto.CloneOf(n.Description)
		about.ResourcesCount, about.PromptsCount = 0, 0
		about.Capabilities = &outriggerv1.ServerCapabilities{Tools: about.GetCapabilities().GetTools()}
		raw, err := protojson.Marshal(about)
		if err != nil {
			return nil, err
		}
		file.Server = raw
	}
	for _, tool := range n.Tools {
		raw, err := protojson.Marshal(tool)
		if err != nil {
			return nil, err
		}
		file.Tools = append(file.Tools, raw)
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	err := to.Encode(file) // which takes the spaces out that protojson varies
	return out.Bytes(), err
}

// staticSource is a Source that changes with its file alone.
type staticSource struct{ Source }

func (s *staticSource) Load(ctx context.Context) (*Loaded, error) { return s.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional.
func (s *staticSource) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	out, err := Load(ctx, s.Source, before)
	if out != nil {
		out.Static = true
	}
	return out, err
}

// kept is a source whose native offers others keep.
type kept struct {
	Source

	keep func(*Native)
}

// Keeping returns a source that passes each new native offer on, once it was loaded.
func Keeping(from Source, keep func(*Native)) Source { return &kept{from, keep} }

func (k *kept) Load(ctx context.Context) (*Loaded, error) { return k.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional.
func (k *kept) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	out, err := Load(ctx, k.Source, before)
	if out != nil && out.Native != nil {
		k.keep(out.Native)
	}
	return out, err
}

func isNativeFile(ref string) bool { return strings.HasSuffix(strings.ToLower(ref), nativeSuffix) }
