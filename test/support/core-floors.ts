/** The floors of core, from the ground up: each folder with the folders below it that it may import. */
import { posix } from 'node:path'

export const mayImportInCore: Record<string, readonly string[]> = {
  ports: [],
  'network-policy': ['ports'],
  team: [],
  secret: ['ports', 'team'],
  volume: ['ports', 'team'],
  template: ['ports', 'team'],
  'sandbox/row': ['ports', 'network-policy', 'team', 'volume'],
  'sandbox/network': ['ports', 'network-policy', 'sandbox/row'],
  'sandbox/snapshots': ['ports', 'template', 'sandbox/row'],
  'sandbox/monitoring': ['ports', 'sandbox/row', 'sandbox/network'],
  'sandbox/capacity': ['ports', 'sandbox/row', 'sandbox/network'],
  'sandbox/launch': ['ports', 'volume', 'template', 'sandbox/row', 'sandbox/network', 'sandbox/snapshots'],
  'sandbox/warm-pool': ['ports', 'template', 'sandbox/capacity', 'sandbox/launch'],
  'sandbox/builds': ['ports', 'template', 'sandbox/row', 'sandbox/snapshots', 'sandbox/launch'],
  'sandbox/verbs': [
    'ports',
    'network-policy',
    'team',
    'volume',
    'template',
    'sandbox/row',
    'sandbox/network',
    'sandbox/snapshots',
    'sandbox/capacity',
    'sandbox/launch',
    'sandbox/warm-pool',
  ],
  sandbox: [
    'ports',
    'team',
    'volume',
    'template',
    'sandbox/row',
    'sandbox/network',
    'sandbox/snapshots',
    'sandbox/capacity',
    'sandbox/launch',
    'sandbox/warm-pool',
    'sandbox/verbs',
  ],
  event: ['sandbox/row'],
  'disk-space': ['ports', 'template', 'sandbox/row', 'sandbox/snapshots'],
  archive: ['ports', 'template', 'sandbox/row', 'sandbox/snapshots'],
  webhook: ['ports', 'team', 'secret', 'event'],
  cluster: ['ports', 'team', 'template', 'sandbox/row', 'sandbox/capacity', 'sandbox', 'archive'],
}

/** Empty for a file that lies beside the folders; undefined for one that is not core's. */
export function coreFolderOf(path: string): string | undefined {
  const folder = posix.dirname(path)
  return `${folder}/`.startsWith('src/core/') ? folder.slice('src/core/'.length) : undefined
}

/** For an import from one file of core to another. */
export function floorViolations(path: string, target: string): string[] {
  const from = coreFolderOf(path)
  const to = coreFolderOf(target)
  const below = mayImportInCore[from!]
  if (below === undefined) return [`${path} is in no folder of core: add it to the table of floors`]
  if (from === to || below.includes(to!)) return []
  const reason = 'what two folders share lies on a lower floor than both'
  return [`${path} imports ${target}; ${from} may import ${below.join(', ') || 'nothing'}: ${reason}`]
}
