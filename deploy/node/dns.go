// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// namesAddress is that of the Service kube-dns: pods ask there.
	namesAddress = "10.96.0.10"
	// clusterZone is what the names of all Services end in.
	clusterZone = ".svc.cluster.local."
	// answerSeconds is how long an answer may be kept: as cluster DNS has it.
	answerSeconds = 5
)

// serveNames answers for the names of Services with the addresses of their ready endpoints, as cluster DNS does for headless
// Services. It does so for all: there is no kube-proxy that would make a cluster IP lead anywhere.
func (n *Node) serveNames(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if n.names, err = lc.ListenPacket(ctx, "udp", namesAddress+":53"); err != nil {
		return err
	}
	go func() {
		query := make([]byte, 512)
		for {
			size, from, err := n.names.ReadFrom(query)
			if err != nil {
				return
			}
			if answer := n.resolve(ctx, query[:size]); answer != nil {
				_, _ = n.names.WriteTo(answer, from)
			}
		}
	}()
	return nil
}

// resolve answers a query, or returns nil for what is none.
func (n *Node) resolve(ctx context.Context, query []byte) []byte {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	addresses, err := n.endpoints(ctx, strings.ToLower(q.Name.String()))
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired},
		Questions: []dnsmessage.Question{q},
	}
	switch {
	case err != nil:
		m.RCode = dnsmessage.RCodeServerFailure
	case len(addresses) == 0:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		for _, a := range addresses {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerSeconds}, Body: &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}

// endpoints are the ready addresses behind SERVICE.NAMESPACE, or that of HOST.SERVICE.NAMESPACE, in the cluster's zone.
func (n *Node) endpoints(ctx context.Context, name string) ([]netip.Addr, error) {
	short, ok := strings.CutSuffix(name, clusterZone)
	labels := strings.Split(short, ".")
	if !ok || len(labels) < 2 || len(labels) > 3 || slices.Contains(labels, "") {
		return nil, nil
	}
	host := ""
	if len(labels) == 3 {
		host, labels = labels[0], labels[1:]
	}
	var list struct {
		Items []struct {
			Endpoints []struct {
				Addresses  []netip.Addr
				Hostname   string
				Conditions struct{ Ready *bool }
			}
		}
	}
	if err := n.api.Get(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+labels[1]+"/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D"+labels[0], &list); err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			if (host == "" || e.Hostname == host) && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				out = append(out, e.Addresses...)
			}
		}
	}
	return out, nil
}
