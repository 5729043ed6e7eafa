/** How a request reaches the node that owns what it is for. Without a cluster there is none of this. */
import type { IncomingMessage } from 'node:http'
import type { HttpExchange } from '../../lib/http-relay/http-relay.ts'
import type { Owned } from './node.ts'

export interface Forwarder {
  /** A peer passed the request on: it is answered here, or rejected as misdirected. */
  isFromPeer(request: IncomingMessage): boolean
  /**
   * Carries the request to the node that owns what it is for, and the answer back. False: this node is to answer it; its
   * body is untouched then. Rejects before anything was answered, with `unavailable` where the owner cannot be reached,
   * and with `unprocessable` where that has a paused sandbox whose memory cannot be used here: it is as it was then.
   */
  forward(what: Owned, exchange: HttpExchange): Promise<boolean>
  /**
   * Makes such a sandbox this node's own all the same, for who wants no more than its files: from then on no other node can
   * use its memory either. False: it could not be had.
   */
  takeWithoutMemory(sandboxID: string): Promise<boolean>
  /** The room that the request needs, where the peer that passed it on has other nodes to try if this one lacks it. */
  roomNeeded(request: IncomingMessage): NeededRoom | undefined
  /** Tells a peer that passed the request on that another node is to have it. */
  refuseAsMisdirected(exchange: HttpExchange): void
  /** Tells that peer that there is none. */
  refuseForRoom(exchange: HttpExchange): void
  /** Tells a peer that passed the request on which sandboxes this node makes for it. Nobody else is told. */
  tellMade(exchange: HttpExchange, sandboxIDs: readonly string[]): void
  /** Carries a request whose body was read already to this node. */
  send(nodeID: string, exchange: HttpExchange, sent: SentBody): Promise<SendOutcome>
}

export type NeededRoom = { cpuCount: number; memoryMB: number }

export type SentBody = {
  body: Buffer
  /** The node is to say at once if it has no room for this; undefined: it waits for room. */
  needs: NeededRoom | undefined
}

export type SendOutcome = 'answered' | 'no room'

/** Takes over a paused sandbox of a node that is away, as `SandboxMover.take` says. False: it could not be had. */
export type TakeOver = (sandboxID: string, options: { memory: boolean }) => Promise<boolean>
