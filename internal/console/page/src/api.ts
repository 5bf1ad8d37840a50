// SPDX-License-Identifier: Apache-2.0
// The sidecar's API for operators. Everything goes to the origin of the page, and nowhere else.
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AdminService } from "./gen/outrigger/admin/v1/admin_pb";

export const api = createClient(AdminService, createConnectTransport({ baseUrl: location.origin }));
export type Api = typeof api;
