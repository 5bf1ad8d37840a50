// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

const (
	maxControlLine = 4096
	// maxPending bounds what a client that does not read may leave to be sent, maxSubs its subscriptions.
	maxPending = 64 << 20
	maxSubs    = 1 << 16
	crlf       = "\r\n"
)

// conn is the connection of a client.
type conn struct {
	s       *server
	id      int
	in, out []byte
	closed  bool

	connected             bool
	verbose, noResponders bool
	echo, headers         bool
	subs                  []subscription
}

// subscription is one of a client.
type subscription struct {
	subject, sid string
	// max is after how many messages it ends; zero is never.
	max, got int
}

// message is a message on its way.
type message struct {
	// subject is what a client sees, to where it goes: messages of a consumer keep their subject and go to an inbox.
	subject, to, reply string
	header, data       []byte
}

// info is what a server says at the start of a connection.
type info struct {
	ID         string `json:"server_id"`
	Name       string `json:"server_name"`
	Version    string `json:"version"`
	Proto      int    `json:"proto"`
	Host       string `json:"host"`
	Port       int    `json:"port"`
	Headers    bool   `json:"headers"`
	MaxPayload int    `json:"max_payload"`
	JetStream  bool   `json:"jetstream"`
	ClientID   int    `json:"client_id"`
	Cluster    string `json:"cluster,omitempty"`
}

func (k *conn) hello() {
	i := info{
		ID: "NMODEL" + strings.ToUpper(k.s.name), Name: k.s.name, Version: version, Proto: 1, Host: "0.0.0.0", Port: port,
		Headers: true, MaxPayload: k.s.c.opts.MaxPayload, JetStream: k.s.hasJetStream(), ClientID: k.id,
	}
	if k.s.c.clustered() {
		i.Cluster = clusterName
	}
	k.send("INFO "+string(encode(i))+crlf, nil)
}

// encode is the JSON of a value that has one: all are plain structs.
func encode(v any) []byte {
	out, _ := json.Marshal(v) //nolint:errchkjson // it is one of the structs of this package or of nats.go
	return out
}

// send adds to what the client can read.
func (k *conn) send(line string, payload []byte) {
	if k.closed {
		return
	}
	if len(k.out)+len(line)+len(payload) > maxPending {
		k.close() // a slow consumer
		return
	}
	k.out = append(append(k.out, line...), payload...)
}

// fail ends the connection with an error.
func (k *conn) fail(what string) {
	k.send("-ERR '"+what+"'"+crlf, nil)
	k.close()
}

func (k *conn) close() {
	if k.closed {
		return
	}
	k.closed, k.in = true, nil
	for _, sub := range k.subs {
		k.s.want(sub.subject, -1)
	}
	k.subs = nil
}

// parse handles what has arrived in full.
func (k *conn) parse() {
	for !k.closed {
		end := bytes.IndexByte(k.in, '\n')
		if end < 0 {
			if len(k.in) > maxControlLine {
				k.fail("Maximum Control Line Exceeded")
			}
			return
		}
		if end > maxControlLine && !isConnect(k.in) {
			k.fail("Maximum Control Line Exceeded")
			return
		}
		line := strings.TrimSuffix(string(k.in[:end]), "\r")
		used, ok := k.line(line, k.in[end+1:])
		if !ok {
			return
		}
		if k.closed {
			return
		}
		k.in = k.in[end+1+used:]
		if len(k.in) == 0 {
			k.in = nil
		}
	}
}

func isConnect(line []byte) bool {
	return len(line) > 7 && strings.EqualFold(string(line[:7]), "CONNECT")
}

// line handles one line, and returns how many bytes of the rest belong to it; false if they have not all arrived.
func (k *conn) line(line string, rest []byte) (used int, ok bool) {
	op, args, _ := strings.Cut(line, " ")
	fields := strings.Fields(args)
	switch strings.ToUpper(op) {
	case "CONNECT":
		k.connect(args)
	case "PING":
		k.send("PONG"+crlf, nil)
	case "PONG":
	case "SUB":
		k.subscribe(fields)
	case "UNSUB":
		k.unsubscribe(fields)
	case "PUB":
		return k.publish(fields, rest, false)
	case "HPUB":
		return k.publish(fields, rest, true)
	case "":
		if line != "" {
			k.fail("Unknown Protocol Operation")
		}
	default:
		k.fail("Unknown Protocol Operation")
	}
	return 0, true
}

func (k *conn) connect(args string) {
	o := struct {
		Verbose      bool  `json:"verbose"`
		Echo         *bool `json:"echo"`
		Headers      bool  `json:"headers"`
		NoResponders bool  `json:"no_responders"`
	}{}
	if err := json.Unmarshal([]byte(args), &o); err != nil {
		k.fail("Parser Error")
		return
	}
	if o.NoResponders && !o.Headers {
		k.fail("no responders requires headers support")
		return
	}
	k.connected, k.verbose, k.headers, k.noResponders = true, o.Verbose, o.Headers, o.NoResponders
	k.echo = o.Echo == nil || *o.Echo
	k.ok()
}

func (k *conn) ok() {
	if k.verbose {
		k.send("+OK"+crlf, nil)
	}
}

func (k *conn) subscribe(fields []string) {
	switch {
	case len(fields) == 3:
		k.fail("queue groups are not modelled")
		return
	case len(fields) != 2:
		k.fail("Parser Error")
		return
	case !isFilter(fields[0]):
		k.send("-ERR 'Invalid Subject'"+crlf, nil)
		return
	case len(k.subs) >= maxSubs:
		k.fail("maximum subscriptions exceeded")
		return
	}
	for _, sub := range k.subs {
		if sub.sid == fields[1] { // the first one stays
			k.ok()
			return
		}
	}
	k.subs = append(k.subs, subscription{subject: fields[0], sid: fields[1]})
	k.s.want(fields[0], 1)
	k.ok()
}

func (k *conn) unsubscribe(fields []string) {
	most := 0
	if len(fields) == 2 {
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			k.fail("Parser Error")
			return
		}
		most = max(n, 0)
	} else if len(fields) != 1 {
		k.fail("Parser Error")
		return
	}
	for i := range k.subs {
		if k.subs[i].sid == fields[0] {
			k.subs[i].max = most
			if most == 0 || k.subs[i].got >= most {
				k.drop(i)
			}
			break
		}
	}
	k.ok()
}

// drop ends a subscription.
func (k *conn) drop(i int) {
	subject := k.subs[i].subject
	k.subs = append(k.subs[:i:i], k.subs[i+1:]...)
	k.s.want(subject, -1)
}

// publish handles a PUB or HPUB.
func (k *conn) publish(fields []string, rest []byte, hasHeader bool) (used int, ok bool) {
	sizes := 1
	if hasHeader {
		sizes = 2
	}
	if len(fields) != sizes+1 && len(fields) != sizes+2 {
		k.fail("Parser Error")
		return 0, true
	}
	total, err := strconv.Atoi(fields[len(fields)-1])
	header := 0
	if err == nil && hasHeader {
		header, err = strconv.Atoi(fields[len(fields)-2])
	}
	if err != nil || total < 0 || header < 0 || header > total || hasHeader && !k.headers {
		k.fail("Parser Error")
		return 0, true
	}
	if total > k.s.c.opts.MaxPayload {
		k.fail("Maximum Payload Violation")
		return 0, true
	}
	if len(rest) < total+2 {
		return 0, false
	}
	if string(rest[total:total+2]) != crlf {
		k.fail("Parser Error")
		return 0, true
	}
	m := message{subject: fields[0], to: fields[0], header: bytes.Clone(rest[:header]), data: bytes.Clone(rest[header:total])}
	if len(fields) == sizes+2 {
		m.reply = fields[1]
	}
	if !k.s.publish(k, m) && m.reply != "" && k.noResponders {
		k.deliver(message{subject: m.reply, to: m.reply, header: []byte("NATS/1.0 503\r\nNats-Subject: " + m.subject + "\r\n\r\n")})
	}
	k.ok()
	return total + 2, true
}

// deliver sends a message to the subscriptions that want it, and reports whether there is one.
func (k *conn) deliver(m message) bool {
	found := false
	for i := 0; i < len(k.subs) && !k.closed; i++ {
		sub := &k.subs[i]
		if !matches(sub.subject, m.to) {
			continue
		}
		found = true
		k.write(sub.sid, m)
		if sub.got++; sub.max > 0 && sub.got >= sub.max {
			k.drop(i)
			i--
		}
	}
	return found
}

func (k *conn) write(sid string, m message) {
	reply := ""
	if m.reply != "" {
		reply = m.reply + " "
	}
	if len(m.header) > 0 && k.headers {
		k.send(fmt.Sprintf("HMSG %s %s %s%d %d\r\n", m.subject, sid, reply, len(m.header), len(m.header)+len(m.data)), m.header)
	} else {
		k.send(fmt.Sprintf("MSG %s %s %s%d\r\n", m.subject, sid, reply, len(m.data)), nil)
	}
	k.send(string(m.data)+crlf, nil)
}
