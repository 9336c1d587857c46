// The page's service worker. It keeps the files of the page itself, the shell, so that the page opens without a network;
// what documents are in the browser is the replica's matter. Nothing of the API is ever kept.

/** Comes from the build, in front of this file (vite.config.ts). */
declare const shell: {
  /** SHA-256 of the entry, in base64. The entry names the script, which names its parts: another build has another one. */
  readonly version: string
  readonly files: readonly string[]
}
declare const self: ServiceWorkerGlobalScope

const entry = "/"
const prefix = "cowrite-shell-"
const own = prefix + shell.version
/** A server that has not answered after this many milliseconds is as good as away. */
const patienceMs = 5_000

self.addEventListener("install", (event) => event.waitUntil(install()))
self.addEventListener("activate", (event) => event.waitUntil(activate()))
self.addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request
  const { origin, pathname } = new URL(url)
  if (method !== "GET" || origin !== self.location.origin || pathname.startsWith("/api/")) return
  if (mode === "navigate") event.respondWith(page(event.request))
  else if (pathname.startsWith("/assets/")) event.respondWith(part(event.request))
})

/**
 * All or nothing: what cannot be had whole leaves the shell that is there as it is. It takes that one's place when the
 * last page that was opened with it is closed, which until then may ask for a part.
 */
async function install(): Promise<void> {
  const known = await caches.has(own)
  const cache = await caches.open(own)
  try {
    // Of what is named after its content the browser's own copy will do. The entry has to be the one of this build.
    await cache.addAll([new Request(entry, { cache: "no-cache", integrity: `sha256-${shell.version}` }), ...shell.files])
  } catch (error) {
    if (!known) await caches.delete(own)
    throw error
  }
}

async function activate(): Promise<void> {
  const others = (await caches.keys()).filter((name) => name.startsWith(prefix) && name !== own)
  await Promise.all(others.map((name) => caches.delete(name)))
  await self.clients.claim()
}

/** The page as the server has it now, else as it is kept. */
async function page(request: Request): Promise<Response> {
  const kept = () => caches.open(own).then((cache) => cache.match(entry))
  const answer = fetch(request)
  const first = await Promise.race([answer.then(served, () => undefined), new Promise<undefined>((resolve) => setTimeout(resolve, patienceMs))])
  return first ?? (await kept()) ?? answer
}

/** Not what a proxy says in place of a server that is down. */
function served(answer: Response): Response | undefined {
  return answer.status >= 502 && answer.status <= 504 ? undefined : answer
}

async function part(request: Request): Promise<Response> {
  return (await caches.match(request)) ?? fetch(request)
}
