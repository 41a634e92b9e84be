import"./maths-TXEP4XKH.js";import"./maths-OA7BJCQH.js";
