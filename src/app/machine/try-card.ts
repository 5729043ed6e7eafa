/**
 * Lets a card compute once in a sandbox of its own, by the interface of another version of its driver than the machine has. So it
 * turns out at the start, and not in somebody's program, whether the two versions speak alike.
 */
import { lstatSync, mkdirSync, readlinkSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { checkpointProgram, gpuMount, prepareDriverFiles } from '../../drivers/host/device/driver-files.ts'
import type { Gpu, MachineGpus } from '../../drivers/host/device/gpus.ts'
import { gvisor } from '../../drivers/oci/runtime/gvisor.ts'
import { ifPresentNow } from '../../lib/if-present.ts'
import { tryOnce } from '../isolation/start-something.ts'

type TriedCard = {
  runsc: string
  platform: string
  machine: MachineGpus
  card: Gpu
  /** Path of our program that computes on the card. */
  program: string
  borrowedInterface: string
}

/** The machine's own C library, with which its driver runs. */
const systemFolders = ['usr', 'lib', 'lib64']

/** Rejects with what went wrong. */
export async function tryCard(tried: TriedCard): Promise<void> {
  const { runsc, platform, machine, card, program, borrowedInterface } = tried
  const flags = [...['--network=none', `--platform=${platform}`], ...gvisor.gpuFlags(borrowedInterface)]
  const printed = await tryOnce(runsc, flags, async (folder) => {
    const parent = join(folder, 'driver')
    mkdirSync(parent)
    const files = await prepareDriverFiles(parent, machine, program, () => false)
    return {
      process: {
        args: [checkpointProgram, '--compute'],
        env: ['PATH=/usr/bin', `LD_LIBRARY_PATH=${gpuMount}/lib`],
      },
      mounts: [
        readOnly(files, gpuMount),
        ...systemFolders.flatMap((name) => show(`/${name}`, join(folder, 'root', name))),
      ],
      devices: [...machine.sharedNodes, ...card.nodes].map((node) => ({
        ...node,
        type: 'c',
        fileMode: 0o666,
      })),
    }
  })
  if (printed !== 'computed\n') throw new Error(`the card computed nothing: ${printed.slice(0, 200)}`)
}

const readOnly = (source: string, destination: string) => ({
  destination,
  source,
  type: 'bind',
  options: ['rbind', 'ro'],
})

/** On most machines only /usr is a folder, and the others are links into it. */
function show(source: string, inRoot: string): object[] {
  const found = ifPresentNow(() => lstatSync(source))
  if (!found) return []
  if (!found.isSymbolicLink()) return [readOnly(source, source)]
  symlinkSync(readlinkSync(source), inRoot)
  return []
}
