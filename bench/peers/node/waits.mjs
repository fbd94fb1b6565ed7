// How long one job waits from its submission to the first line of its function, in one process with an idle worker.
export const IGNORED = 10;
const PAUSE_MS = 20;

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Waits {
  begin() {
    this.heard?.(performance.now());
  }

  async measure(submit, count) {
    const waits = [];
    for (let number = 0; number < count + IGNORED; number += 1) {
      await sleep(PAUSE_MS);
      const begun = new Promise((resolve) => (this.heard = resolve));
      const submitted = performance.now();
      await submit(number);
      const wait = (await begun) - submitted;
      if (number >= IGNORED) waits.push(wait);
    }
    return waits;
  }
}

export function handOver(units, seconds, waits) {
  console.log(JSON.stringify({ units, seconds, facts: { waits_ms: waits } }));
}
