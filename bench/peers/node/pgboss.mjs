// pg-boss: jobs that do nothing, by four loops of fetch and complete with batches of 100, its fastest; one by one with
// LISTEN and NOTIFY.
import { PgBoss } from "pg-boss";
import { handOver, sleep, Waits } from "./waits.mjs";

const [url, tasks, singles] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const [LOOPS, BATCH, AT_ONCE] = [4, 100, 1000];

const boss = new PgBoss({ connectionString: url, max: 10, schedule: false, useListenNotify: true });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue("nothing");
await boss.createQueue("ring", { notify: true });
let done = 0;
const nothing = async () => {
  done += 1;
};

async function loop() {
  for (;;) {
    const jobs = await boss.fetch("nothing", { batchSize: BATCH });
    if (!jobs.length) return;
    for (const job of jobs) await nothing(job);
    await boss.complete("nothing", jobs.map((job) => job.id));
  }
}

async function drain(count) {
  for (let start = 0; start < count; start += AT_ONCE) {
    await boss.insert("nothing", Array.from({ length: Math.min(AT_ONCE, count - start) }, () => ({ data: {} })));
  }
  done = 0;
  const began = performance.now();
  await Promise.all(Array.from({ length: LOOPS }, loop));
  return (performance.now() - began) / 1000;
}

await drain(500);
const seconds = await drain(tasks);
const units = done;
const waits = new Waits();
await boss.work("ring", { pollingIntervalSeconds: 0.5 }, async () => waits.begin());
await sleep(2000);
const found = await waits.measure(() => boss.send("ring", {}), singles);
await boss.stop({ graceful: false });
handOver(units, seconds, found);
process.exit(0);
