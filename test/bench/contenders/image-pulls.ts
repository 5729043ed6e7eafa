/** One image out of a registry onto the disk: by Warren's own code, and by skopeo and umoci. */
import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createProgress } from '../../../src/app/setup/progress.ts'
import { installSystemPackages } from '../../../src/app/setup/system-packages.ts'
import { createImages } from '../../../src/images/images.ts'
import { errorText } from '../../../src/lib/app-error.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { type Contender, timed } from '../measure.ts'

const step = 'pull and unpack'
export const warrenPull = 'warren'
export const toolsPull = 'skopeo and umoci'

/** All of it lies below the folder, and is gone after each try. */
export function pullContenders(reference: string, folder: string): Contender[] {
  const within = async <T>(work: (target: string) => Promise<T>): Promise<T> => {
    const target = mkdtempSync(join(folder, 'pull-'))
    try {
      return await work(target)
    } finally {
      await rm(target, { recursive: true, force: true })
    }
  }
  return [
    { name: warrenPull, sample: () => within((target) => pullByWarren(reference, target)) },
    { name: toolsPull, sample: () => within((target) => pullByTools(reference, target)) },
  ]
}

async function pullByWarren(reference: string, target: string): Promise<Record<string, number>> {
  const images = await createImages({
    folder: target,
    ownerShift: 100_000,
    allowPrivateRegistries: ['127.0.0.1'],
  })
  try {
    const options = { owner: 'bench', onProgress: () => {}, signal: new AbortController().signal }
    const [ms] = await timed(() => images.pull(reference, options))
    return { [step]: ms }
  } finally {
    // Brings it to the disk as well: not part of the figure, as the tools do not do it.
    await images.close()
  }
}

async function pullByTools(reference: string, target: string): Promise<Record<string, number>> {
  const umoci = { package: 'umoci', file: 'umoci', why: 'unpacks the image that ours is held against' }
  await installSystemPackages([umoci], createProgress(process.stderr)).catch((error) => {
    throw new Error(`umoci is not to be had here: ${errorText(error)}`)
  })
  const layout = join(target, 'layout:image')
  const access = ['--insecure-policy', 'copy', '--quiet', '--src-tls-verify=false']
  const [copied] = await timed(() =>
    runCommand('skopeo', [...access, `docker://${reference}`, `oci:${layout}`]),
  )
  const [unpacked] = await timed(() =>
    runCommand('umoci', ['unpack', '--image', layout, join(target, 'bundle')]),
  )
  return { [step]: copied + unpacked, 'skopeo copy': copied, 'umoci unpack': unpacked }
}
