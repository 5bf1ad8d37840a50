// SPDX-License-Identifier: Apache-2.0

package natsmodel_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/natsmodel"
)

// noon is the time of models that are not in a bubble.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func alone() *natsmodel.Cluster {
	return natsmodel.New(natsmodel.Options{MaxPayload: 1024}, noon, rand.New(rand.NewPCG(1, 1)))
}

var greeting = regexp.MustCompile(`^INFO .*\r\n`)

// said returns what the server of a connection has said, without the greeting.
func said(c *natsmodel.Cluster, id int) string {
	c.Settle()
	return greeting.ReplaceAllString(string(c.Output(id)), "")
}

const (
	connect = `CONNECT {"headers":true,"no_responders":true}` + "\r\n"
	inbox   = connect + "SUB in 9\r\n"
)

// stream is the configuration of a stream in the tests of the protocol.
const stream = `{"name":"S","subjects":["s.>"],"storage":"file","max_msgs_per_subject":1,"discard":"new","max_bytes":400,"max_msg_size":200,"allow_msg_ttl":true,"allow_rollup_hdrs":true,"deny_delete":true,"subject_delete_marker_ttl":60000000000}`

func pub(subject, text string) string {
	return fmt.Sprintf("PUB %s in %d\r\n%s\r\n", subject, len(text), text)
}

func hpub(subject, header, text string) string {
	header = "NATS/1.0\r\n" + header + "\r\n\r\n"
	return fmt.Sprintf("HPUB %s in %d %d\r\n%s%s\r\n", subject, len(header), len(header)+len(text), header, text)
}

// TestProtocol: what a client sends, and what it reads then.
func TestProtocol(t *testing.T) {
	t.Parallel()
	withStream := inbox + pub("$JS.API.STREAM.CREATE.S", stream)
	stored := withStream + pub("s.a", "x")
	consuming := stored + pub("$JS.API.CONSUMER.CREATE.S.c.s.>", `{"stream_name":"S","config":{"name":"c","filter_subject":"s.>","ack_policy":"none"}}`) + "SUB deliver 8\r\n"
	next := func(text string) string {
		return fmt.Sprintf("PUB $JS.API.CONSUMER.MSG.NEXT.S.c deliver %d\r\n%s\r\n", len(text), text)
	}
	for _, tc := range []struct{ name, sent, want string }{
		{"ping", "PING\r\n", "PONG\r\n"},
		{"small letters and no return", "ping\n", "PONG\r\n"},
		{"verbose", `CONNECT {"verbose":true}` + "\r\nSUB a 1\r\n", "+OK\r\n+OK\r\n"},
		{"half a line", "PIN", ""},
		{"unknown", "NONSENSE\r\n", "-ERR 'Unknown Protocol Operation'\r\n"},
		{"publish to oneself", connect + "SUB a.* 1\r\nPUB a.b r 2\r\nhi\r\n", "MSG a.b 1 r 2\r\nhi\r\n"},
		{"without echo", `CONNECT {"echo":false}` + "\r\nSUB a 1\r\nPUB a 0\r\n\r\n", ""},
		{"headers", connect + "SUB > 1\r\nHPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", "HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"},
		{"unsubscribe", connect + "SUB a 1\r\nUNSUB 1\r\nPUB a 0\r\n\r\n", ""},
		{"unsubscribe later", connect + "SUB a 1\r\nUNSUB 1 1\r\nPUB a 1\r\nx\r\nPUB a 1\r\ny\r\n", "MSG a 1 1\r\nx\r\n"},
		{"no responders", inbox + pub("nothing", ""), "HMSG in 9 39 39\r\nNATS/1.0 503\r\nNats-Subject: nothing\r\n\r\n\r\n"},
		{"too large", "PUB a 1025\r\n", "-ERR 'Maximum Payload Violation'\r\n"},
		{"too long", strings.Repeat("x", 5000), "-ERR 'Maximum Control Line Exceeded'\r\n"},
		{"no size", "PUB a\r\n", "-ERR 'Parser Error'\r\n"},
		{"payload without an end", "PUB a 1\r\nxyz", "-ERR 'Parser Error'\r\n"},
		{"queue group", "SUB a q 1\r\n", "-ERR 'queue groups are not modelled'\r\n"},
		{"bad subject", "SUB a..b 1\r\n", "-ERR 'Invalid Subject'\r\n"},
		{"unknown request", inbox + pub("$JS.API.STREAM.SNAPSHOT.S", ""), `"err_code":10000,"description":"natsmodel: STREAM.SNAPSHOT.S is not modelled"`},
		{"direct get", inbox + pub("$JS.API.DIRECT.GET.S", ""), "NATS/1.0 501 natsmodel: DIRECT.GET.S is not modelled"},
		{"no stream", inbox + pub("$JS.API.STREAM.INFO.S", ""), `"code":404,"err_code":10059`},
		{"created", withStream, `"max_msgs":-1`},
		{"created again", withStream + pub("$JS.API.STREAM.CREATE.S", strings.Replace(stream, "400", "500", 1)), `"err_code":10058`},
		{"overlap", withStream + pub("$JS.API.STREAM.CREATE.T", `{"name":"T","subjects":["s.a"]}`), `"err_code":10065`},
		{"another retention", inbox + pub("$JS.API.STREAM.CREATE.T", `{"name":"T","retention":"workqueue"}`), "such a stream is not modelled"},
		{"replicas of one", inbox + pub("$JS.API.STREAM.CREATE.T", `{"name":"T","num_replicas":3}`), `"err_code":10074`},
		{"stored", stored, `{"stream":"S","seq":1}`},
		{"another stream", withStream + hpub("s.a", "Nats-Expected-Stream: T", ""), `"err_code":10060`},
		{"wrong sequence", stored + hpub("s.a", "Nats-Expected-Last-Subject-Sequence: 7", ""), `"err_code":10071,"description":"wrong last sequence: 1"`},
		{"right sequence", stored + hpub("s.a", "Nats-Expected-Last-Subject-Sequence: 1", ""), `{"stream":"S","seq":2}`},
		{"duplicate", withStream + hpub("s.a", "Nats-Msg-Id: m", "") + hpub("s.a", "Nats-Msg-Id: m", ""), `{"stream":"S","seq":1,"duplicate":true}`},
		{"large", withStream + pub("s.a", strings.Repeat("x", 201)), `"err_code":10054`},
		{"full", withStream + pub("s.a", strings.Repeat("x", 150)) + pub("s.b", strings.Repeat("x", 150)) + pub("s.c", strings.Repeat("x", 150)), `"err_code":10077,"description":"maximum bytes exceeded"`},
		{"short lifetime", withStream + hpub("s.a", "Nats-TTL: 1ms", ""), `"err_code":10165`},
		{"wrong rollup", withStream + hpub("s.a", "Nats-Rollup: some", ""), `"err_code":10111`},
		{"get", stored + pub("$JS.API.STREAM.MSG.GET.S", `{"last_by_subj":"s.a"}`), `"message":{"subject":"s.a","seq":1,"data":"eA=="`},
		{"get the next one", stored + pub("$JS.API.STREAM.MSG.GET.S", `{"seq":1,"next_by_subj":"s.*"}`), `"seq":1`},
		{"get nothing", stored + pub("$JS.API.STREAM.MSG.GET.S", `{"last_by_subj":"s.b"}`), `"err_code":10037`},
		{"get everything", stored + pub("$JS.API.STREAM.MSG.GET.S", `{}`), `"err_code":10003`},
		{"delete one", stored + pub("$JS.API.STREAM.MSG.DELETE.S", `{"seq":1}`), `"err_code":10057`},
		{"purge", stored + pub("$JS.API.STREAM.PURGE.S", ""), `{"success":true,"purged":1}`},
		{"names", stored + pub("$JS.API.STREAM.NAMES", ""), `"streams":["S"]`},
		{"subjects", stored + pub("$JS.API.STREAM.INFO.S", `{"subjects_filter":"s.>"}`), `"subjects":{"s.a":1}`},
		{"deleted", stored + pub("$JS.API.STREAM.DELETE.S", "") + pub("s.a", ""), "NATS/1.0 503"},
		{"account", stored + pub("$JS.API.INFO", ""), `"streams":1`},
		{"consumer of nothing", inbox + pub("$JS.API.CONSUMER.CREATE.S.c", `{"stream_name":"S"}`), `"err_code":10059`},
		{"consumer with acknowledgements", withStream + pub("$JS.API.CONSUMER.CREATE.S.c", `{"stream_name":"S","config":{"ack_policy":"explicit"}}`), "such a consumer is not modelled"},
		{"deliver", consuming + next(`{"batch":1}`), "MSG s.a 8 $JS.ACK.S.c.1.1.1.1767268800000000000.0 1\r\nx\r\n"},
		{"nothing to deliver", consuming + next(`{"batch":1}`) + next(`{"no_wait":true}`), "NATS/1.0 404 No Messages"},
		{"no such consumer", stored + pub("$JS.API.CONSUMER.MSG.NEXT.S.c", ""), "NATS/1.0 503"},
		{"consumer deleted", consuming + next(`{"batch":2}`) + pub("$JS.API.CONSUMER.DELETE.S.c", ""), "NATS/1.0 409 Consumer Deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := alone()
			id, _ := c.Open(0)
			// In parts: one line and its payload may come in any.
			var got strings.Builder
			for rest := tc.sent; rest != ""; {
				n := min(len(rest), 1+len(rest)%7*3)
				c.Input(id, []byte(rest[:n]))
				got.WriteString(said(c, id))
				rest = rest[n:]
			}
			if tc.want == "" && got.String() != "" || !strings.Contains(got.String(), tc.want) {
				t.Errorf("got %q, want %q", got.String(), tc.want)
			}
			if isError := strings.HasPrefix(tc.want, "-ERR"); isError && tc.name != "bad subject" && !c.Closed(id) {
				t.Error("the connection is not closed")
			}
		})
	}
}

// TestTimers: what happens by itself, and when.
func TestTimers(t *testing.T) {
	t.Parallel()
	c := alone()
	id, _ := c.Open(0)
	send := func(text string) string { c.Input(id, []byte(text)); return said(c, id) }
	send(inbox + "SUB deliver 8\r\n" + pub("$JS.API.STREAM.CREATE.S", stream) + hpub("s.a", "Nats-TTL: 5s", "x"))
	send(pub("$JS.API.CONSUMER.CREATE.S.c", `{"stream_name":"S","config":{"ack_policy":"none","inactive_threshold":40000000000}}`))
	request := `{"batch":9,"expires":30000000000,"idle_heartbeat":2000000000}`
	send(fmt.Sprintf("PUB $JS.API.CONSUMER.MSG.NEXT.S.c deliver %d\r\n%s\r\n", len(request), request))
	var heard []string
	for until := noon.Add(80 * time.Second); ; {
		at, ok := c.Next()
		if !ok || at.After(until) {
			break
		}
		c.Advance(at)
		for line := range strings.SplitSeq(said(c, id), "\r\n") {
			if strings.HasPrefix(line, "NATS/1.0 ") || strings.HasPrefix(line, "Nats-Marker") {
				heard = append(heard, fmt.Sprintf("%v %s", at.Sub(noon), line))
			}
		}
	}
	got := strings.Join(heard, "\n")
	for _, want := range []string{"2s NATS/1.0 100 Idle Heartbeat", "5s Nats-Marker-Reason: MaxAge", "7s NATS/1.0 100 Idle", "30s NATS/1.0 408 Request Timeout"} {
		if !strings.Contains("\n"+got, "\n"+want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := send(pub("$JS.API.STREAM.INFO.S", "")); !strings.Contains(got, `"messages":0,"bytes":0,"first_seq":3`) || !strings.Contains(got, `"consumer_count":0`) {
		t.Errorf("the marker or the consumer is still there: %s", got)
	}
}

// FuzzInput: no bytes of a client break a server or make it work without end.
func FuzzInput(f *testing.F) {
	f.Add([]byte(inbox + pub("$JS.API.STREAM.CREATE.S", stream) + hpub("s.a", "Nats-TTL: 1s\r\nNats-Msg-Id: 7", "x")))
	f.Add([]byte(inbox + pub("$JS.API.CONSUMER.CREATE.S.c.s.>", `{"stream_name":"S","config":{"filter_subject":"s.>","ack_policy":"none","deliver_policy":"last_per_subject"}}`)))
	f.Add([]byte("SUB a 1\r\nUNSUB 1 2\r\nPUB a b 2\r\nhi\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := alone()
		id, _ := c.Open(0)
		c.Input(id, []byte(inbox+pub("$JS.API.STREAM.CREATE.S", stream)+pub("s.a", "x")))
		c.Input(id, data)
		for n := range 10_000 {
			steps := c.Pending()
			if len(steps) == 0 {
				break
			}
			if c.Do(steps[n%len(steps)]); n == 9_999 {
				t.Error("it does not come to rest")
			}
		}
		for range 20 {
			at, ok := c.Next()
			if !ok {
				break
			}
			c.Advance(at)
			c.Settle()
		}
	})
}
