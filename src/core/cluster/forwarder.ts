/** Sends a request to the node that owns its object. Used in a cluster only. */
import type { AppError } from '../../lib/app-error.ts'
import type { MigrationOptions } from '../object-storage/migrator.ts'
import type { Owned } from './owner-store.ts'

/** A request at this node's door, with the means to answer it. Core passes both on and reads neither. */
export type DoorExchange = { request: unknown }

export interface Forwarder<Exchange extends DoorExchange> {
  /** True if a peer passed the request on. This node then answers it, or rejects it as misdirected. */
  isFromPeer(request: Exchange['request']): boolean
  /**
   * Sends the request to the node that owns its object, and returns that node's answer to the client. Changes
   * nothing itself, because the client is not authorized yet. Rejects only before an answer has begun, with
   * `unavailable` if the owner cannot be reached; a client without access to the object must not learn even
   * that.
   */
  forward(what: Owned, exchange: Exchange): Promise<Forwarded>
  /**
   * Makes this node the owner of a sandbox whose owner is away. Call it for an authorized client only. With
   * `memory`, rejects with `unprocessable` and changes nothing if this machine cannot use the snapshot's
   * memory. Without it, no other node can use that memory from then on. False: another node has the sandbox by
   * now, so forward the request again. Rejects with `unavailable` if no node can answer.
   */
  takeOver(sandboxID: string, options: { memory: boolean }): Promise<boolean>
  /**
   * Explains why this node did not find the object of a request that it was chosen to answer: another node
   * has it by now. Call it for an authorized client only. Undefined if no other node has it.
   */
  whyMissing(what: Owned, error: AppError): Promise<AppError | undefined>
  /**
   * The CPU and memory that the request needs, if the peer that passed it on can try other nodes when this
   * one is full.
   */
  capacityNeeded(request: Exchange['request']): NeededCapacity | undefined
  /** The ID of the peer's attempt to have this create carried out. */
  attemptIDOf(request: Exchange['request']): string | undefined
  /** Tells the peer that passed the request on that another node owns the object. */
  refuseAsMisdirected(exchange: Exchange): void
  /** Tells the peer that passed the request on that this node is full. */
  refuseForCapacity(exchange: Exchange): void
  /**
   * Tells the peer that passed the request on which sandboxes this node creates for it. Nobody else learns
   * this.
   */
  reportMade(exchange: Exchange, sandboxIDs: readonly string[]): void
  /**
   * Sends a request whose body has already been read to this node. Rejects if the node may have carried it out
   * and its answer was lost, unless the request has an `attemptID`.
   */
  send(nodeID: string, exchange: Exchange, sent: SentBody): Promise<SendOutcome>
}

/**
 * `here`: this node must answer; the body is unread. `absent`: the owner is away, and this node must answer
 * after it has taken the sandbox over.
 */
export type Forwarded = 'answered' | 'here' | 'absent'

export type NeededCapacity = { cpuCount: number; memoryMB: number; gpuCount?: number }

export type SentBody = {
  body: Buffer
  /** The node must reject at once if it lacks this capacity. Undefined: the node waits for capacity. */
  needs: NeededCapacity | undefined
  /** New for each attempt. The caller gives the attempt up if its answer is lost (`OwnerStore.giveUpCreate`). */
  attemptID?: string | undefined
}

/**
 * `not reached`: the node is away, or no connection to it came about; it has seen nothing of the request.
 * `lost`: the node may carry the request out, but its answer does not arrive.
 */
export type SendOutcome = 'answered' | 'no room' | 'not reached' | 'lost'

/**
 * Takes over a paused sandbox of a node that is away, as `SandboxMigrator.take` says. False if that was not
 * possible.
 */
export type TakeOver = (sandboxID: string, options: MigrationOptions) => Promise<boolean>
