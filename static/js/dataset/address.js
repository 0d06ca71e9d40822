// @ts-check
/** What the addresses of the page say. Pure. */

/**
 * The same address with a picture that lies open, or with none.
 * @param {string} href
 * @param {number | null} id
 */
export function withImage(href, id) {
  const url = new URL(href);
  if (id === null) url.searchParams.delete("image");
  else url.searchParams.set("image", String(id));
  return url.href;
}

/**
 * The gallery's filter as the API calls it: a class is known by its label there.
 * @param {string} query
 */
export function apiQuery(query) {
  const params = new URLSearchParams(query);
  const label = params.get("class");
  params.delete("class");
  if (label !== null) params.set("label", label);
  return params.toString();
}

/**
 * The gallery's filter with the page that holds a picture, counted from 1.
 * @param {string} query
 * @param {number} nBefore pictures before it
 * @param {number} pageSize
 */
export function pageQuery(query, nBefore, pageSize) {
  const params = new URLSearchParams(query);
  params.set("page", String(Math.floor(nBefore / pageSize) + 1));
  return params.toString();
}
