// @ts-check
/**
 * Which jobs changed, over a socket that is opened again after every break, until nobody is signed in any more.
 *
 * Socket and clock are passed in, so that a test needs neither.
 */

/** @typedef {"live" | "polling" | "signed-out"} ListState */
/** @typedef {{type: "changed", job: number} | {type: "live", ok: boolean}} Message */
/**
 * @typedef {{onmessage: ((event: {data: string}) => void) | null, onclose: ((event: {code: number}) => void) | null}}
 *   ChangesSocket
 */
/**
 * @typedef {{openSocket: () => ChangesSocket, setTimer: (run: () => void, delay_ms: number) => void}} Surroundings
 */
/**
 * @typedef {{
 *   state: (state: ListState) => void,
 *   changed: (job: number) => void,
 *   missed: () => void,
 * }} Listeners `missed`: changes from now on will be told, but some may have happened unheard.
 */

export const RETRY_MS = 2000;
const CLOSE_SIGNED_OUT = 4401;

/**
 * @param {Surroundings} around
 * @param {Listeners} on
 */
export function followChanges(around, on) {
  /** @type {ListState | null} */
  let told = null;

  /** @param {ListState} state */
  const tell = (state) => {
    if (state === told) return;
    told = state;
    on.state(state);
  };

  const listen = () => {
    const socket = around.openSocket();
    // An open socket says nothing yet: the server opens it for everybody, and closes it on those who are not signed in.
    socket.onmessage = ({ data }) => {
      /** @type {Message} */
      const message = JSON.parse(data);
      if (message.type === "changed") on.changed(message.job);
      if (message.type !== "live") return;
      tell(message.ok ? "live" : "polling");
      if (message.ok) on.missed();
    };
    socket.onclose = ({ code }) => {
      tell(code === CLOSE_SIGNED_OUT ? "signed-out" : "polling");
      if (code !== CLOSE_SIGNED_OUT) around.setTimer(listen, RETRY_MS);
    };
  };

  listen();
}
