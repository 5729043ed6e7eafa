import { join } from 'node:path'
import type { Images } from '../../core/ports/images.ts'
import type { PackStore } from '../../core/ports/object-store.ts'
import type { TemplateStore } from '../../core/template/template-store.ts'
import { type ClosableImages, createImages } from '../../images/images.ts'
import type { Log } from '../../lib/log.ts'
import type { Config } from '../config/config.ts'
import type { DataPaths } from '../data/data-folder.ts'
import { sandboxOwner } from '../isolation/sandbox-owner.ts'

export async function openImages(
  config: Config,
  paths: DataPaths,
  extraCA: string | undefined,
  packs: PackStore | undefined,
  log: Log,
): Promise<ClosableImages> {
  return createImages({
    folder: join(paths.root, 'images'),
    ownerShift: sandboxOwner,
    mirrors: config.registryMirrors,
    allowPrivateRegistries: config.privateRegistries,
    insecureRegistries: config.insecureRegistries,
    certificateAuthorities: extraCA === undefined ? [] : [extraCA],
    ...(packs && { packs }),
    log,
  })
}

/** A client that starts a sandbox on such a template gets an error; the operator should know before. */
export async function warnOfMissingLayers(templates: TemplateStore, images: Images, log: Log): Promise<void> {
  const missing = images.missing(await templates.listLayers())
  if (missing.length === 0) return
  const text = `${missing.length} image layers that templates stand on are not on this machine: build these templates again`
  log.warn({ missing }, text)
}
