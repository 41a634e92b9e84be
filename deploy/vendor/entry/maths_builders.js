import '../node_modules/katex/src/buildHTML';
import '../node_modules/katex/src/buildMathML';
import '../node_modules/katex/src/environments';
