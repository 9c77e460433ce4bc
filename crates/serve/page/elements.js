// A little shorthand for building the page's elements.

export const byId = (id) => document.getElementById(id);

// An element with attributes and children; text is always text, never markup.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const whole = new Intl.NumberFormat("en");
export const count = (number) => whole.format(number);
export const percent = (share) => (share > 0 && share < 0.005 ? "<1%" : `${Math.round(share * 100)}%`);
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export const duration = (seconds) => (seconds < 10 ? `${seconds.toFixed(2)}\u00a0s` : `${count(Math.round(seconds))}\u00a0s`);
