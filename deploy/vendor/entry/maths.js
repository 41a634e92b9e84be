// Used for its MathML only, which needs no fonts and no style sheet.
export { render } from 'katex';
