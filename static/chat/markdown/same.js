/**
 * Whether two blocks say the same: colours of code, typeset formulas and buttons are looks.
 *
 * @param {Node} shown
 * @param {Node} wanted without any of them
 * @returns {boolean}
 */
export function same(shown, wanted) {
  if (shown.nodeType !== wanted.nodeType || shown.nodeName !== wanted.nodeName) return false;
  if (shown.nodeType !== 1) return shown.nodeValue === wanted.nodeValue;
  const [here, there] = [/** @type {Element} */ (shown), /** @type {Element} */ (wanted)];
  if (!sameAttributes(here, there)) return false;
  if (here.nodeName === 'CODE') return here.textContent === there.textContent;
  if (isFormula(here)) return texOf(here) === texOf(there);
  const children = [...here.childNodes].filter((node) => node.nodeName !== 'BUTTON');
  const others = [...there.childNodes];
  return children.length === others.length && children.every((node, index) => same(node, others[index]));
}

/** @param {Element} element */
export function isFormula(element) {
  return element.className === 'math' || element.className === 'math display';
}

/** What a formula was written as, typeset or not. @param {Element} formula */
export function texOf(formula) {
  return (formula.querySelector('annotation') ?? formula).textContent ?? '';
}

/** @param {Element} here @param {Element} there */
function sameAttributes(here, there) {
  const names = there.getAttributeNames();
  return here.getAttributeNames().length === names.length && names.every((name) => here.getAttribute(name) === there.getAttribute(name));
}
