// A stock replica that waits until the document at the URL in its argument has the text on its standard input, as the
// bodies of its sections in their order, and fails if it never has. agents_test.go runs it.

import { text } from "node:stream/consumers";
import { Repo } from "@automerge/automerge-repo";
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket";

const patience = 30_000; // ms
const wanted = await text(process.stdin);
const address = `${process.env.COWRITE_URL.replace("http", "ws")}/api/v1/sync?token=${process.env.COWRITE_KEY}`;
const repo = new Repo({ network: [new WebSocketClientAdapter(address)] });
const handle = await repo.find(process.argv[2]);

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const body = () =>
  Object.entries(handle.doc().sections)
    .filter(([, section]) => !section.removed)
    .sort(([a, x], [b, y]) => compare(x.position, y.position) || compare(a, b))
    .map(([, section]) => section.body)
    .join("");

for (const end = Date.now() + patience; body() !== wanted; ) {
  if (Date.now() > end) {
    console.error(`the replica has ${body().length} characters, not the ${wanted.length} of REST`);
    process.exit(1);
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
}
process.exit(0); // a stock client goes on trying to connect after its shutdown
