/**
 * The mounts that containers get from the host. A mount tells every process in it its path below the root of
 * its file system and its options, so these are on separate file systems: a container learns no path of this
 * machine.
 */
import { chmod, mkdir, readdir, readFile, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ifPresent } from '../../../lib/if-present.ts'
import { runCommand } from '../../../lib/run-command.ts'
import type { Layout } from '../../host/record/layout.ts'

/**
 * The files that are mounted over those of /proc and /sys: on a memory file system, so that a reboot drops
 * them.
 */
export async function mountShown(layout: Layout): Promise<void> {
  for (const folder of [layout.shown, layout.agentMounts]) {
    await mkdir(folder, { recursive: true })
    await chmod(folder, 0o700)
  }
  if (!(await isMounted(layout.shown))) {
    await runCommand('mount', ['-t', 'tmpfs', '-o', 'mode=700,nosuid,nodev,noexec', 'warren', layout.shown])
  }
  for (const folder of [layout.shownProcs, layout.sysSkeletons]) await mkdir(folder, { recursive: true })
}

/** The agent's folder as an overlay without an upper layer, which must have two lower ones. */
export async function mountAgent(layout: Layout, agentFolder: string): Promise<void> {
  const target = layout.agentMount(agentFolder)
  if (await isMounted(target)) return
  const parts = dirname(target)
  for (const folder of [target, join(parts, 'none')]) await mkdir(folder, { recursive: true })
  await symlink(agentFolder, join(parts, 'kit')).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const options = 'ro,nosuid,nodev,lowerdir=kit:none'
  await runCommand('mount', ['-t', 'overlay', '-o', options, 'overlay', target], { cwd: parts })
}

/** Call it only when no sandbox is left. */
export async function unmountShown(layout: Layout): Promise<void> {
  const agents = (await ifPresent(readdir(layout.agentMounts))) ?? []
  const mounts = [layout.shown, ...agents.map((name) => join(layout.agentMounts, name, 'root'))]
  // A missing mount is no failure; if one stays, the removal of its folder reports it.
  await Promise.all(mounts.map((path) => runCommand('umount', [path]).catch(() => {})))
}

async function isMounted(path: string): Promise<boolean> {
  return (await readFile('/proc/self/mountinfo', 'utf8')).includes(` ${path} `)
}
