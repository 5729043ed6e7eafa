/** The fake machine, which outlives a fake driver: sandboxes, snapshots and knobs. */
import type { DriverHandle, SandboxExit, SandboxSpec } from '../../core/ports/driver.ts'
import type { AddressRules } from '../../core/ports/egress.ts'
import type { FakeContent } from './fake-content.ts'

export type FakeSandbox = FakeContent & {
  /** The recorded spec, including the recorded egress rules. */
  spec: SandboxSpec
  handle: DriverHandle
  running: boolean
  frozen: boolean
  /** The folder of a snapshot that is valid only while the sandbox stays frozen. */
  frozenSnapshot: string | undefined
  /** The rules that the fake kernel enforces; they can differ from the recorded rules. */
  enforced: AddressRules
}

/** `consumedBy` is the run that started on the snapshot's own files. */
export type FakeSnapshot = {
  spec: SandboxSpec
  content: FakeContent
  memory: boolean
  consumedBy: string | undefined
  imported?: true
  /** Whether its memory has arrived, of a snapshot that was imported without it. */
  arrives?: 'missing' | 'filled'
}

export type FakeWorld = {
  sandboxes: Map<string, FakeSandbox>
  snapshots: Map<string, FakeSnapshot>
  prepared: Set<string>
  /** A knob: the CPU of this machine. Memory from a machine with another CPU cannot be restored. */
  cpu: string
  /** A knob: sandbox ids and snapshot folders whose state cannot be read now. */
  unreadable: Set<string>
  /** A knob: bytes of memory that sandboxes use, by sandbox. */
  memoryUses: Map<string, number>
  /** One listener for each driver that is open on this machine. Each receives every crash. */
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
