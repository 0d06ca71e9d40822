import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { addressOf, socketAddressOf } from "../../static/js/addresses.js";

/** @param {string | null} home what the page says about its home */
function page(home) {
  const querySelector = (/** @type {string} */ query) =>
    query === 'meta[name="home"]' && home !== null ? { getAttribute: () => home } : null;
  Object.assign(globalThis, { document: { querySelector } });
}

afterEach(() => {
  Reflect.deleteProperty(globalThis, "document");
  Reflect.deleteProperty(globalThis, "location");
});

test("addresses are below the folder that the page names", () => {
  page("/tools/fovea/");
  assert.equal(addressOf("/api/v1/jobs"), "/tools/fovea/api/v1/jobs");
});

test("at the root of a site, and without a page, they stay as they are", () => {
  assert.equal(addressOf("/api/v1/jobs"), "/api/v1/jobs");
  page("/");
  assert.equal(addressOf("/api/v1/jobs"), "/api/v1/jobs");
});

test("a socket goes where the page came from, by TLS where the page did", () => {
  page("/fovea/");
  Object.assign(globalThis, { location: { protocol: "https:", host: "example.org:8443" } });
  assert.equal(socketAddressOf("/ws/changes/"), "wss://example.org:8443/fovea/ws/changes/");
  Object.assign(globalThis, { location: { protocol: "http:", host: "localhost:8000" } });
  assert.equal(socketAddressOf("/ws/changes/"), "ws://localhost:8000/fovea/ws/changes/");
});
