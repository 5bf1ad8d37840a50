// SPDX-License-Identifier: Apache-2.0

// Command injector puts the sidecar into pods by a label: as an admission webhook
// in a cluster, or into manifests:
//
//	injector serve --image registry.example/outrigger/sidecar:0.1.0
//	injector inject deployment.yaml | kubectl apply -f -
//	injector inject --check deployment.yaml
//
// It ends with code 2 for wrong usage, and with code 1 if something failed, was
// refused, or differs under --check.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/outrigger-mcp/outrigger/deploy/inject"
	"github.com/outrigger-mcp/outrigger/deploy/injector"
)

// version and commit are set by the linker.
var version, commit = "dev", "unknown"

const usage = `The injector puts Outrigger's sidecar into pods that are labelled outrigger.dev/inject: enabled.

  injector serve            run the admission webhook, in a cluster
  injector inject FILE|-    inject into manifests and write them to standard output
  injector annotations      list what annotations pods and namespaces may have
  injector version

"injector COMMAND -h" lists the flags of a command.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	switch command, args := args[0], args[1:]; command {
	case "serve":
		return serve(ctx, args, stdout, stderr)
	case "inject":
		return manifests(args, stdin, stdout, stderr)
	case "annotations":
		for _, a := range inject.Annotations() {
			fmt.Fprintf(stdout, "%s%s\n  %s\n  values: %s; default: %s\n", inject.Prefix, a.Name, a.Does, a.Values, a.Default)
		}
		return 0
	case "version":
		fmt.Fprintln(stdout, "injector", version, commit)
		return 0
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return 0
	default:
		fmt.Fprintf(stderr, "there is no command %q\n\n%s", command, usage)
		return 2
	}
}

// parse parses flags. It returns an exit code, or -1 to go on.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer, operands int) int {
	flags.SetOutput(stderr)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() != operands:
		fmt.Fprintf(stderr, "%s takes %d arguments besides flags, not %d; flags go first\n", flags.Name(), operands, flags.NArg())
		return 2
	}
	return -1
}

func serve(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := injector.Options{Namespace: os.Getenv("POD_NAMESPACE"), Audit: stdout}
	var kubeconfig, names, never, level string
	flags := flag.NewFlagSet("injector serve", flag.ContinueOnError)
	flags.StringVar(&o.Inject.Image, "image", "", "default `image` of the sidecar; empty: that of the manifests")
	flags.StringVar(&never, "never", "", "`namespaces` that are never touched, separated by commas; kube-system, kube-public, kube-node-lease and the own one always are")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace, "own `namespace`; default: $POD_NAMESPACE")
	flags.StringVar(&o.Listen, "listen", ":9443", "`address` of the webhook")
	flags.StringVar(&o.MetricsListen, "metrics", ":8080", "`address` of the metrics, or 0 for none")
	flags.StringVar(&o.HealthListen, "health", ":8081", "`address` of the probes /healthz and /readyz")
	flags.StringVar(&names, "tls-names", "", "DNS `names` and addresses in the self-made certificate; default: outrigger-injector.NAMESPACE.svc")
	flags.StringVar(&o.CertFile, "tls-cert", "", "PEM `file` of a certificate, as cert-manager makes it, instead of the self-made one; reloaded when it changes")
	flags.StringVar(&o.KeyFile, "tls-key", "", "PEM `file` of the key of --tls-cert")
	flags.StringVar(&o.Secret, "secret", "outrigger-injector-tls", "`name` of the Secret for the self-made certificate")
	flags.StringVar(&o.Webhook, "webhook", "outrigger-injector", "`name` of the MutatingWebhookConfiguration that gets its CA")
	flags.StringVar(&o.Lease, "lease", "outrigger-injector", "`name` of the Lease of the replica that reports missed pods")
	flags.DurationVar(&o.SweepInterval, "sweep-interval", 30*time.Second, "`time` between two looks for missed pods, 1s to 1h")
	flags.IntVar(&o.RestartsPerMinute, "restarts-per-minute", 6, "`number` of missed pods that are evicted in a minute at most, 0 to 600; pods ask for it by an annotation")
	flags.DurationVar(&o.DrainDelay, "drain-delay", 5*time.Second, "`time` to serve on after SIGTERM, 0s to 1m")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "`file` for outside of a cluster; default: the pod's service account")
	flags.StringVar(&level, "log-level", "info", "minimum `level` of logs on standard error: debug, info or error")
	if code := parse(flags, args, stderr, 0); code >= 0 {
		return code
	}
	levels := map[string]zapcore.Level{"debug": zapcore.DebugLevel, "info": zapcore.InfoLevel, "error": zapcore.ErrorLevel}
	at, known := levels[level]
	if !known {
		fmt.Fprintf(stderr, "--log-level %q: must be debug, info or error\n", level)
		return 2
	}
	o.Log = zap.New(zap.WriteTo(stderr), zap.Level(at))
	ctrl.SetLogger(o.Log)
	klog.SetLogger(o.Log)
	o.Names, o.Inject.Never = list(names), list(never)
	if len(o.Names) == 0 && o.Namespace != "" {
		o.Names = []string{"outrigger-injector." + o.Namespace + ".svc"}
	}
	config, err := cluster(kubeconfig)
	if err == nil {
		err = injector.Serve(ctx, config, o)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func cluster(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("%w; set --kubeconfig outside of a cluster", err)
	}
	return config, nil
}
