// SPDX-License-Identifier: Apache-2.0

// Package demo is an example tool service: a courier's fleet on an atoll, and a workbench for callers.
//
// Its one job is to be a real backend: `--demo` starts it in the same process, and tests and benchmarks call it.
// It is at the far end of the flow, behind the backend client, and knows nothing of tools, JSON-RPC or MCP.
// It speaks gRPC, gRPC-Web and Connect on one loopback listener, with health and reflection.
//
// It refuses to listen beyond loopback, because it does not authenticate callers. It keeps everything in memory and forgets
// it at the end; the data is the same at every start.
//
// Everything exported is safe for concurrent use.
package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"connectrpc.com/validate"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpshutdown"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

const (
	// headerTimeout ends connections that never finish their request headers. Loopback callers need milliseconds.
	headerTimeout = 5 * time.Second
	// idleTimeout ends idle connections, long after any pause between an agent's calls.
	idleTimeout = 5 * time.Minute
	// maxHeaderBytes leaves room for large tokens and baggage, and none for abuse.
	maxHeaderBytes = 64 << 10
)

// errNotLoopback tells that the service was asked to listen where other machines could reach it.
var errNotLoopback = errors.New("the demo service listens on loopback addresses only")

// Server is a running demo service. Its owner closes it.
type Server struct {
	url      string
	http     *http.Server
	stop     func() // ends streams that would not end by themselves
	serveErr error  // written before done is closed
	done     chan struct{}
}

// Start listens and serves until Close. The context bounds the start only, so that a caller can still finish its calls
// after its own context has ended. Start returns once connections are accepted. Errors: errNotLoopback, or a *net.OpError.
func Start(ctx context.Context, opts Options) (*Server, error) {
	opts = opts.withDefaults()
	if err := checkLoopback(opts.Addr); err != nil {
		return nil, err
	}
	stopping := make(chan struct{})
	stop := sync.OnceFunc(func() { close(stopping) })
	handler, err := newHandler(opts, stopping)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("demo: listen: %w", err)
	}

	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &Server{
		url: "http://" + listener.Addr().String(),
		http: &http.Server{
			Handler:           guard(handler),
			Protocols:         protocols,
			HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: opts.MaxConcurrentStreams},
			ReadHeaderTimeout: headerTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
		},
		stop: stop,
		done: make(chan struct{}),
	}
	// Without its own log, http.Server would write to the process's stderr.
	if errorLog, err := zap.NewStdLogAt(opts.Logger, zap.WarnLevel); err == nil {
		s.http.ErrorLog = errorLog
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.serveErr = fmt.Errorf("demo: serve: %w", err)
		}
	}()
	return s, nil
}

// URL returns where the service listens, "http://127.0.0.1:port".
func (s *Server) URL() string { return s.url }

// Close stops accepting, ends watching streams and lets other calls finish. When ctx ends first, it cuts the connections,
// which cancels what is still running, and returns the context's error. Closing twice is harmless.
//
// An idle HTTP/2 connection holds Close up for one second, the grace that net/http gives its peer to hang up. A caller in
// the same process hangs up first (http.Transport.CloseIdleConnections), and Close returns within milliseconds.
func (s *Server) Close(ctx context.Context) error {
	s.stop()
	err := httpshutdown.Shutdown(ctx, s.http)
	if err != nil {
		err = fmt.Errorf("demo: close: %w", errors.Join(err, s.http.Close()))
	}
	<-s.done
	return errors.Join(err, s.serveErr)
}

func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("demo: address: %w", err)
	}
	if !isLoopback(host) {
		return fmt.Errorf("%w, not on %q", errNotLoopback, addr)
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// guard keeps web pages out: a page's requests carry an Origin, and one that has rebound its own name to 127.0.0.1
// carries that name as Host. No caller of this service is a page.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if r.Header.Get("Origin") != "" || !isLoopback(host) {
			http.Error(w, "this service answers programs on this machine only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// compressFrom is the size from which answers are compressed. Over loopback, compressing small ones costs more time than
// sending them.
const compressFrom = 64 << 10

// Handler returns the service for mounting at the root of a server of the caller's own, without a listener and without the
// check for web pages. Reflection and streams in both directions need HTTP/2. Each handler has its own data.
func Handler(opts Options) (http.Handler, error) {
	return newHandler(opts.withDefaults(), nil)
}

// newHandler builds the handler. A closed stopping channel ends streams that would not end by themselves; nil never does.
func newHandler(opts Options, stopping <-chan struct{}) (http.Handler, error) {
	files, err := describedFiles()
	if err != nil {
		return nil, err
	}
	services := []string{demov1connect.FleetName, demov1connect.LabName}
	plain := []connect.HandlerOption{
		connect.WithReadMaxBytes(opts.MaxMessageBytes),
		connect.WithSendMaxBytes(opts.MaxMessageBytes),
		connect.WithCompressMinBytes(compressFrom),
		connect.WithRecover(recoverer(opts.Logger)),
	}
	checked := slices.Concat(plain, []connect.HandlerOption{connect.WithInterceptors(validate.NewInterceptor())})
	reflector := grpcreflect.NewReflector(
		grpcreflect.NamerFunc(func() []string { return services }),
		grpcreflect.WithDescriptorResolver(files),
	)

	mux := http.NewServeMux()
	mux.Handle(demov1connect.NewFleetHandler(newFleet(opts, stopping), checked...))
	mux.Handle(demov1connect.NewLabHandler(lab{}, checked...))
	mux.Handle(grpchealth.NewHandler(grpchealth.NewStaticChecker(services...), plain...))
	mux.Handle(grpcreflect.NewHandlerV1(reflector, plain...))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, plain...))
	return mux, nil
}

// recoverer turns a panic of one call into that call's error, and keeps the stack for the log.
func recoverer(logger *zap.Logger) func(context.Context, connect.Spec, http.Header, any) error {
	return func(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
		logger.Error("panic in the demo service",
			logkey.AppendPanic([]zap.Field{zap.String(logkey.RPCMethod, strings.TrimPrefix(spec.Procedure, "/"))}, cause, debug.Stack())...)
		return connect.NewError(connect.CodeInternal, errors.New("the service failed"))
	}
}

// Defaults of Options.
const (
	// defaultAddr lets the system choose a free port that only this machine reaches.
	defaultAddr = "127.0.0.1:0"
	// defaultMaxMessageBytes bounds one message in either direction. It is the limit that grpc-go has for receiving.
	defaultMaxMessageBytes = 4 << 20
	// defaultMaxOrders bounds the order book. The rules let one order take some 20 KB, so that a full book stays near 40 MB,
	// and an agent that places one order a second needs half an hour to fill it.
	defaultMaxOrders = 2_000
	// DefaultMaxConcurrentStreams bounds the calls in flight on one HTTP/2 connection. Go's own default, 250, would make
	// the 256 callers of the benchmark wait for each other.
	DefaultMaxConcurrentStreams = 4096
)

// Options says how the demo service behaves. The zero value is ready for use.
type Options struct {
	// Addr is the loopback address to listen on, "host:port". Empty means defaultAddr.
	Addr string
	// MaxMessageBytes bounds one message in either direction. 0 means defaultMaxMessageBytes.
	MaxMessageBytes int
	// MaxOrders bounds the order book. 0 means defaultMaxOrders.
	MaxOrders int
	// MaxConcurrentStreams bounds the calls in flight on one HTTP/2 connection. 0 means DefaultMaxConcurrentStreams.
	MaxConcurrentStreams int
	// Now is the clock of new orders, plans and updates. Nil means time.Now. It does not drive timers.
	Now func() time.Time
	// Logger hears of panics and of faults of the listener. Nil means silence.
	Logger *zap.Logger
}

func (o Options) withDefaults() Options {
	if o.Addr == "" {
		o.Addr = defaultAddr
	}
	if o.MaxMessageBytes <= 0 {
		o.MaxMessageBytes = defaultMaxMessageBytes
	}
	if o.MaxOrders <= 0 {
		o.MaxOrders = defaultMaxOrders
	}
	if o.MaxConcurrentStreams <= 0 {
		o.MaxConcurrentStreams = DefaultMaxConcurrentStreams
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// describedSet holds the descriptors of the demo's own .proto files with their comments. Generated Go code drops comments,
// and they are what callers read as descriptions. Imports are left out: they are linked in, and theirs are not read.
//
//go:embed demo.binpb
var describedSet []byte

// describedFiles returns a registry of the demo's files with comments, and of what they import, and of nothing else, so that
// reflection does not show what else is linked into the process.
func describedFiles() (*protoregistry.Files, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(describedSet, &set); err != nil {
		return nil, fmt.Errorf("demo: embedded descriptors: %w", err)
	}
	own := make(map[string]*descriptorpb.FileDescriptorProto, len(set.GetFile()))
	for _, file := range set.GetFile() {
		own[file.GetName()] = file
	}
	files := new(protoregistry.Files)
	for _, file := range set.GetFile() {
		if err := addFile(files, own, file.GetName()); err != nil {
			return nil, fmt.Errorf("demo: embedded descriptors: %w", err)
		}
	}
	return files, nil
}

// addFile registers a file after the files that it imports.
func addFile(files *protoregistry.Files, own map[string]*descriptorpb.FileDescriptorProto, path string) error {
	if _, err := files.FindFileByPath(path); err == nil {
		return nil
	}
	described, isOwn := own[path]
	if !isOwn {
		linked, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			return fmt.Errorf("import %s: %w", path, err)
		}
		imports := linked.Imports()
		for i := range imports.Len() {
			if err := addFile(files, own, imports.Get(i).Path()); err != nil {
				return err
			}
		}
		return files.RegisterFile(linked)
	}
	for _, dependency := range described.GetDependency() {
		if err := addFile(files, own, dependency); err != nil {
			return err
		}
	}
	file, err := protodesc.NewFile(described, files)
	if err != nil {
		return err
	}
	return files.RegisterFile(file)
}

// firstOrder is 2^53 + 1, the first whole number that a double cannot hold. Ids go up in steps of two from there, so that
// each of them is odd and changes when it is rounded.
const (
	firstOrder = 1<<53 + 1
	orderStep  = 2
)

// seedTime is when the data was seen last: six in the morning, before the first canoe leaves. It is fixed, so that answers
// can be compared with recorded ones.
func seedTime() time.Time { return time.Date(2026, time.June, 1, 6, 0, 0, 0, time.UTC) }

func stop(id int64, name string, latitude, longitude float64) *demov1.Stop {
	return &demov1.Stop{Id: id, Name: name, Position: &demov1.Position{Latitude: latitude, Longitude: longitude}}
}

// seedMap returns the atoll: islands as areas, each with its quay as the first stop.
func seedMap() *demov1.Area {
	return &demov1.Area{Name: "Hoku Atoll", Areas: []*demov1.Area{
		{
			Name:  "Motu Nui",
			Stops: []*demov1.Stop{stop(1, "Motu Nui quay", -16.5000, -151.7500)},
			Areas: []*demov1.Area{
				{Name: "Harbour", Stops: []*demov1.Stop{
					stop(2, "Fish market", -16.5012, -151.7478),
					stop(3, "Harbour master", -16.4991, -151.7489),
				}},
				{Name: "Old Town", Stops: []*demov1.Stop{
					stop(4, "Coconut Café", -16.5060, -151.7441),
					stop(5, "Banyan school", -16.5093, -151.7402),
					stop(6, "Clinic", -16.5078, -151.7467),
				}},
			},
		},
		{Name: "Motu Iti", Stops: []*demov1.Stop{
			stop(11, "Motu Iti quay", -16.4420, -151.7310),
			stop(12, "Lighthouse", -16.4371, -151.7252),
			stop(13, "Pearl farm", -16.4466, -151.7238),
		}},
		{Name: "Sandbar", Stops: []*demov1.Stop{
			stop(21, "Sandbar jetty", -16.4760, -151.7900),
			stop(22, "Research station", -16.4738, -151.7933),
		}},
	}}
}

// seedVehicles returns the fleet, without orders on board.
func seedVehicles() []*demov1.Vehicle {
	const (
		bike  = demov1.VehicleKind_VEHICLE_KIND_CARGO_BIKE
		van   = demov1.VehicleKind_VEHICLE_KIND_VAN
		canoe = demov1.VehicleKind_VEHICLE_KIND_CANOE
		drone = demov1.VehicleKind_VEHICLE_KIND_DRONE

		idle     = demov1.VehicleStatus_VEHICLE_STATUS_IDLE
		charging = demov1.VehicleStatus_VEHICLE_STATUS_CHARGING
		workshop = demov1.VehicleStatus_VEHICLE_STATUS_IN_WORKSHOP
	)
	rows := []struct {
		id                  int64
		callSign            string
		kind                demov1.VehicleKind
		status              demov1.VehicleStatus
		latitude, longitude float64
		battery             float64 // below 0: has none
		capacity            float64
		driver              string
		home, note          string
	}{
		{101, "Kingfisher", van, idle, -16.5003, -151.7495, 88, 600, "Moana", "Motu Nui", ""},
		{102, "Tern", bike, idle, -16.5058, -151.7444, 64.5, 80, "Teva", "Motu Nui", ""},
		{103, "Frigatebird", canoe, idle, -16.4790, -151.7420, -1, 220, "Hina", "Motu Nui", ""},
		{104, "Noddy", bike, charging, -16.5010, -151.7480, 12, 80, "", "Motu Nui", ""},
		{105, "Petrel", drone, idle, -16.4420, -151.7310, 91, 4, "", "Motu Iti", "needs line of sight"},
		{106, "Shearwater", canoe, idle, -16.4762, -151.7897, -1, 300, "Rangi", "Sandbar", ""},
		{107, "Booby", van, workshop, -16.4992, -151.7488, 40, 650, "", "Motu Nui", "waits for a gearbox"},
		{108, "Tropicbird", drone, idle, -16.5000, -151.7501, 37, 4, "", "Motu Nui", ""},
		{109, "Heron", bike, idle, -16.4418, -151.7312, 77, 80, "Manu", "Motu Iti", ""},
	}
	seen := timestamppb.New(seedTime())
	fleet := make([]*demov1.Vehicle, 0, len(rows))
	for _, row := range rows {
		v := &demov1.Vehicle{
			Id: row.id, CallSign: row.callSign, Kind: row.kind, Status: row.status, CapacityKg: row.capacity,
			Position: &demov1.Position{Latitude: row.latitude, Longitude: row.longitude},
			LastSeen: seen, Labels: map[string]string{"home": row.home},
		}
		if row.battery >= 0 {
			v.BatteryPercent = wrapperspb.Double(row.battery)
		}
		if row.driver != "" {
			v.Driver = &row.driver
		}
		if row.note != "" {
			v.Labels["note"] = row.note
		}
		fleet = append(fleet, v)
	}
	return fleet
}

// seedOrders returns the book, sorted by id.
func seedOrders() []*demov1.Order {
	toStop := func(id int64) *demov1.Destination {
		return &demov1.Destination{Place: &demov1.Destination_StopId{StopId: id}}
	}
	parcel := func(contents string, weight float64, cents int64, fragile bool) *demov1.Parcel {
		return &demov1.Parcel{Contents: contents, WeightKg: weight, ValueCents: cents, Fragile: fragile}
	}
	const (
		placed    = demov1.OrderStatus_ORDER_STATUS_PLACED
		assigned  = demov1.OrderStatus_ORDER_STATUS_ASSIGNED
		delivered = demov1.OrderStatus_ORDER_STATUS_DELIVERED
	)
	rows := []struct {
		customer    string
		destination *demov1.Destination
		status      demov1.OrderStatus
		vehicle     int64 // 0: none
		age         time.Duration
		expected    time.Duration
		channel     string
		parcels     []*demov1.Parcel
	}{
		{"Coconut Café", toStop(4), delivered, 102, 20 * time.Hour, 12 * time.Minute, "phone", []*demov1.Parcel{parcel("espresso beans", 12, 18_000, false), parcel("oat milk", 9.5, 3_400, false)}},
		{"Banyan school", toStop(5), assigned, 102, 3 * time.Hour, 15 * time.Minute, "web", []*demov1.Parcel{parcel("globe", 2.2, 4_900, true), parcel("chalk", 1, 600, false)}},
		{"Lighthouse keeper", toStop(12), assigned, 103, 2 * time.Hour, 55 * time.Minute, "radio", []*demov1.Parcel{parcel("Fresnel lens segment", 31, 1_250_000, true), parcel("brass polish", 0.8, 900, false), parcel("letters", 0.3, 0, false)}},
		{"Clinic", toStop(6), placed, 0, 40 * time.Minute, 10 * time.Minute, "phone", []*demov1.Parcel{parcel("vaccines, keep cold", 3.5, 96_000, true)}},
		{"Research station", toStop(22), placed, 0, 35 * time.Minute, 70 * time.Minute, "web", []*demov1.Parcel{parcel("sediment corer", 48, 310_000, false), parcel("sample jars", 14, 5_200, true)}},
		{"Yacht Sirocco", &demov1.Destination{
			Place:  &demov1.Destination_Position{Position: &demov1.Position{Latitude: -16.4655, Longitude: -151.7605}},
			HandTo: new("the one with the red hat"),
		}, placed, 0, 30 * time.Minute, 40 * time.Minute, "radio", []*demov1.Parcel{parcel("spare impeller", 0.9, 7_800, false), parcel("mangoes", 4, 1_200, false)}},
		{"Auntie Vai", &demov1.Destination{Place: &demov1.Destination_Address{Address: &demov1.Address{
			Lines: []string{"Blue house behind the banyan", "mind the dog"}, Island: "Motu Nui",
		}}}, placed, 0, 25 * time.Minute, 20 * time.Minute, "phone", []*demov1.Parcel{parcel("rocking chair", 11, 23_000, false)}},
		{"Pearl farm", toStop(13), delivered, 106, 44 * time.Hour, 80 * time.Minute, "web", []*demov1.Parcel{parcel("rope, 200 m", 36, 14_500, false)}},
		{"Fish market", toStop(2), placed, 0, 5 * time.Minute, 15 * time.Minute, "phone", []*demov1.Parcel{parcel("ice", 180, 2_000, false)}},
	}
	book := make([]*demov1.Order, 0, len(rows))
	for i, row := range rows {
		o := &demov1.Order{
			Id: firstOrder + uint64(i)*orderStep, Customer: row.customer, Destination: row.destination, Parcels: row.parcels,
			Status: row.status, PlacedAt: timestamppb.New(seedTime().Add(-row.age)),
			ExpectedDuration: durationpb.New(row.expected), Labels: map[string]string{"channel": row.channel},
		}
		if row.vehicle != 0 {
			o.VehicleId = wrapperspb.Int64(row.vehicle)
		}
		book = append(book, o)
	}
	return book
}

// The picture's size in pixels: wide enough for a name, small enough for a log line.
const (
	proofWidth  = 160
	proofHeight = 48
)

// signature draws what the customer scribbled. The same order always gets the same scribble.
func signature(o *demov1.Order) (*demov1.DeliveryProof, error) {
	picture := image.NewPaletted(image.Rect(0, 0, proofWidth, proofHeight), color.Palette{color.White, color.Black})
	hand := rand.New(rand.NewPCG(o.GetId(), proofWidth)) //nolint:gosec // the same scribble every time is the point
	wobble, lean := 2+4*hand.Float64(), 0.2+0.5*hand.Float64()
	const steps = 40 * proofWidth // close enough that the line has no gaps
	for i := range steps {
		t := float64(i) / steps
		x := 8 + t*(proofWidth-24) + 7*math.Cos(t*wobble*14)
		y := proofHeight/2 + (0.8-lean*t)*16*math.Sin(t*wobble*9+lean)
		picture.SetColorIndex(int(x), int(y), 1)
		picture.SetColorIndex(int(x), int(y)+1, 1)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(out.Bytes())
	return &demov1.DeliveryProof{
		OrderId: o.GetId(), SignedBy: o.GetCustomer(), Image: out.Bytes(), MediaType: "image/png", Sha256: sum[:],
	}, nil
}
