// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// requestTimeout bounds one request to the API server.
const requestTimeout = 30 * time.Second

// API is a client of the node's API server. It is safe for concurrent use.
type API struct {
	token  string
	client *http.Client
}

// Condition is one of an object's status.
type Condition struct{ Type, Status, Message string }

// StatusError is what the API server answered instead of an object.
type StatusError struct {
	Code    int
	Message string
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Code, e.Message) }

func (n *Node) startAPI(ctx context.Context, o Options) error {
	token := rand.Text()
	folder := filepath.Join(n.state, "api")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	keyFile, tokenFile := filepath.Join(folder, "service-accounts.key"), filepath.Join(folder, "tokens.csv")
	for path, text := range map[string][]byte{
		keyFile:        pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		tokenFile:      []byte(token + ",admin,admin,system:masters\n"),
		n.kubeconfig(): []byte(kubeconfigText(token)),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	d, err := n.start("kube-apiserver", o.APIServer, "--etcd-servers", etcdURL, "--cert-dir", folder,
		"--bind-address", "127.0.0.1", "--secure-port", apiPort, "--advertise-address", Address, "--endpoint-reconciler-type", "none",
		"--service-cluster-ip-range", serviceRange, "--authorization-mode", "RBAC", "--token-auth-file", tokenFile,
		"--kubelet-preferred-address-types", "InternalIP", // for logs, exec and port-forward
		"--enable-aggregator-routing", // webhooks are reached at the addresses of their pods: there is no kube-proxy
		"--service-account-issuer", "https://node", "--service-account-key-file", keyFile, "--service-account-signing-key-file", keyFile)
	if err != nil {
		return err
	}
	n.api = &API{token: token, client: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		// It makes its certificate at its start, and this network has no other host.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}}}
	if err := n.serveInward(ctx); err != nil {
		return err
	}
	return d.await(ctx, startTimeout, func(ctx context.Context) error { return n.api.Get(ctx, "/readyz", nil) })
}

// serveInward lets pods reach the API server by the Service kubernetes, as kube-proxy does.
func (n *Node) serveInward(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if n.inward, err = lc.Listen(ctx, "tcp", serviceAddress+":443"); err != nil {
		return err
	}
	go func() {
		for {
			conn, err := n.inward.Accept()
			if err != nil {
				return
			}
			go join(conn, "127.0.0.1:"+apiPort)
		}
	}()
	return nil
}

// join connects a connection with an address until one of both ends.
func join(conn net.Conn, address string) {
	defer func() { _ = conn.Close() }()
	out, err := net.DialTimeout("tcp", address, requestTimeout)
	if err != nil {
		return
	}
	go func() { _, _ = io.Copy(out, conn); _ = out.Close() }()
	_, _ = io.Copy(conn, out)
}

// Credentials returns the URL of the API server and the token of its
// administrator.
func (a *API) Credentials() (url, token string) { return apiURL, a.token }

// Get reads an object into into, which may be nil.
func (a *API) Get(ctx context.Context, path string, into any) error {
	_, err := a.do(ctx, http.MethodGet, path, nil, into)
	return err
}

// Create posts an object to a collection.
func (a *API) Create(ctx context.Context, path string, object any) error {
	_, err := a.do(ctx, http.MethodPost, path, object, nil)
	return err
}

// Post posts an object and reads the answer into into. It returns the warnings of
// the API server.
func (a *API) Post(ctx context.Context, path string, object, into any) ([]string, error) {
	header, err := a.do(ctx, http.MethodPost, path, object, into)
	return header["Warning"], err
}

// As returns a client with another token.
func (a *API) As(token string) *API { return &API{token: token, client: a.client} }

// Delete deletes an object; the grace period is the object's own.
func (a *API) Delete(ctx context.Context, path string) error {
	_, err := a.do(ctx, http.MethodDelete, path, nil, nil)
	return err
}

// Apply is a server-side apply with strict field validation. It returns the
// warnings of the API server.
func (a *API) Apply(ctx context.Context, path string, object any, dryRun bool) ([]string, error) {
	path += "?fieldManager=test&fieldValidation=Strict"
	if dryRun {
		path += "&dryRun=All"
	}
	header, err := a.do(ctx, http.MethodPatch, path, object, nil)
	return header["Warning"], err
}

// check asks another program of the node how it is.
func (a *API) check(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return &StatusError{Code: res.StatusCode, Message: "not healthy"}
	}
	return nil
}

func (a *API) do(ctx context.Context, method, path string, object, into any) (http.Header, error) {
	var body io.Reader
	if object != nil {
		text, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, apiURL+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		// JSON is YAML.
		req.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	res, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was read to its end
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		status := struct {
			Message string `json:"message"`
		}{Message: string(text)}
		_ = json.Unmarshal(text, &status) // else it is no Status, and says what it says
		return nil, &StatusError{Code: res.StatusCode, Message: status.Message}
	}
	if into != nil {
		return res.Header, json.Unmarshal(text, into)
	}
	return res.Header, nil
}
