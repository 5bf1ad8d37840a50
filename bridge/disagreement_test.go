// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// forgetful is a registry that lists extensions and does not find them again. Of
// the two engines that --validate full compares, one asks it for the list, the
// other for each: so they come to different ends, as they would by a fault of
// their own.
type forgetful struct{ *protoregistry.Types }

func (forgetful) FindExtensionByName(protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return nil, protoregistry.NotFound
}

func (forgetful) FindExtensionByNumber(protoreflect.FullName, protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	return nil, protoregistry.NotFound
}

// disagreeing is a bridge whose lab.echo takes and answers messages with
// extensions, over a forgetful registry. It tells what was found, and how often
// the backend was called.
func disagreeing(t *testing.T, isThorough bool, answer []byte) (b *dialect.Handler, found func() []string, calls func() int) {
	t.Helper()
	var mu sync.Mutex
	var told []string
	called := 0
	message, err := transcode.Compile((&descriptorpb.MethodOptions{}).ProtoReflect().Descriptor(), transcode.Options{
		Resolver: forgetful{protoregistry.GlobalTypes}, Thorough: isThorough,
		Disagreed: func(e *transcode.DisagreementError) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.Error())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// A catalog of this test's own, because others share theirs.
	live := catalog.NewLive([]source.Source{mcptest.Source()}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	tool, ok := live.Current().Lookup("lab.echo")
	if !ok {
		t.Fatal("there is no lab.echo")
	}
	tool.In, tool.Out = message, message
	b = dialect.New(bridge.New(live, mcptest.Upstream(func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
		mu.Lock()
		defer mu.Unlock()
		called++
		return &bridge.Answer{Body: answer}, nil
	}), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	return b, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return told
		}, func() int {
			mu.Lock()
			defer mu.Unlock()
			return called
		}
}

// What the checks of --validate full do not agree on is counted,
// and the caller as an error that names the message. Nothing goes to the backend
// that may be wrong, nothing comes from it, and the values are not repeated.
func TestADisagreementEndsTheCall(t *testing.T) {
	t.Parallel()
	const plain, extended = `{"deprecated":true}`, `{"[outrigger.v1.tool]":{"title":"hush-hush"}}`
	bare, err := proto.Marshal(&descriptorpb.MethodOptions{Deprecated: proto.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, optionsv1.E_Tool, &optionsv1.ToolOptions{Title: "hush-hush"})
	rich, err := proto.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name       string
		isThorough bool
		arguments  string
		answer     []byte
		calls      int
		disagrees  bool
	}{
		{"all agree", true, plain, bare, 1, false},
		{"on the arguments", true, extended, bare, 0, true},
		{"on the answer", true, plain, rich, 1, true},
		{"no comparison", false, extended, rich, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, found, calls := disagreeing(t, tt.isThorough, tt.answer)
			resp := b.Handle(t.Context(), toolCall(b, "lab.echo", tt.arguments))
			if calls() != tt.calls {
				t.Errorf("the backend was called %d times, want %d", calls(), tt.calls)
			}
			if !tt.disagrees {
				if resp.Err != nil || len(found()) != 0 {
					t.Errorf("%v, found %q", resp.Err, found())
				}
				return
			}
			const what = "the checks of google.protobuf.MethodOptions disagree: "
			if codeOf(resp) != errmap.InternalError || !strings.Contains(resp.Err.Message, what) || resp.Result.Bytes != nil {
				t.Errorf("%v, %d bytes of a result", resp.Err, len(resp.Result.Bytes))
			}
			if told := found(); len(told) != 1 || !strings.Contains(told[0], what) || strings.Contains(told[0], "hush") || strings.Contains(resp.Err.Message, "hush") {
				t.Errorf("told %q, the caller hears %v", told, resp.Err)
			}
		})
	}
}
