import { ConnectionError, Refusal, refusalOf } from "./errors.js";
import { type Answer, type Changed, type Close, type Closed, type Open, type Opened, subprotocol } from "./frames.js";
import { newId } from "./http.js";
import { Pauses, type Platform, type SocketLike } from "./platform.js";
import type { LostLease, Version } from "./types.js";

/** Who has a document open on the socket. */
export interface Follower {
  /** The version that it has of the document; undefined: none. */
  readonly resumeFrom: Version | undefined;
  /** The document is open: from here on come its changes. */
  opened(frame: Opened): void;
  changed(frame: Changed): void;
  /** The document is open no longer, and will not be. */
  failed(why: Error): void;
}

/** Refusals of one document that are worth asking again. */
const passing = ["BUSY", "INTERNAL", "SHUTTING_DOWN", "SLOW_READER"];

/** How long the server may take to let a socket in, and to answer when nothing else comes. */
const patienceMs = 10_000;

/** For how long nothing may come before the server is asked whether it is there. */
const silenceMs = 10_000;

/** A name that no document can have. Closing it is answered like any request, and does nothing. */
const noDocument = "-";

/** A document that is followed, and how far its opening has come. */
interface Following {
  follower: Follower;
  /** The id of the open that was sent; undefined: none was on this connection. */
  asked: string | undefined;
  open: boolean;
  pauses: Pauses;
  cancelRetry: () => void;
}

/**
 * The agent socket of a client, with all the documents that it follows. It is there while a document is: when it is cut
 * it comes back after a pause, and opens them again from the versions that they had.
 */
export class AgentSocket {
  private readonly followings = new Map<string, Following>();
  private readonly pauses: Pauses;
  private socket: SocketLike | undefined;
  private welcomed = false;
  private farewell: Refusal | undefined;
  private cancelTimer = () => {};
  private cancelReturn = () => {};

  constructor(
    private readonly url: string,
    private readonly key: string,
    private readonly platform: Platform,
    private readonly onLeaseLost: (lost: LostLease[]) => void,
  ) {
    this.pauses = new Pauses(platform.random);
  }

  /** Follows a document until leave(), or until the follower is told that it failed. */
  follow(document: string, follower: Follower): void {
    this.followings.set(document, { follower, asked: undefined, open: false, pauses: new Pauses(this.platform.random), cancelRetry: () => {} });
    if (this.welcomed) this.open(document);
    else if (!this.socket) this.connect();
  }

  /** Opens a followed document anew, from the version that its follower has. */
  reopen(document: string): void {
    if (this.welcomed) this.open(document);
  }

  leave(document: string): void {
    const following = this.followings.get(document);
    if (!following) return;
    following.cancelRetry();
    this.followings.delete(document);
    if (this.followings.size === 0) this.close();
    else if (this.welcomed) this.send({ type: "close", id: newId(), document });
  }

  /** Closes the connection. Whoever still follows is told nothing more. */
  close(): void {
    for (const following of this.followings.values()) following.cancelRetry();
    this.followings.clear();
    this.cancelReturn();
    this.drop();
  }

  private connect(): void {
    this.cancelReturn();
    const { WebSocket, timers } = this.platform;
    if (!WebSocket) {
      this.failAll(new ConnectionError("there is no WebSocket here: hand one in, such as that of the npm package ws"));
      return;
    }
    const address = `${this.url.replace(/^http/, "ws")}/api/v1/agent?token=${encodeURIComponent(this.key)}`;
    const socket = new WebSocket(address, [subprotocol]);
    this.socket = socket;
    this.farewell = undefined;
    this.cancelTimer = timers.after(patienceMs, () => this.comeBack());
    socket.addEventListener("message", ({ data }) => {
      if (this.socket === socket) this.received(JSON.parse(String(data)) as Answer);
    });
    socket.addEventListener("error", () => {}); // a close follows
    socket.addEventListener("close", ({ code, reason }) => {
      if (this.socket === socket) this.closed(code, reason);
    });
  }

  private closed(code: number, reason: string): void {
    if (code < 4400 || code > 4499) {
      this.comeBack();
      return;
    }
    const [word = "", ...sentence] = reason.split(": ");
    this.drop();
    this.failAll(this.farewell ?? new Refusal(word, sentence.join(": ")));
  }

  /** Gives the connection up, and makes another after a pause if it is needed. */
  private comeBack(): void {
    this.drop();
    if (this.followings.size === 0) return;
    this.cancelReturn = this.platform.timers.after(this.pauses.next(), () => this.connect());
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = undefined;
    this.welcomed = false;
    this.cancelTimer();
    for (const following of this.followings.values()) {
      following.cancelRetry();
      following.asked = undefined;
      following.open = false;
    }
    socket?.close();
  }

  private failAll(why: Error): void {
    const all = [...this.followings.values()];
    this.followings.clear();
    for (const { follower } of all) follower.failed(why);
  }

  private open(document: string): void {
    const following = this.followings.get(document);
    if (!following) return;
    following.cancelRetry();
    following.asked = newId();
    following.open = false;
    const version = following.follower.resumeFrom;
    this.send({ type: "open", id: following.asked, document, ...(version !== undefined && { version }) });
  }

  private send(frame: Open | Close): void {
    this.socket?.send(JSON.stringify(frame));
  }

  private received(frame: Answer): void {
    this.watch();
    switch (frame.type) {
      case "welcome":
        this.welcomed = true;
        for (const document of this.followings.keys()) this.open(document);
        break;
      case "opened": {
        const following = this.followings.get(frame.document);
        if (!following || following.asked !== frame.id) break; // left, or opened again since
        following.open = true;
        following.pauses.reset();
        this.pauses.reset();
        following.follower.opened(frame);
        break;
      }
      case "changed": {
        const following = this.followings.get(frame.document);
        if (following?.open) following.follower.changed(frame);
        break;
      }
      case "closed":
        this.ended(frame);
        break;
      case "leaseLost":
        this.onLeaseLost(frame.leaseLost);
        break;
      case "error": {
        const refusal = refusalOf(frame) ?? new Refusal("INTERNAL", "the server refused without a code");
        if (frame.id === undefined) this.farewell = refusal;
        else this.refused(frame.id, refusal);
        break;
      }
    }
  }

  /** The server closed a document, or answers that this side did. */
  private ended(frame: Closed): void {
    const following = this.followings.get(frame.document);
    if (!following || frame.error === undefined) return;
    this.giveUpOrRetry(frame.document, following, refusalOf(frame) ?? new Refusal(frame.error, frame.message ?? ""));
  }

  private refused(id: string, refusal: Refusal): void {
    for (const [document, following] of this.followings) {
      if (following.asked === id) this.giveUpOrRetry(document, following, refusal);
    }
  }

  private giveUpOrRetry(document: string, following: Following, why: Refusal): void {
    following.open = false;
    if (passing.includes(why.code)) {
      following.cancelRetry();
      following.cancelRetry = this.platform.timers.after(following.pauses.next(), () => this.reopen(document));
      return;
    }
    following.cancelRetry();
    this.followings.delete(document);
    if (this.followings.size === 0) this.close();
    following.follower.failed(why);
  }

  /** Watches over whether the server is there: pages see no pings, and a cut line is silent. */
  private watch(): void {
    const { timers } = this.platform;
    this.cancelTimer();
    this.cancelTimer = timers.after(
      silenceMs,
      () => {
        this.send({ type: "close", id: newId(), document: noDocument });
        this.cancelTimer = timers.after(patienceMs, () => this.comeBack());
      },
      true,
    );
  }
}
