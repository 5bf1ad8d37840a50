// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// Names of rows in Saturation.Edges.
const (
	ProxyGRPC, ProxyHTTP = "empty proxy, gRPC to gRPC", "empty proxy, HTTP to gRPC"
	ToolGRPC, TypedGRPC  = "gRPC CallTool", "typed gRPC"
	ToolJSON             = "Connect JSON CallTool"
	// OfOtherBuild ends the names of the rows of another build.
	OfOtherBuild = ", other"
)

// edgePair is an edge with its proxy, and how many times the proxy's CPU a call may need.
type edgePair struct {
	edge, proxy string
	most        float64
}

func edgePairs() []edgePair {
	return []edgePair{{ToolGRPC, ProxyGRPC, 1.5}, {TypedGRPC, ProxyGRPC, 1.5}, {ToolJSON, ProxyHTTP, 2}}
}

func (s *Saturation) edgeCPU(name string) series { return s.Edges.at(name, 0, cpuMicros) }

func (s *Saturation) edgeGoals() []Goal {
	var out []Goal
	for _, pair := range edgePairs() {
		own, proxy := s.edgeCPU(pair.edge), s.edgeCPU(pair.proxy)
		if len(own) == 0 || len(proxy) == 0 {
			continue
		}
		ratio := own.over(proxy)
		out = append(out, Goal{What: "CPU of a call, " + pair.edge + ", of the " + pair.proxy, Wanted: "<= " + number(pair.most), Figure: ratio.spread(), Kept: ratio.median() <= pair.most})
	}
	return out
}

// edgeTable writes the figures behind the goals.
func (s *Saturation) edgeTable(b *strings.Builder) {
	if len(s.Edges) == 0 {
		return
	}
	b.WriteString("\n#### CPU time of the Protobuf edges\n\n| edge | CPU µs/call | × proxy | calls/s |\n|---|--:|--:|--:|\n")
	row := func(name, ratio string) {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, s.edgeCPU(name).spread(), ratio, s.Edges.at(name, 0, goodput).spread())
	}
	row(ProxyGRPC, "–")
	row(ProxyHTTP, "–")
	for _, pair := range edgePairs() {
		for _, name := range []string{pair.edge, pair.edge + OfOtherBuild} {
			if own := s.edgeCPU(name); len(own) > 0 {
				row(name, own.over(s.edgeCPU(pair.proxy)).spread())
			}
		}
	}
}
