/** What clients were told, and what is known of the faults: the simulator's own memory, which no crash takes. */
import type { BegunResume } from './expected-content.ts'
import type { Request } from './plan.ts'

export type Ask = Request & {
  /** As in the plan. */
  number: number
  node: number
  process: number
  /** The process of another node that it was passed on to. */
  passedOnTo?: number
  teamID: string
  /** Its door chooses the node, and goes on with another one if that one dies or cannot be reached any more. */
  isPlaced?: boolean
  onCut?: () => void
  /** In elapsed milliseconds; `answeredMs` is unset until there is an answer. */
  askedMs: number
  answeredMs?: number
  /** The client has its answer: nobody died on the way. */
  wasHeard?: boolean
  sandboxID: string | undefined
  /** The snapshot that it deletes from the quarantine. */
  discards?: string
  /** Another request of the same kind for the same sandbox was under way meanwhile. */
  overlaps?: boolean
}

/** An end that a client was told, and the request that told it. */
export type ReportedEnd = { endAt: number; askedAtStep: number }

export type LedgerEntry = {
  sandboxID: string
  teamID: string
  node: number
  /** The create that made it; undefined for a fork. */
  madeBy: Ask | undefined
  /** The last thing a program in it wrote to its files. */
  written: string | undefined
  /** The same for its memory, which is empty after a boot. */
  inMemory: string | undefined
  /** It was given back from the quarantine, at an earlier moment than the last that clients know. */
  isContentUnknown: boolean
  /** While it is paused: its memory must come back. */
  keepsMemory: boolean
  /** The pause under way may be without memory, because a client asked for that. */
  pauseDropsMemory: boolean
  /** The last resume that has begun. */
  resume: BegunResume | undefined
  reportedEnds: ReportedEnd[]
  /** The step in which a request that may bring its end nearer was last under way. */
  shortenedAtStep: number
  /** What may leave it, as the last request that was answered well set it; undefined where that is not certain. */
  closed: boolean | undefined
  /** A drain paused it, and it is to run on until then; undefined: none did, or it runs again. */
  migratesUntil: number | undefined
}

/** A volume that clients can name. */
export type KnownVolume = { volumeID: string; name: string; node: number }

export class Ledger {
  readonly entries = new Map<string, LedgerEntry>()
  /** By team: what its clients can name. */
  readonly known = new Map<string, string[]>()
  readonly snapshots = new Map<string, string[]>()
  /** The node whose disk has the snapshot. */
  readonly snapshotNodes = new Map<string, number>()
  readonly underway = new Set<Ask>()
  /** By number: all creates. */
  readonly creates = new Map<number, Ask>()
  /** Requests that a node carries out for another one, whose client does not hear of them any more. */
  readonly unheard = new Set<Ask>()
  /** Names of nodes that were told to drain. */
  readonly drained = new Set<string>()
  readonly killAsked = new Set<string>()
  /** Sandboxes of which a client was told that they are killed. */
  readonly killReported = new Set<string>()
  /** Keys of snapshots of which a row ever said that the object store has them. */
  readonly remoteRuns = new Set<string>()
  /** Runs whose processes a fault took. */
  readonly died = new Set<string>()
  /** Numbers of creates that were answered with an error. */
  readonly failedCreates = new Set<number>()
  /** Numbers of creates whose clients were told that the outcome is not known. */
  readonly unknownCreates = new Set<number>()
  /** Numbers of creates of volumes that were. */
  readonly failedVolumes = new Set<number>()
  /** By team. */
  readonly volumes = new Map<string, KnownVolume[]>()
  /** By team: ids of the webhooks that clients can name. */
  readonly webhooks = new Map<string, string[]>()
  /** By run: the process that was told by the driver how it died, and when. */
  readonly reportedExits = new Map<string, { process: number; step: number }>()
  /** By run: the step in which somebody first decided to end it. */
  readonly endDecided = new Map<string, number>()
  /** By team and key: the sandbox that clients were told. */
  readonly keyed = new Map<string, string>()

  learn(teamID: string, sandboxID: string, node: number): LedgerEntry {
    const list = this.known.get(teamID) ?? []
    if (!list.includes(sandboxID)) this.known.set(teamID, [...list, sandboxID])
    return this.entry(teamID, sandboxID, node)
  }

  entry(teamID: string, sandboxID: string, node: number): LedgerEntry {
    const found = this.entries.get(sandboxID)
    if (found) return found
    const entry: LedgerEntry = {
      sandboxID,
      teamID,
      node,
      madeBy: undefined,
      written: undefined,
      inMemory: undefined,
      isContentUnknown: false,
      keepsMemory: false,
      pauseDropsMemory: false,
      resume: undefined,
      reportedEnds: [],
      shortenedAtStep: -1,
      closed: undefined,
      migratesUntil: undefined,
    }
    this.entries.set(sandboxID, entry)
    return entry
  }

  isDiscarding(snapshotName: string): boolean {
    return [...this.underway, ...this.unheard].some((ask) => ask.discards === snapshotName)
  }

  isAsked(sandboxID: string, ...verbs: string[]): boolean {
    return [...this.underway, ...this.unheard].some(
      (ask) => ask.sandboxID === sandboxID && verbs.includes(ask.verb),
    )
  }
}
