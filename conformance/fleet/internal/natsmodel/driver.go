// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// port is that of all servers.
const port = 4222

// URL names servers as nats.go takes them, all of them without arguments.
func (c *Cluster) URL(servers ...int) string {
	if len(servers) == 0 {
		servers = c.all()
	}
	var out []string
	for _, i := range servers {
		out = append(out, fmt.Sprintf("nats://%s", Address(i)))
	}
	return strings.Join(out, ",")
}

// Address is where a server listens: at an address that leads nowhere.
func Address(server int) string { return fmt.Sprintf("192.0.2.%d:%d", server+1, port) }

// Driver serves a cluster over net.Pipe, and does its steps as they come. It is the dialer of its clients.
type Driver struct {
	c     *Cluster
	calls chan func()
	ctx   context.Context //nolint:containedctx // it is that of Run
	conns map[int]*piped
}

// piped is the server's end of a pipe.
type piped struct {
	conn net.Conn
	out  chan []byte
}

// Run drives a cluster until ctx ends. It needs a goroutine. In a bubble of testing/synctest its time is that of the bubble.
func (c *Cluster) Run(ctx context.Context) *Driver {
	d := &Driver{c: c, calls: make(chan func()), ctx: ctx, conns: map[int]*piped{}}
	go d.run()
	return d
}

// errRefused is what nothing that listens says.
var errRefused = errors.New("connection refused")

// Dial connects to a server by its [Address].
func (d *Driver) Dial(_, address string) (net.Conn, error) {
	for i := range d.c.opts.Servers {
		if Address(i) == address {
			var client net.Conn
			d.Do(func(c *Cluster) { client = d.open(c, i) })
			if client == nil {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errRefused}
			}
			return client, nil
		}
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("no server at %s", address)}
}

// Do calls f with the cluster, between its steps. After the end of the driver it does nothing.
func (d *Driver) Do(f func(*Cluster)) {
	done := make(chan struct{})
	select {
	case d.calls <- func() { f(d.c); close(done) }:
		<-done
	case <-d.ctx.Done():
	}
}

func (d *Driver) open(c *Cluster, server int) net.Conn {
	id, ok := c.Open(server)
	if !ok {
		return nil
	}
	client, mine := net.Pipe()
	p := &piped{conn: mine, out: make(chan []byte, 1)}
	d.conns[id] = p
	go func() { // what the client sends
		buf := make([]byte, 64<<10)
		for {
			n, err := mine.Read(buf)
			d.Do(func(c *Cluster) {
				c.Input(id, buf[:n])
				if err != nil {
					c.Close(id)
				}
			})
			if err != nil {
				return
			}
		}
	}()
	go func() { // what it reads
		for data := range p.out {
			if _, err := mine.Write(data); err != nil {
				break
			}
			d.Do(func(*Cluster) {}) // there may be more
		}
		_ = mine.Close()
		for range p.out { // until the driver has closed it
		}
	}()
	return client
}

func (d *Driver) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer func() {
		for _, p := range d.conns {
			close(p.out)
			_ = p.conn.Close()
		}
	}()
	waiting := map[int][]byte{}
	for {
		d.c.Advance(time.Now())
		d.c.Settle()
		d.flush(waiting)
		pause := time.Hour
		if next, ok := d.c.Next(); ok {
			pause = max(0, time.Until(next))
		}
		timer.Reset(pause)
		select {
		case <-d.ctx.Done():
			return
		case f := <-d.calls:
			f()
		case <-timer.C:
		}
	}
}

// flush hands on what the servers have sent. What a client does not take yet waits.
func (d *Driver) flush(waiting map[int][]byte) {
	for _, id := range sortedKeys(d.conns) {
		p := d.conns[id]
		closed := d.c.Closed(id)
		data := slices.Concat(waiting[id], d.c.Output(id))
		delete(waiting, id)
		if len(data) > 0 {
			select {
			case p.out <- data:
			default:
				waiting[id] = data
				continue
			}
		}
		if closed {
			close(p.out)
			d.c.Close(id)
			delete(d.conns, id)
		}
	}
}
