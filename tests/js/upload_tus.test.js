import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_PIECE_BYTES, MIN_PIECE_BYTES, STALLED_MS } from "../../static/js/upload/tus.js";
import { bytes, FakeServer, ID, refusal, settled } from "./upload_server.js";

const MIB = 2 ** 20;
const ADDRESS = `/api/v1/uploads/${ID}`;
const networkError = () => new TypeError("network");

/** @param {number} size @param {Partial<FakeServer>} [changes] */
async function begun(size, changes = {}) {
  const server = Object.assign(new FakeServer(), changes);
  const content = bytes(size);
  const upload = server.upload(content);
  upload.start();
  await settled();
  return { server, content, upload };
}

/** @param {FakeServer} server @param {Uint8Array} content */
function assertArrived(server, content) {
  assert.equal(Buffer.compare(server.stored, content), 0);
}

test("a file arrives in pieces, one after the other", async () => {
  const { server, content, upload } = await begun(5 * MIB + 3);
  assert.equal(upload.state, "complete");
  assert.equal(upload.id, ID);
  assertArrived(server, content);
  assert.ok(server.count("PATCH") > 1);
  assert.equal(server.mostOpen, 1);
  const metadata = server.requests[0]?.headers["Upload-Metadata"] ?? "";
  const name = /^filename (\S+),fingerprint (\S+)$/.exec(metadata)?.[1] ?? "";
  assert.equal(Buffer.from(name, "base64").toString(), "ünïcode 猫.zip");
});

test("pieces follow the speed, within bounds", async () => {
  const fast = await begun(60 * MIB);
  const sizes = fast.server.requests
    .filter(({ method }) => method === "PATCH")
    .map(({ headers }) => Number(headers["Upload-Offset"]))
    .map((offset, index, all) => (all[index + 1] ?? 60 * MIB) - offset);
  assert.equal(Math.max(...sizes), MAX_PIECE_BYTES);
  const slow = await begun(2 * MIB, { piece_ms: 60_000 });
  const offsets = slow.server.requests.map(({ headers }) => headers["Upload-Offset"]).filter(Boolean);
  assert.equal(Number(offsets[2]) - Number(offsets[1]), MIN_PIECE_BYTES);
});

test("an upload of earlier goes on where the server says", async () => {
  const server = new FakeServer();
  const content = bytes(3 * MIB);
  server.length = content.length;
  server.take(content.slice(0, 2 * MIB + 5));
  const upload = server.upload(content, ADDRESS);
  upload.start();
  await settled();
  assert.equal(upload.state, "complete");
  assertArrived(server, content);
  assert.equal(server.count("POST"), 0);
  assert.equal(server.requests[1]?.headers["Upload-Offset"], String(2 * MIB + 5));
});

test("an upload that is all there needs no piece", async () => {
  const server = new FakeServer();
  server.length = 10;
  server.take(bytes(10));
  const upload = server.upload(bytes(10), ADDRESS);
  upload.start();
  await settled();
  assert.equal(upload.state, "complete");
  assert.equal(server.count("PATCH"), 0);
});

test("what was half written when the connection broke is asked for, not sent again", async () => {
  const { server, content, upload } = await begun(3 * MIB, { holds: true });
  server.holds = false;
  server.held.pop()?.();
  await settled();
  assert.equal(upload.state, "complete");
  const other = new FakeServer();
  // The POST passes; of the first piece a part arrives before the network goes.
  other.trouble = [
    () => null,
    () => {
      other.take(content.slice(0, 1000));
      return networkError();
    },
  ];
  const cut = other.upload(content);
  cut.start();
  await settled();
  assert.equal(cut.state, "waiting");
  assert.equal(cut.waits, "offline");
  await other.tick();
  assert.equal(cut.state, "complete");
  assertArrived(other, content);
  assert.equal(other.count("HEAD"), 1);
});

test("it waits longer from time to time, up to half a minute, and not at all once the connection is back", async () => {
  const { server, upload } = await begun(MIB, { trouble: Array(12).fill(networkError) });
  const waits = [];
  for (let turn = 0; turn < 9; turn += 1) {
    waits.push(server.waits_ms[0]);
    await server.tick();
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
  server.trouble = [];
  upload.retryNow();
  await settled();
  assert.equal(upload.state, "complete");
  assert.equal(upload.waits, null);
});

test("trouble of the server passes, and what it says meanwhile is kept", async () => {
  const { server, upload } = await begun(MIB, { trouble: [() => null, () => refusal(503, "x", "Starting.", "")] });
  assert.equal(upload.state, "waiting");
  assert.equal(upload.waits, "server");
  assert.equal(upload.error?.message, "Starting.");
  await server.tick();
  assert.equal(upload.state, "complete");
  assert.equal(upload.error, null);
});

test("after 409 the offset is asked for", async () => {
  const content = bytes(2 * MIB);
  const server = new FakeServer();
  server.trouble = [
    () => null,
    () => {
      server.take(content.slice(0, MIB));
      return refusal(409, "upload.offset", "It goes on elsewhere.");
    },
  ];
  const upload = server.upload(content);
  upload.start();
  await settled();
  await server.tick();
  assert.equal(upload.state, "complete");
  assert.deepEqual(
    server.requests.slice(0, 4).map(({ method }) => method),
    ["POST", "PATCH", "HEAD", "PATCH"],
  );
  assertArrived(server, content);
});

test("while another tab sends it, it says so and waits its turn", async () => {
  const content = bytes(MIB);
  const server = new FakeServer();
  server.length = content.length;
  const held = () => refusal(423, "upload.locked", "Another request brings this upload.");
  server.trouble = [() => null, held, () => null, held, () => null, held];
  const upload = server.upload(content, ADDRESS);
  upload.start();
  await settled();
  // The first refusals may be of this tab's own request that the server has not seen end.
  assert.equal(upload.state, "uploading");
  await server.tick();
  await server.tick();
  assert.equal(upload.state, "waiting");
  assert.equal(upload.waits, "elsewhere");
  server.take(content);
  await server.tick();
  assert.equal(upload.state, "complete");
  assertArrived(server, content);
});

for (const [status, code] of /** @type {[number, string][]} */ ([
  [400, "upload.refused"],
  [413, "upload.refused"],
  [507, "disk.full"],
  [500, "disk.full"],
])) {
  test(`${status} ${code} is said, and nothing is tried again by itself`, async () => {
    const { server, upload } = await begun(MIB, {
      trouble: [() => null, () => refusal(status, code, "No.", "Do this.")],
    });
    assert.equal(upload.state, "failed");
    assert.equal(upload.error?.message, "No.");
    assert.equal(upload.error?.hint, "Do this.");
    assert.equal(upload.error?.status, status);
    assert.deepEqual(server.waits_ms, []);
    // What has arrived is kept: it goes on at the same upload.
    upload.start();
    await settled();
    assert.equal(upload.state, "complete");
    assert.equal(server.count("POST"), 1);
  });
}

test("who is signed out is told so in words for a person, not for a program", async () => {
  const { upload } = await begun(MIB, {
    trouble: [() => null, () => refusal(401, "auth.required", "This needs somebody.", "Send a token.")],
  });
  assert.equal(upload.state, "failed");
  assert.equal(upload.error?.status, 401);
  assert.equal(upload.error?.message, "You are no longer signed in.");
});

test("an upload that the server has forgotten can begin anew", async () => {
  const server = new FakeServer();
  const upload = server.upload(bytes(MIB), ADDRESS);
  upload.start();
  await settled();
  assert.equal(upload.state, "failed");
  assert.equal(upload.error?.message, "There is no such upload.");
  upload.start();
  await settled();
  assert.equal(upload.state, "complete");
});

test("a pause stops the piece that is under way, and only one is ever under way", async () => {
  const { server, content, upload } = await begun(3 * MIB, { holds: true });
  server.held.pop()?.();
  await settled();
  assert.equal(server.open, 1);
  upload.pause();
  upload.start();
  upload.pause();
  await settled();
  assert.equal(upload.state, "paused");
  assert.equal(server.open, 0);
  assert.deepEqual(server.waits_ms, []);
  server.holds = false;
  upload.start();
  await settled();
  await server.tick();
  assert.equal(upload.state, "complete");
  assert.equal(server.mostOpen, 1);
  assertArrived(server, content);
});

test("a cancelled upload is taken away from the server", async () => {
  const { server, upload } = await begun(3 * MIB, { holds: true });
  server.held.pop()?.();
  await settled();
  server.holds = false;
  await upload.cancel();
  assert.equal(upload.state, "cancelled");
  assert.equal(server.requests.at(-1)?.method, "DELETE");
  assert.equal(server.length, null);
  upload.start();
  await settled();
  assert.equal(upload.state, "cancelled");
});

test("a request that hangs is given up and asked about", async () => {
  const { server, upload } = await begun(MIB, { holds: true });
  server.holds = false;
  const stalled = server.timers.find(({ delay_ms }) => delay_ms === STALLED_MS);
  stalled?.run();
  await settled();
  assert.equal(upload.waits, "offline");
  await server.tick();
  assert.equal(upload.state, "complete");
});

test("a file that changed under the upload is said, and not tried for ever", async () => {
  const server = new FakeServer();
  const gone = { arrayBuffer: () => Promise.reject(new DOMException("gone", "NotReadableError")) };
  const content = /** @type {any} */ ({ size: MIB, slice: () => gone });
  const upload = server.upload(bytes(1));
  upload.load = { ...upload.load, content };
  server.trouble = [() => null, networkError];
  upload.start();
  await settled();
  assert.equal(upload.state, "failed");
  assert.match(upload.error?.message ?? "", /changed, moved or deleted/);
});
