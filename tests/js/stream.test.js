import assert from "node:assert/strict";
import { test } from "node:test";
import { ANSWER_WITHIN_MS, PAGE_SIZE, PING_EVERY_MS, POLL_EVERY_MS, Refusal } from "../../static/js/stream.js";
import { event, events, live, settled, World } from "./network.js";

test("it is live when the server has answered, and not before", async () => {
  const world = new World();
  world.stream(7).start();
  assert.equal(world.socket.after, 7);
  world.socket.onopen?.();
  assert.deepEqual(world.states, ["connecting"]);
  world.socket.say({ type: "pong" });
  assert.deepEqual(world.states, ["connecting", "live"]);
});

test("events are handed on in order, each once", async () => {
  const { world } = await live();
  world.socket.tell(events(1, 3));
  world.socket.tell(events(2, 5));
  assert.deepEqual(world.seen, [1, 2, 3, 4, 5]);
});

test("what was recorded while nobody listened is fetched when the socket opens", async () => {
  const world = new World();
  world.recorded = 4;
  await live(world);
  assert.deepEqual(world.seen, [1, 2, 3, 4]);
});

test("what the server brings after a sleep is not fetched as well", async () => {
  const world = new World();
  world.recorded = 12_000;
  world.stream(0).start();
  world.socket.onopen?.();
  for (let seq = 1; seq <= 12_000; seq += PAGE_SIZE) world.socket.tell(events(seq, seq + PAGE_SIZE - 1));
  await settled();
  assert.deepEqual(world.fetchedAfter, []);
  world.socket.say({ type: "live", ok: true });
  await settled();
  assert.deepEqual(world.fetchedAfter, [12_000]);
  assert.equal(world.seen.length, 12_000);
  assert.equal(world.state, "live");
});

test("a gap is filled in pages, and what came meanwhile follows it", async () => {
  const { world } = await live();
  world.recorded = 2 * PAGE_SIZE + 5;
  world.socket.tell([event(2 * PAGE_SIZE + 4)]);
  world.socket.tell([event(2 * PAGE_SIZE + 5), event(2 * PAGE_SIZE + 6)]);
  assert.deepEqual(world.seen, []);
  await settled();
  assert.deepEqual(
    world.seen,
    events(1, 2 * PAGE_SIZE + 6).map(({ seq }) => seq),
  );
  assert.deepEqual(world.fetchedAfter, [0, 0, PAGE_SIZE, 2 * PAGE_SIZE]);
});

test("a gap that cannot be filled now is filled later, and nothing is handed on before", async () => {
  const { world } = await live();
  world.reachable = false;
  world.socket.tell([event(3)]);
  await settled();
  assert.deepEqual(world.seen, []);
  world.reachable = true;
  world.recorded = 3;
  await world.pass(1000);
  assert.deepEqual(world.seen, [1, 2, 3]);
});

test("more than can wait behind a gap is fetched with it", async () => {
  const { world } = await live();
  world.recorded = 1;
  world.socket.tell([event(3)]);
  world.socket.tell(events(4, 6000));
  await settled();
  assert.deepEqual(world.seen, [1]);
  world.recorded = 6000;
  await world.pass(3000);
  assert.deepEqual(
    world.seen,
    events(1, 6000).map(({ seq }) => seq),
  );
});

test("a socket that falls silent is noticed within 25 seconds", async () => {
  const { world } = await live();
  assert.ok(PING_EVERY_MS + ANSWER_WITHIN_MS <= 25_000);
  await world.pass(PING_EVERY_MS + ANSWER_WITHIN_MS - 1);
  assert.equal(world.state, "live");
  await world.pass(1);
  assert.equal(world.state, "reconnecting");
  assert.equal(world.sockets[0]?.closed, true);
});

test("a socket that answers stays", async () => {
  const { world } = await live();
  for (let beat = 0; beat < 5; beat += 1) {
    await world.pass(PING_EVERY_MS);
    world.socket.say({ type: "pong" });
  }
  assert.equal(world.sockets.length, 1);
  assert.deepEqual(world.states, ["connecting", "live"]);
});

test("it connects again after what it has, with growing pauses that end at 10 seconds", async () => {
  const { world } = await live();
  world.chance = 1;
  world.socket.tell(events(1, 3));
  world.reachable = false;
  const pauses = [];
  for (let failure = 0; failure < 7; failure += 1) {
    const opened = world.sockets.length;
    world.socket.onclose?.({ code: 1006 });
    const began_ms = world.now_ms;
    while (world.sockets.length === opened) await world.pass(100);
    pauses.push(world.now_ms - began_ms);
  }
  assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
  assert.equal(world.socket.after, 3);
});

test("pauses differ from page to page, and are never below half a second", async () => {
  for (const [chance, pause_ms] of [
    [0, 500],
    [0.5, 750],
    [1, 1000],
  ]) {
    const { world } = await live();
    world.chance = chance ?? 0;
    world.socket.onclose?.({ code: 1006 });
    await world.pass((pause_ms ?? 0) - 1);
    assert.equal(world.sockets.length, 1);
    await world.pass(1);
    assert.equal(world.sockets.length, 2);
  }
});

test("after a reconnect the row is asked for, for its changes were told to nobody", async () => {
  const { world } = await live();
  const before = world.changed;
  world.socket.onclose?.({ code: 1006 });
  await world.pass(1000);
  world.socket.open();
  assert.equal(world.changed, before + 1);
});

test("while no socket can be opened events are polled, and the state says so", async () => {
  const { world } = await live();
  world.socket.onclose?.({ code: 1006 });
  assert.equal(world.state, "reconnecting");
  await world.pass(600);
  world.socket.onclose?.({ code: 1006 });
  world.recorded = 2;
  await world.pass(POLL_EVERY_MS);
  assert.equal(world.state, "polling");
  assert.deepEqual(world.seen, [1, 2]);
  world.recorded = 3;
  await world.pass(POLL_EVERY_MS);
  assert.deepEqual(world.seen, [1, 2, 3]);
});

test("without any connection the state is reconnecting, however often it polls", async () => {
  const { world } = await live();
  world.reachable = false;
  for (let failure = 0; failure < 4; failure += 1) {
    world.socket.onclose?.({ code: 1006 });
    await world.pass(11_000);
  }
  assert.deepEqual(world.states, ["connecting", "live", "reconnecting"]);
});

test("polling ends when a socket answers", async () => {
  const { world } = await live();
  for (let failure = 0; failure < 3; failure += 1) {
    world.socket.onclose?.({ code: 1006 });
    await world.pass(5000);
  }
  assert.equal(world.state, "polling");
  world.socket.open();
  await settled();
  assert.equal(world.state, "live");
  const fetched = world.fetchedAfter.length;
  await world.pass(PING_EVERY_MS - 1);
  assert.equal(world.fetchedAfter.length, fetched);
});

test("while the server cannot read the live tail it is polled over the open socket's head", async () => {
  const { world } = await live();
  world.socket.say({ type: "live", ok: false });
  await settled();
  assert.equal(world.state, "polling");
  world.recorded = 2;
  await world.pass(POLL_EVERY_MS);
  assert.deepEqual(world.seen, [1, 2]);
  world.recorded = 3;
  world.socket.say({ type: "live", ok: true });
  await settled();
  assert.equal(world.state, "live");
  assert.deepEqual(world.seen, [1, 2, 3]);
});

test("a server whose first word is that the tail cannot be read was never live", async () => {
  const world = new World();
  world.stream().start();
  world.socket.onopen?.();
  world.socket.say({ type: "live", ok: false });
  await settled();
  assert.deepEqual(world.states, ["connecting", "reconnecting", "polling"]);
});

test("waking up does not wait for the pause", async () => {
  const { world, stream } = await live();
  world.chance = 1;
  world.socket.onclose?.({ code: 1006 });
  stream.wake();
  assert.equal(world.sockets.length, 2);
  await world.pass(5000);
  assert.equal(world.sockets.length, 2, "the retry that was planned is not made as well");
});

test("waking up with a dead socket finds out within three seconds", async () => {
  const { world, stream } = await live();
  stream.wake();
  await world.pass(3000);
  assert.equal(world.state, "reconnecting");
});

test("a socket that never opens is given up", async () => {
  const world = new World();
  world.stream().start();
  await world.pass(ANSWER_WITHIN_MS);
  assert.equal(world.state, "reconnecting");
});

test("it ends when the server says that nobody is signed in, or that the run is gone", async () => {
  for (const [code, state] of [
    [4401, "signed-out"],
    [4404, "gone"],
  ]) {
    const { world } = await live();
    world.socket.onclose?.({ code: Number(code) });
    assert.equal(world.state, state);
    await world.pass(60_000);
    assert.equal(world.sockets.length, 1);
    assert.deepEqual(world.timers, []);
  }
});

test("it ends when HTTP refuses", async () => {
  const { world } = await live();
  world.refusal = new Refusal("signed-out");
  world.socket.tell([event(5)]);
  await settled();
  assert.equal(world.state, "signed-out");
});

test("after the end nothing is handed on, and nothing is left running", async () => {
  const { world, stream } = await live();
  stream.stop();
  world.socket.tell(events(1, 3));
  await world.pass(60_000);
  assert.equal(world.state, "finished");
  assert.deepEqual(world.seen, []);
  assert.deepEqual(world.timers, []);
  assert.equal(world.socket.closed, true);
});

test("before the end everything can be fetched without a socket", async () => {
  const world = new World();
  world.recorded = 3;
  const stream = world.stream(1);
  assert.equal(await stream.catchUp(), true);
  stream.stop();
  assert.deepEqual(world.seen, [2, 3]);
  assert.deepEqual(world.sockets, []);
});

/**
 * Something happens to the network, or somewhere on the way.
 * @param {World} world
 * @param {number} what 0 to 1
 * @param {number} newFrom first seq that the socket has not told
 */
function mishap(world, what, newFrom) {
  if (what < 0.1) world.reachable = !world.reachable;
  else if (what < 0.2) world.socket.onclose?.({ code: 1006 });
  else if (what < 0.3) world.socket.say({ type: "live", ok: what < 0.25 });
  else if (what < 0.4) world.socket.open();
  else if (what < 0.8) world.socket.tell(events(newFrom, world.recorded));
}

/** Whatever happened, in the end there is a connection. @param {World} world */
async function mend(world) {
  world.reachable = true;
  if (!world.socket.onmessage) await world.pass(12_000);
  world.socket.open();
  world.socket.say({ type: "live", ok: true });
  await world.pass(5000);
}

test("however the network behaves, every event comes once and in order", async () => {
  let seed = 1;
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  for (let round = 0; round < 40; round += 1) {
    const world = new World();
    world.chance = random();
    world.stream().start();
    for (let moment = 0; moment < 60; moment += 1) {
      const newFrom = world.recorded + 1;
      world.recorded += Math.floor(random() * 4);
      mishap(world, random(), newFrom);
      await world.pass(random() * 3000);
    }
    await mend(world);
    assert.equal(world.state, "live");
    assert.deepEqual(
      world.seen,
      events(1, world.recorded).map(({ seq }) => seq),
    );
  }
});
