// @ts-check
/** Addresses of this server, which may be below a folder of its site. Modules write them as they are at the root. */

/** @returns {string} what comes before each, without a slash at its end */
function prefix() {
  const home = globalThis.document?.querySelector('meta[name="home"]')?.getAttribute("content") ?? "/";
  return home.replace(/\/$/, "");
}

/**
 * @param {string} path such as `/api/v1/jobs`
 * @returns {string}
 */
export function addressOf(path) {
  return prefix() + path;
}

/**
 * @param {string} path such as `/ws/changes/`
 * @returns {string} with scheme and host, as a socket needs them
 */
export function socketAddressOf(path) {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${addressOf(path)}`;
}
