import"./maths-OA7BJCQH.js";
