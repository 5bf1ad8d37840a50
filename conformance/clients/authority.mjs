// SPDX-License-Identifier: Apache-2.0
//
// An OAuth authorization server on loopback (oidc-provider), for the checks of
// auth.mjs. Clients register themselves, users log in by a form that a script
// can fill in, and the lifetime of tokens is short, so that a check can wait
// for its end.

import { createServer } from 'node:http';
import { once } from 'node:events';
import { json } from 'node:stream/consumers';
import Provider from 'oidc-provider';

/** The scopes that the sidecar's tools need by the rule read_write. */
export const scopes = ['tools:read', 'tools:write'];

/** The client with which the sidecar asks about opaque tokens. */
export const sidecarClient = { id: 'sidecar', secret: 'sidecar-secret-for-loopback-only' };

/**
 * Starts an authorization server. resource is the URL of the protected resource,
 * format the form of its access tokens ("jwt" or "opaque"), lifetime how long
 * they last, in seconds.
 */
export async function authority({ resource, format, lifetime, port = 0 }) {
  const server = createServer();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: sidecarClient.id, client_secret: sidecarClient.secret, token_endpoint_auth_method: 'client_secret_basic',
      grant_types: [], response_types: [], redirect_uris: [],
    }],
    clientDefaults: { token_endpoint_auth_method: 'none', grant_types: ['authorization_code', 'refresh_token'] },
    cookies: { keys: ['loopback'] },
    scopes: ['openid', 'offline_access', ...scopes],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: true },
      introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === sidecarClient.id },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          audience: resource, scope: scopes.join(' '), accessTokenTTL: lifetime, accessTokenFormat: format,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
      revocation: { enabled: true },
    },
    // A public client gets a refresh token without asking for offline_access.
    issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    interactions: { url: (_, interaction) => `/login/${interaction.uid}` },
    loadExistingGrant: (ctx) => granted(provider, ctx, resource),
    ttl: { AccessToken: lifetime, Interaction: 600, Session: 600, Grant: 3600, RefreshToken: 3600, AuthorizationCode: 60 },
  });
  const seen = { logins: 0, refreshes: 0, token: '', scope: '' };
  const tokens = [];
  provider.on('authorization.success', () => { seen.logins++; });
  for (const kind of ['access_token', 'refresh_token']) {
    for (const event of ['saved', 'issued']) provider.on(`${kind}.${event}`, (token) => tokens.push(token));
  }
  provider.on('grant.success', (ctx) => {
    if (ctx.oidc.params.grant_type === 'refresh_token') seen.refreshes++;
    seen.token = ctx.body.access_token;
    seen.scope = ctx.body.scope;
  });
  // Clients register with the scopes of their first request. They may ask for more later.
  provider.use(async (ctx, next) => {
    if (ctx.method === 'POST' && ctx.path === '/reg') {
      const { scope: _, ...registration } = await json(ctx.req);
      ctx.req.body = registration;
    }
    await next();
  });
  const answer = provider.callback();
  server.on('request', (request, response) => {
    const login = /^\/login\/([\w-]+)$/.exec(request.url);
    if (login) void logIn(provider, request, response);
    else answer(request, response);
  });
  return Object.assign(seen, {
    issuer,
    /** Revokes every token. */
    revoke: async () => { for (const token of tokens.splice(0)) await token.destroy(); },
    close: () => new Promise((done) => { server.close(done); server.closeAllConnections(); }),
  });
}

/** Every login is the same user's: what is checked is the server behind, not the login. */
async function logIn(provider, request, response) {
  await provider.interactionFinished(request, response, { login: { accountId: 'ann' }, consent: {} }, { mergeWithLastSubmission: false });
}

/** What a client asks for is granted, so that there is no page for consent. */
async function granted(provider, ctx, resource) {
  const { client, session, params } = ctx.oidc;
  const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  const asked = params.scope ?? '';
  grant.addOIDCScope(asked);
  grant.addResourceScope(resource, scopes.filter((scope) => asked.split(' ').includes(scope)).join(' '));
  await grant.save();
  return grant;
}

/** Follows a login to the address of the client to which it leads, and returns that. */
export async function follow(url, callback) {
  const cookies = new Map();
  for (let hops = 0; hops < 10; hops++) {
    const response = await fetch(url, {
      redirect: 'manual', headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
      cookies.set(name, value);
    }
    const next = response.headers.get('location');
    if (next === null) throw new Error(`the login ends at ${response.status} ${await response.text()}`);
    url = new URL(next, url);
    if (url.href.startsWith(callback)) return url;
  }
  throw new Error('the login goes in circles');
}
