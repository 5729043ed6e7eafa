/** Moves mounts of a newly started sandbox to places where its runtime would not put them. */
import { inNamespace, mount, mountFlags } from './namespace-calls.ts'

/** `pid`: a process in the sandbox. Paths are the sandbox's own. */
export type MoveTask = { pid: number; moves: readonly MountMove[] }
export type MountMove = { from: string; to: string }

export function moveMounts({ pid, moves }: MoveTask): void {
  inNamespace('mounts', `/proc/${pid}/ns/mnt`, () => {
    for (const { from, to } of moves) mount({ source: from, target: to, flags: mountFlags.move })
  })
}
