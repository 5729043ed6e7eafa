/** Entries in the log of a sandbox about its life. */
import type { LogEntry } from '../../ports/logs.ts'
import type { EndReason, Sandbox, SandboxSnapshot } from './sandbox.ts'

export function createdEntry({ createdAt, templateID, alias, timeoutMs }: Sandbox): LogEntry {
  return {
    at: createdAt,
    level: 'info',
    message: `Sandbox created from template ${alias ?? templateID} for ${timeoutMs / 1000} s`,
    fields: { logger: 'sandbox', event_type: 'sandbox_created', template_id: templateID },
  }
}

export function pausedEntry(at: number, { memory, frozen, agentUnresponsive }: SandboxSnapshot): LogEntry {
  const content = memory ? 'memory and files' : 'its files only; it boots anew when it is resumed'
  const warning = frozen ? '. Its memory stays in this machine, and is lost if the machine goes down' : ''
  const unresponsive = agentUnresponsive ? '. Its agent did not answer' : ''
  return {
    at,
    level: agentUnresponsive ? 'warn' : 'info',
    message: `Sandbox paused with ${content}${warning}${unresponsive}`,
    fields: {
      logger: 'sandbox',
      event_type: 'sandbox_paused',
      pause_mode: memory ? 'full' : 'filesystem',
    },
  }
}

export function resumedEntry({ startedAt, endAt }: Sandbox, memory: boolean): LogEntry {
  const how = memory ? 'its processes continue' : 'it booted anew on its files'
  return {
    at: startedAt,
    level: 'info',
    message: `Sandbox resumed for ${Math.round((endAt - startedAt) / 1000)} s: ${how}`,
    fields: { logger: 'sandbox', event_type: 'sandbox_resumed', memory: String(memory) },
  }
}

export function memoryGivenUpEntry(at: number, networks: 'some' | 'unknown'): LogEntry {
  const why =
    networks === 'some'
      ? 'a process has a network namespace of its own, which could not be restored'
      : 'the agent does not say whether a process has a network namespace of its own'
  return {
    at,
    level: 'warn',
    message: `The time of the sandbox is over, and its memory cannot be kept: ${why}`,
    fields: { logger: 'sandbox', event_type: 'sandbox_memory_given_up' },
  }
}

export function memoryLostEntry(at: number, why: string): LogEntry {
  return {
    at,
    level: 'warn',
    message: `The memory of the paused sandbox is lost; its files are not: ${why}`,
    fields: { logger: 'sandbox', event_type: 'sandbox_memory_lost' },
  }
}

export function returnedEntry(at: number, why: string): LogEntry {
  return {
    at,
    level: 'warn',
    message:
      'The sandbox ended before its resume was complete. It is paused again as it was before, with its snapshot in the object store: ' +
      why,
    fields: { logger: 'sandbox', event_type: 'sandbox_returned' },
  }
}

export function copiedEntry(at: number, what: 'snapshot' | 'fork', detail: string): LogEntry {
  return {
    at,
    level: 'info',
    message: what === 'fork' ? `Sandbox forked: ${detail}` : `Snapshot taken: ${detail}`,
    fields: { logger: 'sandbox', event_type: `sandbox_${what}` },
  }
}

export function logCutEntry(at: number, why: string): LogEntry {
  return {
    at,
    level: 'warn',
    message: `The log was cut off; entries may be missing from here on: ${why}`,
    fields: { logger: 'sandbox', event_type: 'log_cut_off' },
  }
}

export function recoveredEntry(at: number, memory: boolean): LogEntry {
  const how = memory ? 'its memory and files' : 'its files only; it boots anew when it is resumed'
  return {
    at,
    level: 'info',
    message: `Sandbox recovered by the operator as paused, with ${how}`,
    fields: { logger: 'sandbox', event_type: 'sandbox_recovered' },
  }
}

export function frozenEntry(at: number, why: string): LogEntry {
  return {
    at,
    level: 'warn',
    message: why,
    fields: { logger: 'sandbox', event_type: 'sandbox_frozen' },
  }
}

export function goesOnEntry(at: number, why: string): LogEntry {
  return {
    at,
    level: 'info',
    message: `The sandbox continues: ${why}`,
    fields: { logger: 'sandbox', event_type: 'sandbox_thawed' },
  }
}

export function pausedForMemoryEntry(at: number): LogEntry {
  return {
    at,
    level: 'warn',
    message:
      'The sandbox was paused because the memory of this server is nearly used up. The sandbox has lost nothing: resume ' +
      'it, or connect to it, when there is memory again',
    fields: { logger: 'sandbox', event_type: 'sandbox_paused_for_memory' },
  }
}

const endTexts: Record<EndReason, string> = {
  killed: 'killed',
  timeout: 'its timeout was over',
  lost: 'it was no longer on the machine',
  create_failed: 'it could not be created',
  out_of_memory: 'it used more memory than it has',
  killed_from_outside: 'its processes were killed from outside the sandbox',
  crashed: 'its processes crashed',
  disk_full: 'the disk of the server was full, and this sandbox had recently written most',
  memory_full: 'the memory of the server was used up, and this sandbox was furthest beyond its share of it',
}

const wanted: readonly EndReason[] = ['killed', 'timeout']

export function endedEntry(at: number, reason: EndReason, detail?: string): LogEntry {
  return {
    at,
    level: wanted.includes(reason) ? 'info' : 'error',
    message: `Sandbox ended: ${endTexts[reason]}${detail === undefined ? '' : `. ${detail}`}`,
    fields: { logger: 'sandbox', event_type: 'sandbox_ended', reason },
  }
}
