// Compares the output of cron_triples with the results of an npm library.
//
//   node cron_libraries.mjs tests/tools croner|cron-parser <file of triples>
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [tools, name, triples] = process.argv.slice(2);
const require = createRequire(resolve(tools, "package.json"));
const DAY_MS = 24 * 3600 * 1000;
// Backward search is twice as slow as forward search in these libraries: only every N-th instant
// uses it.
const BACKWARD_EVERY = 4;

// cron-parser asks Luxon for an offset at every step, and Luxon asks the formatter, which takes
// most of the time: ask once a day, unless the day has several offsets.
function rememberOffsets() {
  const { IANAZone } = require("luxon");
  const offset = IANAZone.prototype.offset;
  const ofDay = new Map();
  IANAZone.prototype.offset = function (ms) {
    const day = Math.floor(ms / DAY_MS);
    const key = `${this.name} ${day}`;
    if (!ofDay.has(key)) {
      const ends = [day * DAY_MS, (day + 1) * DAY_MS].map((end) => offset.call(this, end));
      ofDay.set(key, ends[0] === ends[1] ? ends[0] : undefined);
    }
    return ofDay.get(key) ?? offset.call(this, ms);
  };
}

// Each function returns an object that finds the occurrences before and after an instant.
const libraries = {
  croner() {
    const { Cron } = require("croner");
    return (cron, timezone) => {
      // cron-parser writes the last Friday as 5#L.
      const job = new Cron(cron.replace(/(\d)L$/, "$1#L"), { timezone, sloppyRanges: true, paused: true });
      return { last: (at) => job.previousRuns(1, at)[0], next: (at) => job.nextRun(at) };
    };
  },
  "cron-parser"() {
    const { CronExpressionParser } = require("cron-parser");
    rememberOffsets();
    return (cron, tz) => {
      const expression = CronExpressionParser.parse(cron, { tz });
      const from = (at) => (expression.reset(at), expression);
      return { last: (at) => from(at).prev().toDate(), next: (at) => from(at).next().toDate() };
    };
  },
};

const read = libraries[name]();
let compared = 0;
let differences = 0;
function compare(line, at, which, find, ours) {
  const theirs = find(new Date(at * 1000)).getTime() / 1000;
  if (theirs === ours) return;
  const [a, b, c] = [at, ours, theirs].map((seconds) => new Date(seconds * 1000).toISOString());
  console.log(`${line.cron} in ${line.zone}: ${which} of ${a} is ${b}; ${name} says ${c}`);
  ++differences;
}
for (const text of readFileSync(triples, "utf8").trim().split("\n")) {
  const line = JSON.parse(text);
  const { last, next } = read(line.cron, line.zone);
  for (const [at, before, after] of line.instants) {
    compare(line, at, "next", next, after);
    if (compared++ % BACKWARD_EVERY === 0) compare(line, at, "last", last, before);
  }
}
console.log(`${name}: ${compared} instants compared, ${differences} differences`);
process.exitCode = compared > 0 && differences === 0 ? 0 : 1;
