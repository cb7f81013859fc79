// Threads that wait in a chain of functions, whose stacks are known.
const { Worker, isMainThread } = require('worker_threads');
if (isMainThread) {
  for (let i = 0; i < 3; i++) new Worker(__filename);
  console.log(process.pid);
  setTimeout(() => process.exit(0), Number(process.argv[2]));
} else {
  const cell = new Int32Array(new SharedArrayBuffer(8));
  function six(a) { Atomics.wait(cell, 0, 0, 0.5); return a + 1; }
  function five(a, b, c) { return six(a, b, c, 4) + 1; }
  function four() { return five(arguments.length) + 1; }
  function three(a, b) { return four(a, b, 1, 2, 3, 4, 5) + 1; }
  function two(a) { return three() + a; }
  function one() { return two(1, 2, 3); }
  (function again() {
    for (let i = 0; i < 100; i++) one();
    setImmediate(again);
  })();
}
