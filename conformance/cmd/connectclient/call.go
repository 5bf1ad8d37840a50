// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
)

// Numbers of connectrpc.conformance.v1.Protocol and StreamType.
const (
	protocolConnect = 1
	protocolGRPC    = 2
	protocolGRPCWeb = 3

	typeUnary        = 1
	typeClientStream = 2
	typeServerStream = 3
	typeHalfDuplex   = 4
	typeFullDuplex   = 5
)

// request is a ClientCompatRequest.
type request struct {
	*schema
	*dynamicpb.Message
}

func (r request) get(name protoreflect.Name) protoreflect.Value {
	return r.Message.Get(r.field(r.Message, name))
}
func (r request) has(name protoreflect.Name) bool { return r.Message.Has(r.field(r.Message, name)) }

// call makes the call that a request describes. An error means that it could not be made.
func (s *schema) call(m *dynamicpb.Message) (*dynamicpb.Message, error) {
	r := request{s, m}
	dir, err := os.MkdirTemp("", "connectclient")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	client, err := r.client(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.has("timeout_ms") {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.get("timeout_ms").Uint())*time.Millisecond)
		defer cancel()
	}
	procedure := "/" + r.get("service").String() + "/" + r.get("method").String()
	var messages [][]byte
	for list, i := r.get("request_messages").List(), 0; i < list.Len(); i++ {
		packed := list.Get(i).Message()
		messages = append(messages, packed.Get(r.field(packed, "value")).Bytes())
	}
	o := &outcome{schema: s}
	if r.get("stream_type").Enum() == typeUnary {
		o.unary(ctx, cancel, r, client, procedure, messages)
	} else {
		o.stream(ctx, cancel, r, client, procedure, messages)
	}
	return o.result(r, len(messages))
}

// client is a client of the server that the request names.
func (r request) client(dir string) (*backend.Client, error) {
	scheme := map[protoreflect.EnumNumber]string{protocolConnect: "connect+http", protocolGRPC: "grpc", protocolGRPCWeb: "grpcweb+http"}[r.get("protocol").Enum()]
	o := backend.Options{Config: &configv1.Backend{Tls: &configv1.BackendTls{}, MaxReceiveBytes: new(int64(r.get("message_receive_limit").Uint()))}}
	if cert := r.get("server_tls_cert").Bytes(); len(cert) > 0 {
		scheme += "s"
		o.Config.Tls.CaFile = filepath.Join(dir, "ca.pem")
		if err := os.WriteFile(o.Config.Tls.CaFile, cert, 0o600); err != nil {
			return nil, err
		}
	}
	if r.has("client_tls_creds") {
		creds := r.get("client_tls_creds").Message()
		for field, file := range map[protoreflect.Name]*string{"cert": &o.Config.Tls.CertFile, "key": &o.Config.Tls.KeyFile} {
			*file = filepath.Join(dir, string(field)+".pem")
			if err := os.WriteFile(*file, creds.Get(r.field(creds, field)).Bytes(), 0o600); err != nil {
				return nil, err
			}
		}
	}
	target, err := backend.ParseTarget(scheme + "://" + net.JoinHostPort(r.get("host").String(), strconv.FormatUint(r.get("port").Uint(), 10)))
	if err != nil {
		return nil, err
	}
	return backend.New(target, o)
}

// header is the request's metadata.
func (r request) header() http.Header {
	h := make(http.Header)
	for list, i := r.get("request_headers").List(), 0; i < list.Len(); i++ {
		entry := list.Get(i).Message()
		name := entry.Get(r.field(entry, "name")).String()
		for values, k := entry.Get(r.field(entry, "value")).List(), 0; k < values.Len(); k++ {
			h.Add(name, values.Get(k).String())
		}
	}
	return h
}

// cancels returns when the call is to be cancelled: -1 for never, as all of them.
func (r request) cancels() (beforeClose bool, afterClose time.Duration, afterResponses int) {
	afterClose, afterResponses = -1, -1
	if !r.has("cancel") {
		return
	}
	c := r.get("cancel").Message()
	switch {
	case c.Has(r.field(c, "before_close_send")):
		beforeClose = true
	case c.Has(r.field(c, "after_num_responses")):
		afterResponses = int(c.Get(r.field(c, "after_num_responses")).Uint())
	default:
		afterClose = time.Duration(c.Get(r.field(c, "after_close_send_ms")).Uint()) * time.Millisecond
	}
	return
}

// outcome is what came of a call.
type outcome struct {
	*schema

	header, trailer http.Header
	messages        [][]byte
	err             error
	sent            int
}

func (o *outcome) unary(ctx context.Context, cancel func(), r request, client *backend.Client, procedure string, messages [][]byte) {
	if len(messages) != 1 {
		o.err = fmt.Errorf("%d messages for a unary call", len(messages))
		return
	}
	if _, after, _ := r.cancels(); after >= 0 {
		defer time.AfterFunc(after, cancel).Stop()
	}
	o.sent = 1
	answer, err := client.Call(ctx, procedure, messages[0], r.header())
	if o.err = err; err == nil {
		o.header, o.trailer, o.messages = answer.Header, answer.Trailer, [][]byte{answer.Body}
	}
}

func (o *outcome) stream(ctx context.Context, cancel func(), r request, client *backend.Client, procedure string, messages [][]byte) {
	kind := map[protoreflect.EnumNumber]connect.StreamType{
		typeClientStream: connect.StreamTypeClient, typeServerStream: connect.StreamTypeServer,
		typeHalfDuplex: connect.StreamTypeBidi, typeFullDuplex: connect.StreamTypeBidi,
	}[r.get("stream_type").Enum()]
	beforeClose, afterClose, afterResponses := r.cancels()
	stream, err := client.OpenStream(ctx, procedure, kind, r.header())
	if err != nil {
		o.err = err
		return
	}
	defer stream.Close()
	duplex, ended := r.get("stream_type").Enum() == typeFullDuplex, false
	receive := func() {
		if afterResponses >= 0 && len(o.messages) >= afterResponses {
			cancel()
		}
		message, err := stream.Receive()
		switch {
		case errors.Is(err, io.EOF):
			ended = true
		case err != nil:
			ended, o.err = true, err
		default:
			o.messages = append(o.messages, append([]byte(nil), message...))
		}
	}
	for i, message := range messages {
		if delay := time.Duration(r.get("request_delay_ms").Uint()) * time.Millisecond; delay > 0 && (i > 0 || kind != connect.StreamTypeServer) {
			select {
			case <-time.After(delay):
			case <-ctx.Done():
			}
		}
		if err := stream.Send(message); err != nil {
			if !errors.Is(err, io.EOF) {
				o.err = err
			}
			break
		}
		o.sent++
		if duplex && !ended {
			if receive(); ended {
				break
			}
		}
	}
	if beforeClose {
		cancel()
	}
	stream.CloseSend()
	if afterClose >= 0 {
		defer time.AfterFunc(afterClose, cancel).Stop()
	}
	for !ended && o.err == nil {
		receive()
	}
	o.header, _ = stream.Header()
	o.trailer = stream.Trailer()
}

// result is the ClientResponseResult.
func (o *outcome) result(r request, messages int) (*dynamicpb.Message, error) {
	m := o.message("ClientResponseResult")
	if o.err != nil {
		var failed *backend.Error
		if !errors.As(o.err, &failed) {
			return nil, o.err
		}
		m.Set(o.field(m, "error"), protoreflect.ValueOfMessage(o.failure(failed)))
		if o.trailer == nil && o.header == nil {
			o.header, o.trailer = failed.Header, failed.Trailer
		}
		if failed.HTTPStatus > 0 && r.get("protocol").Enum() == protocolConnect && r.get("stream_type").Enum() == typeUnary {
			m.Set(o.field(m, "http_status_code"), protoreflect.ValueOfInt32(int32(failed.HTTPStatus)))
		}
	}
	o.headers(m, "response_headers", o.header)
	o.headers(m, "response_trailers", o.trailer)
	method := r.get("method").String()
	payloads := m.Mutable(o.field(m, "payloads")).List()
	for _, raw := range o.messages {
		response := o.message(protoreflect.Name(method + "Response"))
		if err := o.options().Unmarshal(raw, response); err != nil {
			return nil, err
		}
		payloads.Append(response.Mutable(o.field(response, "payload"))) // empty where there is none
	}
	m.Set(o.field(m, "num_unsent_requests"), protoreflect.ValueOfInt32(int32(messages-o.sent)))
	return m, nil
}

// failure is an Error of the suite's package.
func (o *outcome) failure(failed *backend.Error) *dynamicpb.Message {
	m := o.message("Error")
	m.Set(o.field(m, "code"), protoreflect.ValueOfEnum(protoreflect.EnumNumber(failed.Code)))
	m.Set(o.field(m, "message"), protoreflect.ValueOfString(failed.Message))
	details := m.Mutable(o.field(m, "details")).List()
	for _, d := range failed.Details {
		details.Append(protoreflect.ValueOfMessage(o.any(details, d)))
	}
	return m
}

// any is a dynamic message of the same bytes.
func (o *outcome) any(list protoreflect.List, d *anypb.Any) protoreflect.Message {
	m := list.NewElement().Message()
	raw, err := proto.Marshal(d)
	if err == nil {
		err = o.options().Unmarshal(raw, m.Interface())
	}
	if err != nil {
		broken(err) // the same message in another form
	}
	return m
}

func (o *outcome) headers(m *dynamicpb.Message, name protoreflect.Name, h http.Header) {
	list := m.Mutable(o.field(m, name)).List()
	for key, values := range h {
		entry := o.message("Header")
		entry.Set(o.field(entry, "name"), protoreflect.ValueOfString(key))
		to := entry.Mutable(o.field(entry, "value")).List()
		for _, v := range values {
			to.Append(protoreflect.ValueOfString(v))
		}
		list.Append(protoreflect.ValueOfMessage(entry))
	}
}
