#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// Acts as the user's browser where a client opens one: it follows the login
// of authority.mjs to the client's own address.
//
//   node browser.mjs URL

import { follow } from './authority.mjs';

const url = new URL(process.argv[2]);
const back = await follow(url, url.searchParams.get('redirect_uri'));
const response = await fetch(back);
if (!response.ok) throw new Error(`the client answers its own address with ${response.status}`);
