/**
 * The isolations that sandboxes can have, the strongest first. Settings, start, doctor, dashboard and tests read this table
 * and name no isolation themselves. The code that runs one lies in a file of its own, which is loaded only to start or
 * examine sandboxes.
 */
import type { IsolationRuntime } from './isolation-runtime.ts'

export type Isolation = {
  /** The name for people. */
  label: string
  /** What sandboxes are under it, where it is compared with another one. */
  longLabel: string
  /** Accepted in WARREN_ISOLATION instead of the name. */
  aliases: readonly string[]
  /** What protects the machine from a sandbox, as a sentence without its end. */
  protection: string
  /** How it protects less than the stronger ones, as a full sentence. Null for the strongest. */
  weakness: string | null
  /** What an operator does where it does not work, as a sentence without its end. Null: what its probe says. */
  remedy: string | null
  /** What `warren doctor` calls its runtime. */
  runtimeLabel: string
  loadRuntime: () => Promise<IsolationRuntime>
}

export const isolations = {
  gvisor: {
    label: 'gVisor',
    longLabel: 'gVisor',
    aliases: [],
    protection: 'each sandbox has its own kernel: gVisor',
    weakness: null,
    remedy: 'Start Warren once with network, so that it can build gVisor',
    runtimeLabel: 'gVisor',
    loadRuntime: async () => (await import('./gvisor.ts')).gvisorRuntime,
  },
  container: {
    label: 'containers',
    longLabel: 'plain containers',
    // The documentation speaks of containers.
    aliases: ['containers'],
    protection: 'sandboxes are plain containers',
    weakness:
      "Containers isolate less: all of them share this machine's kernel, and a hole in it is a way out.",
    remedy: null,
    runtimeLabel: 'runc',
    loadRuntime: async () => (await import('./container.ts')).containerRuntime,
  },
} as const satisfies Isolations

/** A test may add an isolation of its own to those of the table. */
export type Isolations = Readonly<Record<string, Isolation>>
export type IsolationName = keyof typeof isolations

export const namesOf = <Table extends Isolations>(table: Table) =>
  Object.keys(table) as (keyof Table & string)[]

/** Those that sandboxes may get by the setting, the strongest first. */
export const candidatesOf = <Table extends Isolations>(wanted: string, table: Table) =>
  namesOf(table).filter((name) => wanted === 'auto' || wanted === name)

/** Those that a start installs and the doctor examines, the strongest first. */
export const wantedOrWeaker = <Table extends Isolations>(wanted: string, table: Table) =>
  wanted === 'auto' ? namesOf(table) : namesOf(table).slice(namesOf(table).indexOf(wanted))
