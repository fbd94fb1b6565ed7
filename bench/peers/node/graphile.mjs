// graphile-worker: jobs that do nothing, with a local queue of 500 and batched completion, its fastest: a crash runs
// finished jobs again that were not written yet.
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import pg from "pg";
import { handOver, sleep, Waits } from "./waits.mjs";

const [url, tasks, singles] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const CONCURRENCY = 24;
const AT_ONCE = 1000;

const logger = new Logger(() => () => {});
const pgPool = new pg.Pool({ connectionString: url, max: CONCURRENCY + 4 });
pgPool.on("error", () => {});
pgPool.on("connect", (client) => client.on("error", () => {}));
const waits = new Waits();
let [done, expected, finish] = [0, Infinity, () => {}];
const taskList = {
  nothing: async () => {
    done += 1;
    if (done === expected) finish();
  },
  ring: async () => waits.begin(),
};
const shared = { pgPool, concurrency: CONCURRENCY, noHandleSignals: true, taskList, logger };
const fastest = { ...shared, preset: { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0 } } };
await runMigrations({ pgPool, logger });
const utils = await makeWorkerUtils({ pgPool, logger });

async function drain(count) {
  for (let start = 0; start < count; start += AT_ONCE) {
    const length = Math.min(AT_ONCE, count - start);
    await utils.addJobs(Array.from({ length }, () => ({ identifier: "nothing", payload: {} })));
  }
  [done, expected] = [0, count];
  const finished = new Promise((resolve) => (finish = resolve));
  const began = performance.now();
  const runner = await run(fastest);
  await finished;
  await runner.stop(); // waits until the completions are written
  const left = "SELECT count(*) AS number FROM graphile_worker._private_jobs";
  while (Number((await pgPool.query(left)).rows[0].number) > 0) await sleep(2);
  return (performance.now() - began) / 1000;
}

await drain(500);
const seconds = await drain(tasks);
const units = done;
const runner = await run(shared);
await sleep(1000);
const found = await waits.measure(() => utils.addJob("ring", {}), singles);
await runner.stop();
handOver(units, seconds, found);
process.exit(0);
