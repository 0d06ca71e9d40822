// @ts-check

/**
 * An element with attributes and children; text is always text, never markup.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/**
 * The element that the page is known to have.
 * @template {Element} Kind
 * @param {string} selector
 * @param {new () => Kind} kind
 * @param {ParentNode} [root]
 * @returns {Kind}
 */
export function found(selector, kind, root = document) {
  const match = root.querySelector(selector);
  if (!(match instanceof kind)) throw new Error(`the page has no ${kind.name} ${selector}`);
  return match;
}

/**
 * Writes only what differs, so that an unchanged text is neither repainted nor announced again.
 * @param {Element} target
 * @param {string} text
 */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}
