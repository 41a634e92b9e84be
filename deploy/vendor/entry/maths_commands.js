import '../node_modules/katex/src/functions';
import '../node_modules/katex/src/macros';
