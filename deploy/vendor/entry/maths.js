// Used for its MathML only, which needs no fonts and no style sheet. From its sources: its own bundle is one piece.
import katex from '../node_modules/katex/katex';
export const { render } = katex;
