/** Images `one:1` and `two:1` in a folder: busybox, and above it a layer of many files that hold the image's name. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { writeLayout } from './registry.ts'
import { busyboxRoot } from './roots.ts'
import { noWarmPool, type Warren } from './warren.ts'

export type LayeredImages = { layout: string; settings: Record<string, string>; remove(): void }

export async function makeLayeredImages(): Promise<LayeredImages> {
  const home = mkdtempSync(join(tmpdir(), 'warren-images-'))
  const layout = join(home, 'layout')
  const busybox = await busyboxRoot()
  const images = ['one', 'two'].map((name) => {
    const above = join(home, name)
    // So many that removing them takes a while.
    for (let folder = 0; folder < 20; folder++) {
      mkdirSync(join(above, 'many', String(folder)), { recursive: true })
      for (let file = 0; file < 100; file++)
        writeFileSync(join(above, 'many', String(folder), String(file)), name)
    }
    return { tag: `${name}:1`, roots: [busybox, above] }
  })
  await writeLayout(layout, images)
  return {
    layout,
    settings: { WARREN_REGISTRY_MIRRORS: `*=folder:${layout}`, ...noWarmPool },
    remove: () => rmSync(home, { recursive: true, force: true }),
  }
}

export const layersOf = (warren: Warren) => readdirSync(join(warren.dataFolder, 'images/layers'))
