// SPDX-License-Identifier: Apache-2.0
import type { Certificate, Check, WatchResponse } from "../gen/outrigger/admin/v1/admin_pb";
import { Badge, Copy, Text } from "../ui";
import { counted, epochMillis, span } from "./format";

/** A certificate that ends sooner is marked, in milliseconds. */
const soon = 14 * 86_400_000;

/** What the sidecar depends on: its checks, its certificates, its catalog. */
export function Parts(props: { state: WatchResponse }) {
  const s = props.state;
  return (
    <div class="parts">
      <section class="stack" aria-labelledby="checks">
        <h2 id="checks">Backends and other parts</h2>
        <ul class="stack tight">
          {s.checks.map((c) => (
            <CheckRow key={c.name} check={c} />
          ))}
        </ul>
        <p class="dim small row">
          Catalog of {counted(s.catalogTools, "tool")}, fingerprint
          <Text class="mono" text={s.catalogFingerprint.slice(0, 23)} />
          <Copy text={s.catalogFingerprint} label="Copy the fingerprint of the catalog" />
        </p>
      </section>
      <section class="stack" aria-labelledby="certificates">
        <h2 id="certificates">Certificates</h2>
        {s.certificates.length === 0 ? (
          <p class="dim">None is in use.</p>
        ) : (
          <ul class="stack tight">
            {s.certificates.map((c) => (
              <CertificateRow key={c.name} certificate={c} now={epochMillis(s.time)} />
            ))}
          </ul>
        )}
      </section>
    </div>
  );
}

function CheckRow(props: { check: Check }) {
  const c = props.check;
  return (
    <li class="part">
      <Badge kind={c.ok ? (c.isInfo ? "info" : "ok") : c.isInfo ? "warn" : "bad"}>{c.ok ? "well" : c.isInfo ? "notice" : "not well"}</Badge>
      <span class="strong">
        <Text text={c.name} max={120} />
      </span>
      {c.detail !== "" && (
        <span class="dim">
          <Text text={c.detail} max={600} />
        </span>
      )}
    </li>
  );
}

function CertificateRow(props: { certificate: Certificate; now: number }) {
  const end = epochMillis(props.certificate.notAfter);
  const left = end - props.now;
  const kind = left <= 0 ? "bad" : left < soon ? "warn" : "ok";
  return (
    <li class="part">
      <Badge kind={kind}>{left <= 0 ? "ended" : left < soon ? "ends soon" : "valid"}</Badge>
      <span class="strong">
        <Text text={props.certificate.name} max={120} />
      </span>
      <span class="dim">
        {left <= 0 ? `ended ${span(-left)} ago` : `ends in ${span(left)}`}, {new Date(end).toISOString().slice(0, 16).replace("T", " ")} UTC
      </span>
    </li>
  );
}
