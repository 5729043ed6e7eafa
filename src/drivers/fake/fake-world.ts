/** What outlives a fake driver: the machine with its sandboxes and snapshots, and its knobs. */
import type { DriverHandle, SandboxExit, SandboxSpec } from '../../core/ports/driver.ts'
import type { AddressRules } from '../../core/ports/egress.ts'
import type { FakeContent } from './fake-content.ts'

export type FakeSandbox = FakeContent & {
  /** What is written down of it, its egress rules among that. */
  spec: SandboxSpec
  handle: DriverHandle
  running: boolean
  frozen: boolean
  /** The folder of the snapshot that is there as long as the sandbox stays frozen. */
  frozenSnapshot: string | undefined
  /** What packets are really held against, as a kernel would: not always what is written down. */
  enforced: AddressRules
}

/** `consumedBy`: the run that was started on the very files of the snapshot. */
export type FakeSnapshot = {
  spec: SandboxSpec
  content: FakeContent
  memory: boolean
  consumedBy: string | undefined
  imported?: true
}

export type FakeWorld = {
  sandboxes: Map<string, FakeSandbox>
  snapshots: Map<string, FakeSnapshot>
  prepared: Set<string>
  /** A knob: memory of a machine with another CPU is of no use here. */
  cpu: string
  /** A knob: ids of sandboxes and folders of snapshots of which nothing can be found out for now. */
  unreadable: Set<string>
  /** A knob: bytes of memory that sandboxes use, by sandbox. */
  memoryUses: Map<string, number>
  /** The drivers that are open on this machine; each is told of every crash. */
  crashListeners: Set<(exit: SandboxExit) => void>
}

export const newFakeWorld = (): FakeWorld => ({
  sandboxes: new Map(),
  snapshots: new Map(),
  prepared: new Set(),
  cpu: 'usual',
  unreadable: new Set(),
  memoryUses: new Map(),
  crashListeners: new Set(),
})
