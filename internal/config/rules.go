// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// checkRules evaluates the rules of the message, and maps what they say to
// where the values came from. What has its default needs no check; byDefault is nil
// where nothing has one. The error is one of the rules themselves.
func (d *draft) checkRules(byDefault proto.Message) error {
	root := d.root
	validator, err := protovalidate.New()
	if err != nil {
		return fmt.Errorf("check configuration: %w", err)
	}
	if byDefault != nil {
		// A path that is not UTF-8 has no wire form, and so no copy. All rules are compiled then.
		if changed, err := changedOnly(root, byDefault); err == nil {
			root = changed
		}
	}
	err = validator.Validate(root)
	if err == nil {
		return nil
	}
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("check configuration: %w", err)
	}
	for _, v := range invalid.Violations {
		path := protovalidate.FieldPathString(v.Proto.GetField())
		if isAboutMessage(v, path) && d.isPartFaulty(path) {
			continue
		}
		path = subject(v.Proto.GetRuleId(), path)
		d.judge(path, d.wording(v, path))
	}
	return nil
}

// isAboutMessage reports whether a rule compares several fields of the message
// at the path.
func isAboutMessage(v *protovalidate.Violation, path string) bool {
	if path == "" || !v.FieldValue.IsValid() {
		return path == ""
	}
	m, ok := v.FieldValue.Interface().(protoreflect.Message)
	return ok && m.Descriptor().FullName() != durationName
}

// isPartFaulty reports whether something within the path is known to be wrong.
func (d *draft) isPartFaulty(path string) bool {
	for p := range d.faulty {
		if path == "" || isWithin(p, path) {
			return true
		}
	}
	return false
}

// subject is the field that a rule about the whole message is best shown at.
func subject(rule, path string) string {
	switch rule {
	case "config.demo.backend":
		return "backend.url"
	case "config.tools.unique":
		return "tools"
	case "config.backends.unique":
		return "backends"
	default:
		return path
	}
}

// wording puts a violation in the words of this package, with the value where
// it helps.
func (d *draft) wording(v *protovalidate.Violation, path string) string {
	rule := v.Proto.GetRuleId()
	message := v.Proto.GetMessage()
	switch {
	case isEmpty(v) && !d.given(path):
		return "must be set" + byFlag(path)
	case strings.HasSuffix(rule, ".in"):
		message = "must be one of " + words(v.RuleValue, message)
	case strings.HasSuffix(rule, ".not_in"):
		message = "must not be one of " + words(v.RuleValue, message)
	default:
		message = strings.NewReplacer(
			"greater than or equal to", "at least", "less than or equal to", "at most", "greater than", "above", "less than", "below",
		).Replace(message)
	}
	if shown := shownValue(v, path); shown != "" && !d.secret && !isSecret(path) {
		message += ", is " + shown
	}
	switch ofOnly(path) {
	case "backend.url":
		message += meantURL(v)
	case "state.url":
		message += stateURL
	}
	return message
}

// stateURL says what the pattern of state.url means.
const stateURL = ": want nats:// or tls:// URLs separated by commas, such as nats://nats:4222, without credentials " +
	"(state.credentials_file, state.nkey_file, state.password_file or state.token_file)"

// meantURL suggests the URL that host:port without a scheme was probably meant
// to be. A value with an @ may hold a password and is not repeated.
func meantURL(v *protovalidate.Violation) string {
	value, ok := v.FieldValue.Interface().(string)
	if !ok || strings.Contains(value, "@") || strings.Contains(value, "://") {
		return ""
	}
	if strings.HasPrefix(value, "/") {
		return "; did you mean unix://" + value + "?"
	}
	if !hostPort().MatchString(value) {
		return ""
	}
	return "; did you mean http://" + value + "?"
}

// hostPort is what a person types who leaves the scheme out: a host or a
// bracketed IPv6 address, and perhaps a port.
var hostPort = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)?(:[0-9]{1,5})?/?$`)
})

// byFlag names the flag that sets a field; empty where none does.
func byFlag(path string) string {
	for _, b := range bindings() {
		if b.path == path {
			return "; set it with --" + b.flag + " " + b.value
		}
	}
	return ""
}

func isEmpty(v *protovalidate.Violation) bool {
	text, ok := v.FieldValue.Interface().(string)
	return ok && text == ""
}

// words renders the list of an in rule.
func words(v protoreflect.Value, otherwise string) string {
	list, ok := v.Interface().(protoreflect.List)
	if !ok {
		return otherwise
	}
	items := make([]string, list.Len())
	for i := range items {
		items[i] = list.Get(i).String()
	}
	return strings.Join(items, ", ")
}

// shownValue renders the value that broke a rule. A URL may hold a password and
// is not shown.
func shownValue(v *protovalidate.Violation, path string) string {
	if !v.FieldValue.IsValid() || ofOnly(path) == "backend.url" || path == "state.url" {
		return ""
	}
	switch value := v.FieldValue.Interface().(type) {
	case string:
		return quote(value)
	case int32, int64, float64:
		return v.FieldValue.String()
	case protoreflect.Message:
		if fields := value.Descriptor().Fields(); value.Descriptor().FullName() == durationName {
			return durationText(&durationpb.Duration{Seconds: value.Get(fields.ByNumber(1)).Int(), Nanos: int32(value.Get(fields.ByNumber(2)).Int())})
		}
	}
	return ""
}

// checkSense asks what the message's own rules cannot say: whether the parts
// work together, for the command at hand, and are safe.
func (d *draft) checkSense(kind Kind) {
	c := d.config
	// Descriptors alone are enough to look at tools, not to call them.
	described := kind == Once && len(c.GetCatalog().GetDescriptors()) > 0 && c.GetCatalog().GetDescriptorsUse() != "comments"
	if kind != State && !d.unread && !c.GetDemo() && c.GetBackend().GetUrl() == "" && len(c.GetBackends()) == 0 && !described && !isUnreal(c) {
		d.judge("backend.url", "no backend: set its URL with --backend (such as --backend http://127.0.0.1:50051), "+
			"or try the example service with --demo")
	}
	d.checkUnreal(kind, c)
	d.checkBackends(c)
	d.checkDescriptors(c.GetCatalog())
	d.checkClasses(c.GetLimits())
	d.checkExperimental(c)
	if kind&longLived != 0 {
		d.checkListeners(c)
		d.checkRates(c.GetLimits())
		d.checkRateService(c.GetRateService())
		d.checkAudit(kind, c.GetAudit())
	}
	if kind&(longLived|State) != 0 {
		d.checkState(kind, c)
	}
}

// Unreal says what answers in place of a backend: the recording in a directory, "" for none, and inventions.
func Unreal(c *configv1.Config) (recording string, invents bool) {
	return c.GetReplay().GetDir(), c.GetMock()
}

// isUnreal reports whether answers come from a recording, or are invented.
func isUnreal(c *configv1.Config) bool {
	recording, invents := Unreal(c)
	return recording != "" || invents
}

// checkUnreal finds what a sidecar without a backend cannot have beside its recording or its inventions, and what these lack.
func (d *draft) checkUnreal(kind Kind, c *configv1.Config) {
	path, flag := "replay.dir", "--replay"
	if recording, _ := Unreal(c); recording == "" {
		if d.given("replay.match") || d.given("replay.latency") {
			d.judge("replay.dir", "match and latency have no effect without a recording: set it with --replay")
		}
		path, flag = "mock", "--mock"
	}
	switch {
	case !isUnreal(c):
	case c.GetDemo():
		d.judge(path, flag+" takes the place of a backend, which --demo brings: remove one of them; for the tools of the demo use its descriptors")
	case c.GetBackend().GetUrl() != "" || len(c.GetBackends()) > 0:
		d.judge(path, flag+" takes the place of a backend: remove it, or the backend")
	case kind != State && len(c.GetCatalog().GetDescriptors()) == 0:
		d.judge(path, "no tools: say with --descriptors which there are (such as --descriptors api.binpb, from `buf build -o`)")
	case c.GetCatalog().GetDescriptorsUse() == "comments":
		d.judge("catalog.descriptors_use", "descriptors make the tools where there is no backend: remove this setting")
	}
}

// Backends returns a configuration for each of several backends, as if it were the only one: `backend` is that one, and
// `catalog` has its sources. What the backends have in common is shared, not copied. Without `backends` it is cfg alone.
func Backends(cfg *configv1.Config) []*configv1.Config {
	if len(cfg.GetBackends()) == 0 {
		return []*configv1.Config{cfg}
	}
	out := make([]*configv1.Config, 0, len(cfg.GetBackends()))
	for _, b := range cfg.GetBackends() {
		one, sources := shallow(cfg), shallow(cfg.GetCatalog())
		sources.Descriptors, sources.Reflection, sources.Native = b.GetDescriptors(), orDefault(b.GetReflection()), orDefault(b.GetNative())
		one.Backends, one.Backend, one.Catalog = nil, b, sources
		out = append(out, one)
	}
	return out
}

// WithDescriptors returns the names of the backends that have descriptor files. The only one has the empty name.
func WithDescriptors(cfg *configv1.Config) (names []string) {
	for _, c := range Backends(cfg) {
		if len(c.GetCatalog().GetDescriptors()) > 0 {
			names = append(names, c.GetBackend().GetName())
		}
	}
	return names
}

// orDefault is a setting of one of several backends, "auto" where it has none.
func orDefault(text string) *string {
	if text == "" {
		text = "auto"
	}
	return &text
}

// shallow is a copy of a message that shares its fields with it.
func shallow[M proto.Message](m M) M {
	out := m.ProtoReflect().New()
	m.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.Set(fd, v)
		return true
	})
	own, _ := out.Interface().(M)
	return own
}

// EachBackend runs a check for each backend, and reports what it finds by the paths of that backend. What it finds in settings that
// all share is reported once.
func EachBackend(check Check) Check {
	return func(cfg *configv1.Config, report func(path, message string)) {
		if len(cfg.GetBackends()) == 0 {
			check(cfg, report)
			return
		}
		shared := map[[2]string]bool{}
		for i, one := range Backends(cfg) {
			check(one, func(path, message string) {
				if own, ok := backendPath(path); ok {
					report(fmt.Sprintf("backends[%d].%s", i, own), message)
				} else if !shared[[2]string{path, message}] {
					shared[[2]string{path, message}] = true
					report(path, message)
				}
			})
		}
	}
}

// backendPath is the path below an entry of `backends` of a path of the only backend.
func backendPath(path string) (own string, ok bool) {
	if own, ok := strings.CutPrefix(path, "backend."); ok {
		return own, true
	}
	for _, name := range [...]string{"descriptors", "reflection", "native"} {
		if isWithin(path, "catalog."+name) {
			return strings.TrimPrefix(path, "catalog."), true
		}
	}
	return "", false
}

// backendEntry matches the beginning of the path of one of several backends.
var backendEntry = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^backends\[\d+\]`) })

// ofOnly is the path that a setting of one of several backends has where there is one.
func ofOnly(path string) string { return backendEntry().ReplaceAllString(path, "backend") }

// checkBackends finds several backends beside one, and settings that are for one or for several only.
func (d *draft) checkBackends(c *configv1.Config) {
	if len(c.GetBackends()) == 0 {
		d.checkOnlyBackend(c.GetBackend())
		return
	}
	switch {
	case c.GetDemo():
		d.judge("demo", "brings its own backend: remove it, or backends")
	case c.GetBackend().GetUrl() != "":
		d.judge("backend.url", "set backend (--backend) or backends, not both")
	default:
		for _, name := range []string{"protocol", "tls", "connect_timeout", "probe_timeout", "max_send_bytes", "max_receive_bytes", "metadata", "credentials", "identity", "prefix"} {
			if d.givenWithin("backend." + name) {
				d.judge("backend."+name, "each of backends has its own: set it there")
			}
		}
	}
	for _, name := range [...]string{"descriptors", "reflection", "native"} {
		if d.given("catalog." + name) {
			d.judge("catalog."+name, "each of backends has its own: set it there")
		}
	}
	for i, b := range c.GetBackends() {
		d.checkBackend(fmt.Sprintf("backends[%d]", i), b, c.GetTimeout())
	}
	d.checkSigningKeys(c)
	d.checkReadyBackends(c)
}

// checkOnlyBackend finds settings that are for one of several backends.
func (d *draft) checkOnlyBackend(b *configv1.Backend) {
	for _, one := range [...]struct {
		path, instead string
		isSet         bool
	}{
		{"name", "remove it, or list the backend in backends", b.GetName() != ""},
		{"descriptors", "set catalog.descriptors", len(b.GetDescriptors()) > 0},
		{"reflection", "set catalog.reflection", b.GetReflection() != ""},
		{"native", "set catalog.native", b.GetNative() != ""},
		{"policy", "set access.policy", b.GetPolicy() != nil},
		{"limits", "set limits and timeout", b.GetLimits() != nil},
	} {
		if one.isSet {
			d.judge("backend."+one.path, "is for one of several backends: "+one.instead)
		}
	}
	if d.given("ready_backends") {
		d.judge("ready_backends", "has no effect without backends")
	}
}

// checkBackend checks one of several backends by itself.
func (d *draft) checkBackend(path string, b *configv1.Backend, timeout *durationpb.Duration) {
	switch b.GetName() {
	case "":
		d.judge(path+".name", "must be set: probes, metrics and logs name the backend by it")
	case "any", "all":
		d.judge(path+".name", "is a word of ready_backends: choose another name")
	}
	if b.GetPolicy() != nil && b.GetPolicy().MaxCost != nil {
		d.judge(path+".policy.max_cost", "is one for all rules: set access.policy.max_cost")
	}
	if own := b.GetLimits().GetTimeout().AsDuration(); own > timeout.AsDuration() {
		d.judge(path+".limits.timeout", "must be at most timeout, which bounds every call: "+durationText(timeout))
	}
	if b.GetUrl() == "" {
		d.judge(path+".url", "must be set, such as http://127.0.0.1:50051")
	}
}

// checkReadyBackends finds what readiness cannot ask for.
func (d *draft) checkReadyBackends(c *configv1.Config) {
	isNamed := func(name string) bool {
		return slices.ContainsFunc(c.GetBackends(), func(b *configv1.Backend) bool { return b.GetName() == name })
	}
	for i, name := range c.GetReadyBackends() {
		switch path := fmt.Sprintf("ready_backends[%d]", i); {
		case name == "any" || name == "all":
			if len(c.GetReadyBackends()) > 1 {
				d.judge(path, name+" is complete by itself: remove the others, or it")
			}
		case !isNamed(name):
			d.judge(path, fmt.Sprintf("no backend is named %s; use any, all, or names of backends", quote(name)))
		}
	}
}

// givenWithin reports whether anything at or below the path was set.
func (d *draft) givenWithin(path string) bool {
	for p := range d.origins {
		if isWithin(p, path) {
			return true
		}
	}
	return false
}

// checkSigningKeys finds backends whose signed tokens have different keys: the sidecar publishes one set of them.
func (d *draft) checkSigningKeys(c *configv1.Config) {
	first := ""
	for i, b := range c.GetBackends() {
		file := b.GetIdentity().GetSigned().GetKeyFile()
		switch {
		case b.GetIdentity().GetMode() != "signed" || file == "":
		case first == "":
			first = file
		case file != first:
			d.judge(fmt.Sprintf("backends[%d].identity.signed.key_file", i), "one set of keys is published for all backends: use "+quote(first))
		}
	}
}

// checkDescriptors finds comments that nothing would get.
func (d *draft) checkDescriptors(c *configv1.Catalog) {
	switch {
	case c.GetDescriptorsUse() != "comments":
	case len(c.GetDescriptors()) == 0:
		d.judge("catalog.descriptors_use", "has no effect without descriptors: set --descriptors too")
	case c.GetReflection() == "off":
		d.judge("catalog.descriptors_use", "comments are added to the backend's reflection, which is off: remove catalog.reflection, or this setting")
	}
}

// checkState finds shared state that replicas could not read, and settings of it without it.
func (d *draft) checkState(kind Kind, c *configv1.Config) {
	s := c.GetState()
	if s.GetUrl() == "" {
		if kind == State && !d.unread {
			d.judge("state.url", "no shared state: set the NATS servers of the replicas with --state (such as --state nats://127.0.0.1:4222), or name their --config")
			return
		}
		for _, one := range [...]struct {
			path  string
			isSet bool
		}{
			{"state.credentials_file", s.GetCredentialsFile() != ""}, {"state.nkey_file", s.GetNkeyFile() != ""},
			{"state.username", s.GetUsername() != ""}, {"state.token_file", s.GetTokenFile() != ""}, {"state.tls", s.GetTls() != nil},
		} {
			if one.isSet {
				d.judge(one.path, "has no effect without shared state: set --state too")
			}
		}
		return
	}
	if s.GetKeyFile() == "" {
		d.judge("state.key_file", "shared state is sealed, and replicas with different keys could not read each other's: make a key with "+
			"`openssl rand -base64 32 > state.key` and give all replicas --state-key state.key")
	}
	if c.GetDeterministic() {
		d.judge("state.url", "replicas with fixed ids (--deterministic) would overwrite each other's tasks: remove one of the two")
	}
	if lease := s.GetLease().AsDuration(); lease%time.Second != 0 {
		d.judge("state.lease", "must be whole seconds, as NATS counts them")
	}
}

// checkAudit refuses a trail that would get into the protocol's way, or could not keep
// its promise.
func (d *draft) checkAudit(kind Kind, a *configv1.Audit) {
	if kind == Stdio && a.GetPath() == "stdout" {
		d.judge("audit.path", "standard output carries the protocol of `sidecar stdio`: name a file")
	}
	if a.GetRequired() && a.GetPath() == "off" {
		d.judge("audit.required", "has no effect without a trail: set --audit too")
	}
	if a.GetRequired() && a.GetFsync() == "never" {
		d.judge("audit.fsync", "never contradicts audit.required, which has each call on the disk before the backend is called: use interval or always")
	}
}

// checkRates says what a burst lacks that was given alone, by its flag perhaps.
func (d *draft) checkRates(l *configv1.Limits) {
	for _, one := range [...]struct {
		path, flag string
		rate       *configv1.Rate
	}{
		{"limits.caller_rate.burst", "--caller-rate", l.GetCallerRate()}, {"limits.tool_rate.burst", "--tool-rate", l.GetToolRate()},
	} {
		if one.rate != nil && one.rate.Burst != nil && one.rate.GetPerSecond() == 0 {
			d.judge(one.path, "has no effect without a rate: set "+one.flag+" too")
		}
	}
}

// checkRateService says what a setting of the rate limit service lacks without one.
func (d *draft) checkRateService(r *configv1.RateService) {
	if r.GetUrl() == "" {
		for _, path := range [...]string{
			"rate_service.domain", "rate_service.timeout", "rate_service.failure", "rate_service.max_in_flight", "rate_service.max_failures",
			"rate_service.open_for", "rate_service.tenant_claim",
		} {
			if d.given(path) {
				d.judge(path, "has no effect without a rate limit service: set --rate-service too")
			}
		}
	}
}

// checkListeners refuses what would let anyone in.
func (d *draft) checkListeners(c *configv1.Config) {
	l := c.GetListeners()
	knowsCallers := c.GetAccess().GetTokensFile() != "" || l.GetTls().GetClientCaFile() != "" || hasIssuers(c)
	if !l.GetInsecureNoAuth() {
		const accept = "allow that with --insecure-no-auth"
		if isBeyondLoopback(l.GetListen()) && !knowsCallers {
			d.judge("listeners.listen", "any client that can reach "+quote(l.GetListen())+" could call every tool without authentication; "+
				"listen on 127.0.0.1, enable authentication with --tokens, --tls-client-ca or --oauth-issuer, or "+accept)
		}
		if HasOpenAdmin(l) {
			d.judge("listeners.admin", "any client that can reach "+quote(l.GetAdmin())+" could drain and profile the sidecar; listen on 127.0.0.1 or "+
				"a Unix socket, authenticate operators with --admin-tokens, or "+accept)
		}
	}
	if l.GetAdminTokensFile() != "" && l.GetAdminTls() == nil && isBeyondLoopback(l.GetAdmin()) {
		d.warn("listeners.admin_tokens_file", "tokens of operators cross the network in plaintext: set listeners.admin_tls, unless a mesh or proxy encrypts "+
			"traffic to "+quote(l.GetAdmin()))
	}
	d.checkOAuth(c)
	d.checkProcesses(c)
	if c.GetAccess().GetTokensFile() != "" && l.GetTls() == nil && isBeyondLoopback(l.GetListen()) {
		d.warn("access.tokens_file", "tokens cross the network in plaintext: set --tls-cert and --tls-key, unless a mesh or proxy encrypts traffic to "+
			quote(l.GetListen()))
	}
	d.checkDistinct(l)
}

// checkProcesses refuses to identify callers by their processes where that cannot be.
func (d *draft) checkProcesses(c *configv1.Config) {
	switch {
	case !HasExperiment(c, UnixSocket):
	case runtime.GOOS != "linux":
		d.judge("experimental", "unix-socket needs Linux: other systems have other ways of telling who is at the other end of a socket; remove it")
	case !strings.HasPrefix(c.GetListeners().GetListen(), "unix:"):
		d.judge("listeners.listen", "--experimental unix-socket knows callers by their processes, which only a Unix socket tells: set --listen unix:///path")
	}
}

func hasIssuers(c *configv1.Config) bool {
	o := c.GetAccess().GetOauth()
	return len(o.GetIssuerUrls())+len(o.GetIssuers()) > 0
}

// checkOAuth finds an issuer without a resource, and the reverse: neither can verify a token.
func (d *draft) checkOAuth(c *configv1.Config) {
	l, resource := c.GetListeners(), c.GetAccess().GetOauth().GetResource()
	switch {
	case hasIssuers(c) && resource == "":
		d.judge("access.oauth.resource", "the audience of tokens is missing: set the URL that clients use with --oauth-resource, such as "+
			"--oauth-resource https://tools.example.com/mcp")
	case !hasIssuers(c) && resource != "":
		d.judge("access.oauth.resource", "has no effect without an issuer: set --oauth-issuer too")
	}
	if hasIssuers(c) && l.GetTls() == nil && isBeyondLoopback(l.GetListen()) {
		d.warn("access.oauth", "tokens cross the network in plaintext: set --tls-cert and --tls-key, unless a mesh or proxy encrypts traffic to "+
			quote(l.GetListen()))
	}
}

// checkDistinct finds listeners that would take each other's port.
func (d *draft) checkDistinct(l *configv1.Listeners) {
	taken := make(map[string]string)
	for _, one := range [...]struct{ path, address string }{
		{"listeners.listen", l.GetListen()}, {"listeners.admin", l.GetAdmin()}, {"listeners.health", l.GetHealth()},
	} {
		if one.address == "off" || strings.HasSuffix(one.address, ":0") {
			continue
		}
		if other, ok := taken[one.address]; ok {
			d.judge(one.path, "is also the address of "+other)
			continue
		}
		taken[one.address] = one.path
	}
}

// isBeyondLoopback reports whether other machines may reach an address. A name
// other than localhost may stand for anything, so it counts as beyond. A Unix
// socket is on this machine.
func isBeyondLoopback(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return false
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false // "off", or refused by its own rule
	}
	if strings.EqualFold(host, "localhost") {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}

// HasOpenAdmin reports whether clients on other machines may reach the admin listener and do not authenticate.
func HasOpenAdmin(l *configv1.Listeners) bool {
	return isBeyondLoopback(l.GetAdmin()) && l.GetAdminTokensFile() == ""
}

// LoadCallers reads the callers file that access.tokens_file names and validates it
// against the rules of its message. No two callers may share a name, a token or a
// certificate.
//
// The error is an *Error with all faults, each with its line. It repeats nothing
// from the file, because misplaced text may be a token.
func LoadCallers(path string) (*configv1.Callers, error) {
	callers := &configv1.Callers{}
	d := newDraftOf(callers)
	d.kind, d.secret = "callers file", true
	d.readFile(path, origin{source: path}, MaxFileBytes)
	if !d.unread {
		if err := d.checkRules(nil); err != nil {
			return nil, err
		}
		checkCredentials(d, "callers", callers.GetCallers(), "one caller may have several tokens")
	}
	if len(d.faults) > 0 {
		return nil, errorFromFaults(d.faults)
	}
	return callers, nil
}

// subjectsOf are the OAuth subjects of an entry; operators have none.
func subjectsOf(entry any) []*configv1.OAuthSubject {
	if c, ok := entry.(*configv1.Caller); ok {
		return c.GetOauth()
	}
	return nil
}

// credentialed is an entry of a file that says who somebody is.
type credentialed interface {
	GetName() string
	GetTokenSha256() []string
	GetCertificateUris() []string
}

// checkCredentials finds what would make it a matter of chance who somebody is. list is
// the name of the entries, several what to do instead of repeating a name.
func checkCredentials[E credentialed](d *draft, list string, entries []E, several string) {
	names, tokens, uris, subjects, processes := map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
	one := func(taken map[string]string, value, path, what string) {
		if first, ok := taken[value]; ok {
			d.judge(path, "is "+what+" of "+first+" too; use a different one for each entry of "+list)
			return
		}
		taken[value] = parent(path)
	}
	for i, e := range entries {
		at := list + "[" + strconv.Itoa(i) + "]"
		if name := e.GetName(); name != "" {
			if first, ok := names[name]; ok {
				d.judge(at+".name", "is the name of "+first+" too; "+several)
			}
			names[name] = at
		}
		for n, digest := range e.GetTokenSha256() {
			one(tokens, digest, fmt.Sprintf("%s.token_sha256[%d]", at, n), "the token")
		}
		for n, uri := range e.GetCertificateUris() {
			one(uris, uri, fmt.Sprintf("%s.certificate_uris[%d]", at, n), "the certificate")
		}
		if c, ok := any(e).(*configv1.Caller); ok {
			for n, uid := range c.GetUnixUids() {
				one(processes, fmt.Sprint("uid ", uid), fmt.Sprintf("%s.unix_uids[%d]", at, n), "the user")
			}
			for n, gid := range c.GetUnixGids() {
				one(processes, fmt.Sprint("gid ", gid), fmt.Sprintf("%s.unix_gids[%d]", at, n), "the group")
			}
		}
		for n, s := range subjectsOf(e) {
			one(subjects, s.GetIssuer()+" "+s.GetSubject(), fmt.Sprintf("%s.oauth[%d]", at, n), "the OAuth subject")
		}
	}
}

// classOfCalls is what classes of tools and of callers have in common.
type classOfCalls interface {
	GetName() string
	GetReservedCalls() int32
}

// checkClasses finds classes with one name, and reserved slots that leave none for other calls.
func (d *draft) checkClasses(l *configv1.Limits) {
	d.checkCallersOf(l.GetCallerClasses())
	reserved := checkNames(d, "limits.tool_classes", l.GetToolClasses()) + checkNames(d, "limits.caller_classes", l.GetCallerClasses())
	if most := int64(l.GetMaxConcurrentCalls()); reserved > 0 && reserved >= most {
		path := "limits.tool_classes"
		if len(l.GetToolClasses()) == 0 {
			path = "limits.caller_classes"
		}
		d.judge(path, "the classes reserve "+strconv.FormatInt(reserved, 10)+" calls in total, and max_concurrent_calls (--max-calls) is "+
			strconv.FormatInt(most, 10)+"; reserve fewer, so that other calls can run")
	}
}

// checkCallersOf finds names without their source, which no caller has.
func (d *draft) checkCallersOf(classes []*configv1.CallerClass) {
	for i, c := range classes {
		for n, pattern := range c.GetCallers() {
			if pattern != "stdio" && !strings.ContainsAny(pattern, ":.*") {
				d.judge("limits.caller_classes["+strconv.Itoa(i)+"].callers["+strconv.Itoa(n)+"]", "is not a caller: write \"caller:"+pattern+
					"\" for an entry of the callers file")
			}
		}
	}
}

// checkNames compares the names of classes, and returns the sum of their reserved slots.
func checkNames[C classOfCalls](d *draft, path string, classes []C) (reserved int64) {
	taken := map[string]string{}
	for i, c := range classes {
		at := path + "[" + strconv.Itoa(i) + "]"
		if first, ok := taken[c.GetName()]; ok {
			d.judge(at+".name", "is the name of "+first+" too; use a different one for each class")
		}
		taken[c.GetName()] = at
		reserved += int64(c.GetReservedCalls())
	}
	return reserved
}

// HasOperators reports whether the operators of the admin listener authenticate, and so have names.
func HasOperators(cfg *configv1.Config) bool { return cfg.GetListeners().GetAdminTokensFile() != "" }

// OperatorsOf returns the operators of a configuration that has a file of them.
func OperatorsOf(cfg *configv1.Config) (*configv1.Operators, error) {
	return LoadOperators(cfg.GetListeners().GetAdminTokensFile())
}

// LoadOperators reads the file that listeners.admin_tokens_file names and validates it
// against the rules of its message. No two operators may share a name, a token or a
// certificate.
//
// The error is an *Error with all faults, each with its line. It repeats nothing
// from the file, because misplaced text may be a token.
func LoadOperators(path string) (*configv1.Operators, error) {
	operators := &configv1.Operators{}
	d := newDraftOf(operators)
	d.secret = true
	d.readFile(path, origin{source: path}, MaxFileBytes)
	if !d.unread {
		if err := d.checkRules(nil); err != nil {
			return nil, err
		}
		checkCredentials(d, "operators", operators.GetOperators(), "one operator may have several tokens")
	}
	if len(d.faults) > 0 {
		return nil, errorFromFaults(d.faults)
	}
	return operators, nil
}

// LoadPolicy reads a policy file, validates it against the rules of its message, and
// passes it to check, which reports further faults by their paths ("rules[2].when").
//
// The error is an *Error with all faults, each with its place in the file.
func LoadPolicy(path string, check func(p *configv1.Policy, report func(path, message string))) (*configv1.Policy, error) {
	policy := &configv1.Policy{}
	return policy, loadFile("policy file", path, policy, func(report func(path, message string)) { check(policy, report) })
}

// LoadPolicyTests reads a file of cases for `sidecar policy test` in the same way.
func LoadPolicyTests(path string, check func(p *configv1.PolicyTests, report func(path, message string))) (*configv1.PolicyTests, error) {
	tests := &configv1.PolicyTests{}
	return tests, loadFile("test file", path, tests, func(report func(path, message string)) { check(tests, report) })
}

// loadFile reads a file of some kind into a message.
func loadFile(kind, path string, into proto.Message, check func(report func(path, message string))) error {
	d := newDraftOf(into)
	d.kind = kind
	d.readFile(path, origin{source: path}, MaxFileBytes)
	if !d.unread {
		if err := d.checkRules(nil); err != nil {
			return err
		}
		check(d.judge)
	}
	if len(d.faults) > 0 {
		return errorFromFaults(d.faults)
	}
	return nil
}
