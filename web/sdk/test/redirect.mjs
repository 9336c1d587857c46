// Leads the calls of source-example.mjs to the server under test, with a key that it knows.

import assert from "node:assert/strict";

const network = globalThis.fetch;

globalThis.fetch = (address, request) => {
  const url = new URL(String(address));
  assert.equal(url.origin, "https://api.llmtxt.my");
  const headers = new Headers(request?.headers);
  assert.equal(headers.get("Authorization"), "Bearer llmtxt_myapikey");
  headers.set("Authorization", `Bearer ${process.env.ALPHA_KEY}`);
  return network(new URL(url.pathname + url.search, process.env.COWRITE_URL), { ...request, headers });
};
