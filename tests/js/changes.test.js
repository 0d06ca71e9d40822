import assert from "node:assert/strict";
import { test } from "node:test";
import { followChanges, RETRY_MS } from "../../static/js/home/changes.js";

/** A server and a clock, of which a test turns the hands. */
class World {
  /** @type {import("../../static/js/home/changes.js").ChangesSocket[]} */
  sockets = [];
  /** @type {{run: () => void, delay_ms: number}[]} */
  timers = [];
  /** @type {string[]} */
  heard = [];

  follow() {
    followChanges(
      {
        openSocket: () => {
          const socket = { onmessage: null, onclose: null };
          this.sockets.push(socket);
          return socket;
        },
        setTimer: (run, delay_ms) => this.timers.push({ run, delay_ms }),
      },
      {
        state: (state) => this.heard.push(state),
        changed: (job) => this.heard.push(`changed ${job}`),
        missed: () => this.heard.push("missed"),
      },
    );
  }

  /** @param {object} message */
  say(message) {
    this.sockets.at(-1)?.onmessage?.({ data: JSON.stringify(message) });
  }

  /** @param {number} code */
  close(code) {
    this.sockets.at(-1)?.onclose?.({ code });
  }
}

test("an open socket is live when the server says so, and what was missed is fetched", () => {
  const world = new World();
  world.follow();
  assert.deepEqual(world.heard, []);
  world.say({ type: "live", ok: true });
  world.say({ type: "changed", job: 7 });
  assert.deepEqual(world.heard, ["live", "missed", "changed 7"]);
});

test("while the server hears nothing itself the page polls, and catches up afterwards", () => {
  const world = new World();
  world.follow();
  for (const ok of [true, false, false, true]) world.say({ type: "live", ok });
  assert.deepEqual(world.heard, ["live", "missed", "polling", "live", "missed"]);
});

test("after a break the socket is opened again, and polling is told once", () => {
  const world = new World();
  world.follow();
  for (const _ of [1, 2, 3]) {
    world.close(1006);
    const timer = world.timers.pop();
    assert.equal(timer?.delay_ms, RETRY_MS);
    timer?.run();
  }
  assert.equal(world.sockets.length, 4);
  assert.deepEqual(world.heard, ["polling"]);
});

test("nobody knocks again at a server where nobody is signed in", () => {
  const world = new World();
  world.follow();
  world.say({ type: "live", ok: true });
  world.close(4401);
  assert.deepEqual(world.heard, ["live", "missed", "signed-out"]);
  assert.deepEqual(world.timers, []);
});
