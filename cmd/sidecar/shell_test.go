// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// shop is a backend with a thousand RPCs, of which the orders really change. A refund takes until the test releases it.
type shop struct {
	url, descriptors string
	release          chan struct{}

	mu       sync.Mutex
	status   string
	refunded int64
}

// shopFile describes it: 100 services of ten methods.
func shopFile() *descriptorpb.FileDescriptorProto {
	text, number := descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum()
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	field := func(name string, n int32, kind *descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Type: kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	}
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("shop/v1/shop.proto"), Package: proto.String("shop.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			message("ItemRequest", field("id", 1, text)),
			message("RefundOrderRequest", field("order_id", 1, text), field("amount_cents", 2, number), field("reason", 3, text)),
			message("Item", field("id", 1, text), field("status", 2, text), field("refunded_cents", 3, number)),
		},
	}
	kinds := []string{"Order"}
	for _, of := range []string{"Retail", "Export", "Domestic", "Seasonal", "Bulk", "Spare", "Legacy", "Partner", "Regional", "Digital"} {
		for _, what := range []string{"Invoice", "Shipment", "Supplier", "Warehouse", "Voucher", "Tariff", "Pallet", "Courier", "Catalogue", "Contract"} {
			kinds = append(kinds, of+what)
		}
	}
	for _, kind := range kinds[:100] {
		service := &descriptorpb.ServiceDescriptorProto{Name: proto.String(kind + "s")}
		for _, verb := range []string{"Get", "Find", "Count", "Approve", "Archive", "Rename", "Assign", "Verify", "Publish", "Refund"} {
			input := ".shop.v1.ItemRequest"
			if verb == "Refund" && kind != "Order" {
				verb = "Inspect"
			} else if verb == "Refund" {
				input = ".shop.v1.RefundOrderRequest"
			}
			service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{Name: proto.String(verb + kind), InputType: &input, OutputType: proto.String(".shop.v1.Item")})
		}
		file.Service = append(file.Service, service)
	}
	return file
}

func startShop(t *testing.T) *shop {
	t.Helper()
	described := shopFile()
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{described}})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{descriptors: filepath.Join(t.TempDir(), "shop.binpb"), status: "PAID", release: make(chan struct{})}
	if err := os.WriteFile(s.descriptors, set, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := protodesc.NewFile(described, nil)
	if err != nil {
		t.Fatal(err)
	}
	orders, mux := file.Services().ByName("Orders"), http.NewServeMux()
	for i := range orders.Methods().Len() {
		method := orders.Methods().Get(i)
		path := "/shop.v1.Orders/" + string(method.Name())
		mux.Handle(path, connect.NewUnaryHandler(path, func(ctx context.Context, req *connect.Request[dynamicpb.Message]) (*connect.Response[dynamicpb.Message], error) {
			return s.serve(ctx, method, req.Msg)
		}, connect.WithSchema(method), connect.WithRequestInitializer(func(_ connect.Spec, m any) error {
			*m.(*dynamicpb.Message) = *dynamicpb.NewMessage(method.Input()) //nolint:forcetypeassert // by its schema
			return nil
		})))
	}
	s.url = "connect+" + mcptest.Serve(t, mux)
	return s
}

func (s *shop) serve(ctx context.Context, method protoreflect.MethodDescriptor, in *dynamicpb.Message) (*connect.Response[dynamicpb.Message], error) {
	get := func(name protoreflect.Name) protoreflect.Value { return in.Get(method.Input().Fields().ByName(name)) }
	out, id := dynamicpb.NewMessage(method.Output()), ""
	if method.Name() == "RefundOrder" {
		select {
		case <-s.release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		id = get("order_id").String()
		s.mu.Lock()
		s.status, s.refunded = "REFUNDED", get("amount_cents").Int()
		s.mu.Unlock()
	} else {
		id = get("id").String()
	}
	if id != "o-17" {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no order %q", id))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fields := method.Output().Fields()
	out.Set(fields.ByName("id"), protoreflect.ValueOfString(id))
	out.Set(fields.ByName("status"), protoreflect.ValueOfString(s.status))
	out.Set(fields.ByName("refunded_cents"), protoreflect.ValueOfInt64(s.refunded))
	return connect.NewResponse(out), nil
}

// agent has a shell, and nothing else.
type agent struct {
	t        *testing.T
	environ  []string
	commands int
	// read is how many bytes it had to read.
	read int
}

// newAgent returns an agent whose shell knows the command, a server and a token.
func newAgent(t *testing.T, server, token string) *agent {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(exe, filepath.Join(bin, "sidecar")); err != nil {
		t.Fatal(err)
	}
	return &agent{t: t, environ: []string{
		"PATH=" + bin + ":/usr/bin:/bin", "OUTRIGGER_SERVER=" + server, "OUTRIGGER_SERVER_TOKEN_FILE=" + token, "XDG_STATE_HOME=" + bin,
	}}
}

// sh runs one command line and returns what it prints and its exit code.
func (a *agent) sh(line string) (out, errors string, code int) {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), "sh", "-c", line)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = a.environ, &stdout, &stderr
	_ = cmd.Run() // its code says what came of it
	a.commands++
	a.read += stdout.Len() + stderr.Len()
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// must is sh for a command that has to succeed.
func (a *agent) must(line string) string {
	a.t.Helper()
	out, errors, code := a.sh(line)
	if code != 0 {
		a.t.Fatalf("%s: exit %d\n%s%s", line, code, out, errors)
	}
	return out
}

// withTrail starts a sidecar with callers and an audit trail, in front of a backend. It returns the file of the token and a function that
// ends the sidecar and returns its lines about calls of the caller.
func withTrail(t *testing.T, args ...string) (p *binary, token string, lines func() []map[string]any) {
	t.Helper()
	dir := t.TempDir()
	const secret = "an-agent-with-a-shell-and-a-token"
	token = filepath.Join(dir, "token")
	callers := "callers:\n  - {name: agent, token_sha256: [\"" + digestOf(secret) + "\"], tools: [\"*\"]}\n"
	for name, text := range map[string]string{"token": secret + "\n", "callers.yaml": callers} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trail := filepath.Join(dir, "audit.jsonl")
	p = startBinary(t, append(args, "--tokens", filepath.Join(dir, "callers.yaml"), "--audit", trail, "--record-dir", "off")...)
	return p, token, func() []map[string]any {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait() // its lines are there then
		raw, err := os.ReadFile(trail)
		if err != nil {
			t.Fatal(err)
		}
		var out []map[string]any
		for line := range bytes.Lines(raw) {
			var l map[string]any
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatal(err)
			}
			if caller, _ := l["caller"].(map[string]any); caller["name"] == "agent" {
				out = append(out, l)
			}
		}
		return out
	}
}

// TestAnAgentWithAShell does a task in five commands, with a catalog of a thousand tools: finds the tool, reads about it, looks, acts as a
// task, and waits for the end. Every call is in the audit trail under its name.
func TestAnAgentWithAShell(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, mode, path string }{
		{"ToolService", "full", ""}, {"compact", "compact", "/mcp"}, {"MCP", "full", "/mcp"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			backend := startShop(t)
			p, token, lines := withTrail(t, "serve", "--backend", backend.url, "--descriptors", backend.descriptors, "--task-after", "1ms", "--catalog-mode", row.mode)
			a := newAgent(t, "http://"+p.main+row.path, token)

			found := a.must(`sidecar search "refund an order"`)
			name, rest, _ := strings.Cut(found, "\n")
			_, call, ok := strings.Cut(rest, "sidecar call ")
			call, _, _ = strings.Cut(call, "\n")
			name, _, _ = strings.Cut(name, " ")
			if !ok || strings.ReplaceAll(name, ".", "_") != "orders_refund_order" || !strings.HasPrefix(call, name+" ") || strings.Count(found, "sidecar call ") != 3 {
				t.Fatalf("found:\n%s", found)
			}
			if about := a.must("sidecar describe " + name); !strings.Contains(about, `"amountCents"`) || !strings.Contains(about, `"orderId"`) {
				t.Errorf("about %s:\n%s", name, about)
			}
			if status := a.must(`sidecar call orders.get_order '{"id":"o-17"}' --fields status --output raw`); status != `{"status":"PAID"}`+"\n" {
				t.Errorf("before: %s", status)
			}
			begun := a.must(`sidecar call ` + name + ` '{"orderId":"o-17","amountCents":"9007199254740993","reason":"broken"}' --task --output raw`)
			var task struct{ TaskID string }
			if err := json.Unmarshal([]byte(begun), &task); err != nil || task.TaskID == "" {
				t.Fatalf("no task: %s, %v", begun, err)
			}
			close(backend.release)
			if end := a.must("sidecar task wait " + task.TaskID + " --output raw"); end != `{"id":"o-17","status":"REFUNDED","refundedCents":"9007199254740993"}`+"\n" {
				t.Errorf("at the end: %s", end)
			}
			t.Logf("%d commands, %d bytes to read", a.commands, a.read)
			if a.commands != 5 || a.read > 8<<10 {
				t.Errorf("it took %d commands and %d bytes to read", a.commands, a.read)
			}
			checkTrail(t, lines(), row.mode == "compact")
		})
	}
}

// checkTrail wants the calls of the five commands in the trail, in order.
func checkTrail(t *testing.T, lines []map[string]any, isCompact bool) {
	t.Helper()
	var got []string
	for _, l := range lines {
		if one := fmt.Sprintf("%v %v %v %v", l["phase"], l["operation"], l["tool"], l["outcome"]); len(got) == 0 || got[len(got)-1] != one {
			got = append(got, one) // a task may be asked for more than once
		}
	}
	var want []string
	if isCompact {
		want = append(want, "end call_tool catalog.search result", "end call_tool catalog.describe result")
	}
	want = append(want, "end call_tool orders.get_order result", "end call_tool orders.refund_order task")
	for _, one := range want {
		at := slices.Index(got, one)
		if at < 0 {
			t.Errorf("the trail lacks %q:\n%s", one, strings.Join(got, "\n"))
			return
		}
		got = got[at+1:]
	}
	if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "task call_tool orders.refund_order") }) ||
		!slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "end get_task") }) {
		t.Errorf("the trail lacks the end of the task, or who asked for it:\n%s", strings.Join(got, "\n"))
	}
}

// TestAShellIsHeldToThePolicy: what a caller may not do has the exit code of its canonical code and a line in the trail, over a Unix
// socket too, on every edge of it.
func TestAShellIsHeldToThePolicy(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "s") // a socket has a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := "unix://" + filepath.Join(dir, "s.sock")
	_, token, lines := withTrail(t, "serve", "--demo", "--listen", socket, "--socket-mode", "0600")
	none := filepath.Join(dir, "none")
	if err := os.WriteFile(none, []byte("a-token-that-the-sidecar-does-not-know\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", ":/mcp", ":/rpc"} {
		a := newAgent(t, socket+path, token)
		for line, want := range map[string]int{
			`sidecar call lab.echo '{"nonce":"n"}' | grep -q '"nonce": "n"'`: 0,
			`sidecar call fleet.cancel_order '{"orderId":"1"}'`:              30,
			`sidecar call fleet.get_vehicle '{"vehicleId":"x"}'`:             14,
			`sidecar call fleet.nothing`:                                     15,
			`sidecar call lab.fail '{"code":7}'`:                             1,
			`sidecar call lab.echo '{"nonce":'`:                              2,
			`sidecar call lab.echo --token-file ` + none:                     27,
			`sidecar call lab.sleep '{"duration":"60s"}' --timeout 200ms`:    34,
			`sidecar call lab.echo --server ` + socket + `.gone`:             36,
			`sidecar tools --demo | grep -q fleet.get_vehicle`:               0, // a flag takes precedence over the environment
			`sidecar call fleet.nothing --demo`:                              3,
			`sidecar call lab.echo --demo --server ` + socket:                2,
		} {
			if out, errors, code := a.sh(line); code != want {
				t.Errorf("%s: %s: exit %d, want %d\n%s%s", path, line, code, want, out, errors)
			}
		}
	}
	refused := map[string]int{}
	for _, l := range lines() {
		refused[fmt.Sprint(l["code"])]++
	}
	for code, want := range map[string]int{"OK": 3, "DESTRUCTIVE_BLOCKED": 3, "INVALID_TOOL_INPUT": 3, "TOOL_NOT_FOUND": 3, "TOOL_EXECUTION_FAILED": 3} {
		if refused[code] != want {
			t.Errorf("%d lines with %s, want %d: %v", refused[code], code, want, refused)
		}
	}
}
