// The thread in which the replica lives. Automerge takes a long document in one piece of a second and more, in which
// this thread answers nothing; the page's goes on.

import { initializeWasm } from "@automerge/automerge/slim"
import wasmUrl from "@automerge/automerge/automerge.wasm?url"
import { messageOf } from "../lib/api"
import { Keeper } from "./keeper"
import type { ReplicaReply, ReplicaRequest } from "./messages"
import { NotKept } from "./storage"

const tell = (reply: ReplicaReply) => self.postMessage(reply)

// wasm-bindgen takes the promise of a response.
const engine = initializeWasm(fetch(wasmUrl) as unknown as Request)
let keeper: Keeper | undefined

self.addEventListener("message", ({ data: request }: MessageEvent<ReplicaRequest>) => {
  take(request).catch((error: unknown) => tell({ type: "failed", message: messageOf(error) }))
})

// automerge-repo saves on its own, and catches nothing.
self.addEventListener("unhandledrejection", (event) => event.reason instanceof NotKept && event.preventDefault())

async function take(request: ReplicaRequest): Promise<void> {
  if (request.type === "open") {
    await engine
    keeper = new Keeper(request, tell)
  } else if (request.type === "reconnect") keeper?.reconnect()
  else if (request.type === "flush") await keeper?.flush()
  else if (request.type === "text") keeper?.text(request.section, request.request)
  else {
    try {
      await keeper?.close(request.refused)
    } finally {
      tell({ type: "closed" })
    }
  }
}
