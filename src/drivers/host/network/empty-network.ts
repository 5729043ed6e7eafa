/**
 * An empty network namespace, for the part of a runtime that serves files and needs no network. A runtime
 * that finds one under a certain name in its state folder uses it. Otherwise it makes one at every start, and
 * the kernel removes it at every end.
 */
import { access, mkdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { ifPresent } from '../../../lib/if-present.ts'
import { runCommand } from '../../../lib/run-command.ts'
import type { Layout } from '../record/layout.ts'

/** One for all sandboxes of this Warren. Slots see it only if it existed before them. */
export async function makeEmptyNetwork(layout: Layout): Promise<void> {
  if ((await ifPresent(access(layout.emptyNetworkPath).then(() => true))) === undefined) {
    await runCommand('ip', ['netns', 'add', layout.emptyNetworkName])
  }
}

export async function removeEmptyNetwork(layout: Layout): Promise<void> {
  if (await ifPresent(access(layout.emptyNetworkPath).then(() => true))) {
    await runCommand('ip', ['netns', 'delete', layout.emptyNetworkName])
  }
}

/**
 * Puts it under the name by which the runtime of this slot looks for it. Undefined if that runtime needs
 * none.
 */
export async function offerEmptyNetwork(
  layout: Layout,
  slot: number,
  name: string | undefined,
): Promise<void> {
  if (name === undefined) return
  const state = layout.runtimeState(slot)
  await mkdir(state, { recursive: true, mode: 0o700 })
  await rm(join(state, name), { force: true })
  await symlink(layout.emptyNetworkPath, join(state, name))
}
