// The reference server of the automerge-repo protocol, for measurements: the stock Repo behind its own
// WebSocket adapter, without storage, as automerge-repo-sync-server wires it. Prints addr=HOST:PORT when it listens.
import { createServer } from "node:http"
import { Repo } from "@automerge/automerge-repo"
import { WebSocketServerAdapter } from "@automerge/automerge-repo-network-websocket"
import { WebSocketServer } from "ws"

const http = createServer()
const sockets = new WebSocketServer({ server: http })
new Repo({
  network: [new WebSocketServerAdapter(sockets)],
  peerId: "reference",
  sharePolicy: async () => false,
})
http.listen(0, "127.0.0.1", () => console.log(`addr=127.0.0.1:${http.address().port}`))
process.on("SIGTERM", () => process.exit(0))
