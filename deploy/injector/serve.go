// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/outrigger-mcp/outrigger/deploy/inject"
)

// Path is where the webhook answers.
const Path = "/inject"

// certificateTimeout bounds the first certificate, while the API server or the
// webhook's configuration may not be there yet.
const certificateTimeout = time.Minute

// Options are those of a replica.
type Options struct {
	// Inject is for package inject. The own namespace is never touched.
	Inject inject.Options
	// Namespace is the replica's own; Secret, Webhook and Lease are names of objects that
	// replicas share.
	Namespace, Secret, Webhook, Lease string
	// Names are DNS names and addresses of the webhook, for its certificate.
	Names []string
	// CertFile and KeyFile replace the self-made certificate. They are reloaded.
	CertFile, KeyFile string
	// Listen, MetricsListen and HealthListen are addresses.
	Listen, MetricsListen, HealthListen string
	// SweepInterval is the time between two sweeps, RestartsPerMinute limits evictions.
	SweepInterval     time.Duration
	RestartsPerMinute int
	// DrainDelay is how long a replica serves after it was asked to end, because the API server
	// still sends it pods.
	DrainDelay time.Duration
	Log        logr.Logger
	Audit      io.Writer
}

func (o Options) check() error {
	var faults []error
	for _, f := range []struct {
		bad  bool
		text string
	}{
		{o.Namespace == "", "--namespace: there is none; set it or POD_NAMESPACE"},
		{(o.CertFile == "") != (o.KeyFile == ""), "--tls-cert and --tls-key: set both or neither"},
		{o.SweepInterval < time.Second || o.SweepInterval > time.Hour, "--sweep-interval: must be from 1s to 1h"},
		{o.RestartsPerMinute < 0 || o.RestartsPerMinute > 600, "--restarts-per-minute: must be from 0 to 600"},
		{o.DrainDelay < 0 || o.DrainDelay > time.Minute, "--drain-delay: must be from 0s to 1m"},
		{o.CertFile == "" && len(o.Names) == 0, "--tls-names: a self-made certificate needs a name"},
	} {
		if f.bad {
			faults = append(faults, errors.New(f.text))
		}
	}
	return errors.Join(faults...)
}

// Serve runs a replica until the context ends.
func Serve(ctx context.Context, config *rest.Config, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	o.Inject.Never = append(o.Inject.Never, o.Namespace)
	decide, err := inject.New(o.Inject)
	if err != nil {
		return err
	}
	if err := checkVersion(config); err != nil {
		return err
	}
	m, err := NewMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	audit := NewAudit(o.Audit)
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	getCertificate, watcher, err := certificates(ctx, direct, o, audit, m)
	if err != nil {
		return err
	}
	server, err := webhookServer(o.Listen, getCertificate)
	if err != nil {
		return err
	}
	mgr, err := manager.New(config, manager.Options{
		Scheme: scheme, Logger: o.Log, WebhookServer: server,
		Metrics:                metricsserver.Options{BindAddress: o.MetricsListen},
		HealthProbeBindAddress: o.HealthListen,
		LeaderElection:         true, LeaderElectionID: o.Lease, LeaderElectionNamespace: o.Namespace, LeaderElectionReleaseOnCancel: true,
		// Only namespaces are kept in memory.
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Namespace{}: {}}, DefaultTransform: cache.TransformStripManagedFields()},
	})
	if err != nil {
		return err
	}
	decider := &Decider{Injector: decide, Namespaces: mgr.GetCache(), Direct: direct}
	mgr.GetWebhookServer().Register(Path, &webhook.Admission{Handler: &Handler{Decider: decider, Audit: audit, Metrics: m}})
	limit := rate.NewLimiter(rate.Limit(float64(o.RestartsPerMinute)/60), min(3, o.RestartsPerMinute))
	if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Namespace{}); err != nil {
		return err
	}
	sweep := &Sweep{
		Decider: decider, Client: direct, Events: mgr.GetEventRecorder("outrigger-injector"), Log: o.Log.WithName("sweep"),
		Audit: audit, Metrics: m, Interval: o.SweepInterval, Restarts: limit,
	}
	if err := errors.Join(mgr.Add(sweep), mgr.Add(watcher),
		mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("webhook", server.StartedChecker())); err != nil {
		return err
	}
	return mgr.Start(delayed(ctx, o.DrainDelay))
}

// delayed ends some time after its parent.
func delayed(parent context.Context, delay time.Duration) context.Context {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	context.AfterFunc(parent, func() { time.AfterFunc(delay, cancel) })
	return ctx
}

// getCertificate is a field of [tls.Config].
type getCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// certificates returns where the server's certificate comes from, and what keeps it.
func certificates(ctx context.Context, direct client.Client, o Options, audit *Audit, m *Metrics) (getCertificate, manager.Runnable, error) {
	if o.CertFile != "" {
		watcher, err := certwatcher.New(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
		watcher.RegisterCallback(func(c tls.Certificate) {
			if c.Leaf != nil {
				m.certificate(c.Leaf.NotAfter)
			}
		})
		return watcher.GetCertificate, watcher, nil
	}
	r := &Rotator{
		Store: &SecretStore{Client: direct, Namespace: o.Namespace, Name: o.Secret}, Trust: &WebhookTrust{Client: direct, Name: o.Webhook},
		Names: o.Names, Log: o.Log.WithName("certificate"), Audit: audit, Metrics: m, Interval: checkInterval,
	}
	ctx, cancel := context.WithTimeout(ctx, certificateTimeout)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := r.Ensure(ctx)
		if err == nil {
			return r.GetCertificate, r, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, err
		case <-time.After(wait):
		}
	}
}

func webhookServer(listen string, get getCertificate) (webhook.Server, error) {
	host, text, err := net.SplitHostPort(listen)
	port, convert := strconv.Atoi(text)
	if err := errors.Join(err, convert); err != nil {
		return nil, fmt.Errorf("--listen %q: %w; give host:port or :port", listen, err)
	}
	return webhook.NewServer(webhook.Options{Host: host, Port: port, WebhookMux: http.NewServeMux(), TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.GetCertificate, c.MinVersion = get, tls.VersionTLS13 },
	}}), nil
}

// errNoSidecars says that the cluster is too old.
var errNoSidecars = errors.New("native sidecars need Kubernetes 1.29 or later; with an older API server every injected pod would hang")

// checkVersion refuses API servers without native sidecars.
func checkVersion(config *rest.Config) error {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	v, err := d.ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if v.Major == "1" && err == nil && minor < 29 {
		return fmt.Errorf("%w; this one is %s", errNoSidecars, v.GitVersion)
	}
	return nil
}
