// Threads and lines that are held up for as long as a test wants.

import { createServer, request } from "node:http"
import { connect, type AddressInfo } from "node:net"
import type { Page } from "playwright-core"
import { expect } from "vitest"
import { serverUrl } from "./world"

/** Holds up the thread of the page's replica, as a long document does; what comes back lets it go on. */
export async function holdReplica(page: Page): Promise<() => Promise<void>> {
  let go!: () => void
  const released = new Promise<void>((resolve) => (go = resolve))
  const held = new Promise<void>((resolve) => {
    void page.context().route("**/held-up", async (route) => {
      resolve()
      await released
      await route.fulfill({ body: "" })
    })
  })
  const done = page.workers().at(-1)!.evaluate(() => {
    const waiting = new XMLHttpRequest()
    waiting.open("GET", "/held-up", false)
    waiting.send()
  })
  await held
  return async () => {
    go()
    await done
  }
}

/** Tries to close the tab, and stays when it asks whether to. */
export async function closeAndStay(page: Page): Promise<void> {
  const asked = page.waitForEvent("dialog")
  await page.close({ runBeforeUnload: true })
  const dialog = await asked
  expect(dialog.type()).toBe("beforeunload")
  await dialog.dismiss()
}

/** A proxy in front of the server. It passes the handshake of a WebSocket on when it may, and says when the browser has closed it. */
export async function slowProxy(mayPass: (path: string, closed: Promise<void>) => Promise<void>): Promise<{ url: string; close(): Promise<void> }> {
  const { hostname, port } = new URL(serverUrl)
  const server = createServer((from, to) => {
    const { method, url: path, headers } = from
    from.pipe(
      request({ hostname, port, method, path, headers }, (answer) => {
        to.writeHead(answer.statusCode!, answer.headers)
        answer.pipe(to)
        to.on("close", () => answer.destroy())
      }).on("error", () => to.destroy()),
    )
  })
  server.on("upgrade", (from, socket) => {
    const closed = new Promise<void>((resolve) => socket.on("close", () => resolve()))
    socket.on("error", () => undefined)
    void mayPass(from.url!, closed).then(() => {
      const line = connect(Number(port), hostname)
      line.on("error", () => socket.destroy())
      line.on("close", () => socket.destroy())
      void closed.then(() => line.destroy())
      const headers = from.rawHeaders.map((each, i) => (i % 2 ? `${each}\r\n` : `${each}: `)).join("")
      line.write(`GET ${from.url} HTTP/1.1\r\n${headers}\r\n`)
      line.pipe(socket).pipe(line)
    })
  })
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections()
      return new Promise((ended) => server.close(() => ended()))
    },
  }
}
