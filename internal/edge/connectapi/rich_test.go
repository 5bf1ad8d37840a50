// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"net"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// tower is one sidecar in front of the demo service and a desk, or two, one in
// front of the other. Callers should not be able to tell.
type tower struct {
	url string
	// desk is the native backend, inner the sidecar next to it, outer the one that
	// callers reach. With one sidecar they are the same.
	desk         *mcptest.Native
	inner, outer *mcptest.Rig
}

// floors are the heights of towers.
func floors() map[string]int { return map[string]int{"one sidecar": 1, "two sidecars": 2} }

// build builds a tower. The configuration is that of both sidecars.
func build(t *testing.T, height int, desk *mcptest.Native, configure func(*configv1.Config)) *tower {
	t.Helper()
	return raise(t, height, mcptest.Options{Native: desk, Configure: configure})
}

// buildDesk is build without the demo service, for what needs none.
func buildDesk(t *testing.T, height int, desk *mcptest.Native) *tower {
	t.Helper()
	return raise(t, height, mcptest.Options{Native: desk, NoDemo: true})
}

func raise(t *testing.T, height int, o mcptest.Options) *tower {
	t.Helper()
	tw := &tower{desk: o.Native}
	tw.inner = mcptest.Start(t, o)
	tw.outer, tw.url = tw.inner, tw.inner.Serve(t)
	for range height - 1 {
		tw.outer = mcptest.Start(t, mcptest.Options{Behind: tw.url, Configure: o.Configure})
		tw.url = tw.outer.Serve(t)
	}
	return tw
}

// protocols are the ways to a tower of one's own, which takes a while to build.
func protocols() map[string]func(t *testing.T, url string) outriggerv1connect.ToolServiceClient {
	all := ways()
	return map[string]func(*testing.T, string) outriggerv1connect.ToolServiceClient{
		"connect": all["connect JSON, HTTP/1.1"], "gRPC": all["gRPC"], "gRPC-Web": all["gRPC-Web, over HTTP/1.1"],
	}
}

// TestOneSidecarAndTwo runs everything that is the same behind one sidecar and
// behind two, with a client of every protocol. All clients of one height share
// its tower, which takes a while to build.
func TestOneSidecarAndTwo(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, tw *tower, client apiClient){
		"calls that stream":     callToolStream,
		"streaming RPCs":        aStreamingRPCIsHeardItemByItem,
		"both calls":            bothCallsTellTheSame,
		"metadata":              metadataOfAStreamedCall,
		"questions":             aToolAsks,
		"states":                aStateIsForOneRequest,
		"missing capabilities":  whoCannotBeAskedIsTold,
		"questions of others":   aResourceAndAPromptAsk,
		"consent":               aConsentIsGivenAtEverySidecar,
		"what a call carries":   whatACallCarriesReachesTheBackend,
		"pages":                 listsArePaged,
		"cursors":               aCursorIsForOneList,
		"tools":                 aToolIsDescribed,
		"resources":             resourcesAreRead,
		"prompts":               promptsAndCompletion,
		"the description":       describeCounts,
		"tasks of the sidecars": tasksOfASidecar,
	}
	configure := func(c *configv1.Config) {
		c.Backend.Metadata = &configv1.Metadata{
			Inbound: []string{"x-tenant", "traceparent", "tracestate", "baggage"}, Outbound: []string{"x-reply-*"},
		}
		c.Destructive, c.Limits.MaxPageEntries = proto.String("confirm"), proto.Int32(pageSize)
	}
	for name, height := range floors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tw := build(t, height, reporting(), configure)
			for _, p := range wires() {
				for name, test := range tests {
					t.Run(p.name+"/"+name, func(t *testing.T) {
						t.Parallel()
						test(t, tw, outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), tw.url, p.options...))
					})
				}
			}
		})
	}
}

// pageSize is how many entries a page of a tower has, where a caller wants as
// many as there are.
const pageSize = 7

// apiClient is a caller of the tool API.
type apiClient = outriggerv1connect.ToolServiceClient

// stranger is a client at another address, and so another caller.
func stranger(t *testing.T, url string, options ...connect.ClientOption) outriggerv1connect.ToolServiceClient {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return outriggerv1connect.NewToolServiceClient(&http.Client{Transport: transport}, url, options...)
}

// canAll is a context whose client can do everything.
func canAll() *outriggerv1.RequestContext {
	return &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{
		Elicitation: &outriggerv1.ElicitationCapability{Form: true, Url: true},
		Sampling:    &outriggerv1.SamplingCapability{Tools: true, Context: true},
		Roots:       &outriggerv1.RootsCapability{},
		Tasks:       true,
	}}
}

// accepted is the answer of a user who filled in a form.
func accepted(content string) *outriggerv1.InputResponse {
	return &outriggerv1.InputResponse{Response: &outriggerv1.InputResponse_Elicitation{Elicitation: &outriggerv1.ElicitationResult{
		Action:      outriggerv1.ElicitationAction_ELICITATION_ACTION_ACCEPT,
		ContentForm: &outriggerv1.ElicitationResult_ContentJson{ContentJson: []byte(content)},
	}}}
}

// blockText is the text of a result's first block.
func blockText(r *outriggerv1.ToolResult) string {
	for _, block := range r.GetContent() {
		return block.GetText().GetText()
	}
	return ""
}

// connectapiDepth are options with another bound of nesting.
func connectapiDepth(levels int) connectapi.Options {
	return connectapi.Options{Limits: jsonrpc.Limits{MaxDepth: levels}}
}
