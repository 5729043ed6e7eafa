/** The events of a process, and their readers. */
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ProcessEventSchema } from '../../contract/rpc/process_pb.ts'
import type { OutputName } from './outputs.ts'

export type ProcessEventInit = MessageInitShape<typeof ProcessEventSchema>

/** A receiver of events. A process pauses its output while any reader is full. */
export type EventReader = {
  readonly isFull: boolean
  /** The event may wait for those that follow it, until `flush` or the end event. */
  push(event: ProcessEventInit): void
  flush(): void
}

const largestChunk: Record<OutputName, number> = { stdout: 32 * 1024, stderr: 32 * 1024, pty: 16 * 1024 }

export function startEvent(pid: number): ProcessEventInit {
  return { event: { case: 'start', value: { pid } } }
}

export const keepaliveEvent: ProcessEventInit = { event: { case: 'keepalive', value: {} } }

/** Output as events, none of them larger than clients expect. */
export function dataEvents(name: OutputName, bytes: Uint8Array): ProcessEventInit[] {
  const step = largestChunk[name]
  const events: ProcessEventInit[] = []
  for (let at = 0; at < bytes.length; at += step) {
    const value = at === 0 && bytes.length <= step ? bytes : bytes.subarray(at, at + step)
    events.push({ event: { case: 'data', value: { output: { case: name, value } } } })
  }
  return events
}
