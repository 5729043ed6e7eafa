/** Images over a temporary folder, with what a test needs to look at them. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { PulledImage, RegistryCredentials } from '../core/ports/images.ts'
import { type ClosableImages, createImages, type ImagesOptions } from './images.ts'
import { type FakeRegistry, startRegistry } from './registry-fixture.ts'

export type TestImages = {
  images: ClosableImages
  folder: string
  lines: string[]
  pull(
    reference: string,
    credentials?: RegistryCredentials,
    signal?: AbortSignal,
    owner?: string,
  ): Promise<PulledImage>
}

export async function testImages(t: TestContext, options: Partial<ImagesOptions> = {}): Promise<TestImages> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'warren-images-'))
  const defaults = { folder, ownerShift: 0, allowPrivateRegistries: ['127.0.0.1'] }
  const images = await createImages({ ...defaults, ...options })
  t.after(async () => {
    await images.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const lines: string[] = []
  return {
    images,
    folder,
    lines,
    pull: (reference, credentials, signal = new AbortController().signal, owner = 'somebody') =>
      images.pull(reference, {
        owner,
        onProgress: (line) => lines.push(line),
        signal,
        ...(credentials && { credentials }),
      }),
  }
}

export async function testRegistry(
  t: TestContext,
  tls?: { key: string; cert: string },
): Promise<FakeRegistry> {
  const registry = await startRegistry(tls)
  t.after(() => registry.close())
  return registry
}
