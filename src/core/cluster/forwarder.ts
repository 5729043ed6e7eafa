/** How a request reaches the node that owns what it is for. Without a cluster there is none of this. */
import type { AppError } from '../../lib/app-error.ts'
import type { TakeOptions } from '../archive/mover.ts'
import type { Owned } from './owner-store.ts'

/** A request at this node's door, and the way for its answer. Core hands both on and looks into neither. */
export type DoorExchange = { request: unknown }

export interface Forwarder<Exchange extends DoorExchange> {
  /** A peer passed the request on: it is answered here, or rejected as misdirected. */
  isFromPeer(request: Exchange['request']): boolean
  /**
   * Carries the request to the node that owns what it is for, and the answer back. Changes nothing by itself, since nobody
   * has asked yet whether the sender may. Rejects before anything was answered, with `unavailable` where the owner cannot
   * be reached; who may not use what the request is for must not be told even that.
   */
  forward(what: Owned, exchange: Exchange): Promise<Forwarded>
  /**
   * Makes a sandbox whose owner is away this node's own. To be called only for somebody who is known to be allowed to use
   * it. With `memory`, rejects with `unprocessable` where its memory cannot be used here: it is as it was then. Without,
   * no other node can use its memory from then on. Rejects with `unavailable` where it could not be had.
   */
  takeOver(sandboxID: string, options: { memory: boolean }): Promise<void>
  /**
   * For a request that this node was to answer and found nothing for: why, where another node has it by now. To be asked
   * only for somebody who may use it. Undefined: it is as it seems.
   */
  whyMissing(what: Owned): Promise<AppError | undefined>
  /** The room that the request needs, where the peer that passed it on has other nodes to try if this one lacks it. */
  roomNeeded(request: Exchange['request']): NeededRoom | undefined
  /** Tells a peer that passed the request on that another node is to have it. */
  refuseAsMisdirected(exchange: Exchange): void
  /** Tells that peer that there is none. */
  refuseForRoom(exchange: Exchange): void
  /** Tells a peer that passed the request on which sandboxes this node makes for it. Nobody else is told. */
  tellMade(exchange: Exchange, sandboxIDs: readonly string[]): void
  /** Carries a request whose body was read already to this node. */
  send(nodeID: string, exchange: Exchange, sent: SentBody): Promise<SendOutcome>
}

/**
 * `here`: this node is to answer; the body is untouched. `absent`: the owner is away, and this node is to answer once it
 * has taken the sandbox over.
 */
export type Forwarded = 'answered' | 'here' | 'absent'

export type NeededRoom = { cpuCount: number; memoryMB: number; gpuCount?: number }

export type SentBody = {
  body: Buffer
  /** The node is to say at once if it has no room for this; undefined: it waits for room. */
  needs: NeededRoom | undefined
}

export type SendOutcome = 'answered' | 'no room'

/** Takes over a paused sandbox of a node that is away, as `SandboxMover.take` says. False: it could not be had. */
export type TakeOver = (sandboxID: string, options: TakeOptions) => Promise<boolean>
