// Loaded before maths.js, which needs all of it: evaluated at once it would hold up a slow phone.
import '../node_modules/katex/src/fontMetricsData.js';
import '../node_modules/katex/src/svgGeometry';
import '../node_modules/katex/src/symbols';
