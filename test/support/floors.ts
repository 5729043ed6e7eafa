/** The floors inside large rooms: which folder may import which, so that arrows run down only. */
import { posix } from 'node:path'

/**
 * By room: each of its folders, from the ground up, with the folders below it that it may import. `.` stands for the files
 * that lie beside the folders.
 */
export const floorsOf: Record<string, Record<string, readonly string[]>> = {
  'src/core': {
    ports: [],
    'network-policy': ['ports'],
    audit: [],
    person: [],
    team: ['person'],
    secret: ['ports', 'team'],
    'sign-in': ['person', 'team', 'secret'],
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
    usage: ['team'],
    'disk-space': ['ports', 'template', 'sandbox/row', 'sandbox/snapshots'],
    'object-storage': ['ports', 'template', 'sandbox/row', 'sandbox/snapshots'],
    webhook: ['ports', 'team', 'secret', 'event'],
    cluster: ['ports', 'team', 'template', 'sandbox/row', 'sandbox/capacity', 'sandbox', 'object-storage'],
  },
  'src/app': {
    data: [],
    process: ['data'],
    project: [],
    setup: ['project'],
    isolation: ['data', 'process', 'setup'],
    config: ['isolation'],
    commands: ['data', 'process', 'project', 'config'],
    machine: ['data', 'process', 'project', 'setup', 'isolation', 'config'],
    trust: ['config'],
    doors: ['data', 'process', 'trust'],
    storage: ['data', 'process', 'setup', 'isolation', 'config'],
    'agent-kit': ['project', 'setup'],
    templates: ['project'],
    doctor: ['data', 'setup', 'isolation', 'config', 'commands', 'machine', 'trust', 'doors', 'storage'],
    telemetry: ['process', 'project', 'config'],
    domain: ['telemetry'],
    acme: ['process', 'config', 'trust', 'doors', 'domain'],
    ports: [
      ...[
        'data',
        'process',
        'isolation',
        'config',
        'machine',
        'trust',
        'doors',
        'storage',
        'templates',
        'telemetry',
      ],
      'domain',
    ],
    cluster: ['data', 'process', 'project', 'isolation', 'config', 'doors', 'domain', 'ports'],
    reports: ['project', 'isolation', 'config', 'doctor', 'telemetry'],
    start: [
      ...[
        'data',
        'process',
        'project',
        'setup',
        'isolation',
        'config',
        'machine',
        'trust',
        'doors',
        'storage',
        'agent-kit',
      ],
      ...['telemetry', 'domain', 'acme', 'ports', 'cluster', 'reports'],
    ],
    '.': ['process', 'project', 'config', 'commands', 'doctor', 'start'],
    bundle: ['project', '.'],
    client: ['project', 'config', 'commands'],
    release: ['project', 'setup', 'commands', 'config'],
  },
  'src/store': {
    database: [],
    usage: ['database'],
    snapshot: ['database'],
    event: ['database', 'usage'],
    template: ['database', 'usage', 'snapshot'],
    sandbox: ['database', 'usage', 'snapshot', 'template', 'event'],
    objects: ['database', 'template', 'sandbox'],
    audit: ['database'],
    person: ['database', 'usage'],
    'sign-in': ['database', 'person'],
    team: ['database', 'usage', 'sandbox', 'person'],
    volume: ['database', 'usage', 'sandbox'],
    secret: ['database', 'usage'],
    node: ['database', 'usage', 'template', 'sandbox', 'objects', 'volume'],
    migrations: ['database', 'sandbox'],
    '.': [
      ...[
        'database',
        'snapshot',
        'template',
        'event',
        'sandbox',
        'migrations',
        'audit',
        'person',
        'sign-in',
        'team',
        'objects',
        'volume',
        'node',
        'usage',
      ],
      'secret',
    ],
  },
  'src/drivers': {
    fake: [],
    'host/record': [],
    'host/device': ['host/record'],
    'host/process': ['host/record'],
    'host/namespace': [],
    'host/disk': ['host/record', 'host/process', 'host/namespace'],
    'host/network': ['host/record', 'host/namespace'],
    'host/slot': ['host/record', 'host/namespace', 'host/disk', 'host/network'],
    'oci/runtime': ['host/record', 'host/device', 'host/process', 'host/namespace', 'host/disk'],
    'oci/context': [
      'host/record',
      'host/device',
      'host/process',
      'host/namespace',
      'host/disk',
      'host/network',
      'host/slot',
      'oci/runtime',
    ],
    'oci/snapshot': ['host/record', 'host/device', 'host/process', 'host/disk', 'oci/runtime', 'oci/context'],
    'oci/lifecycle': [
      'host/record',
      'host/device',
      'host/process',
      'host/namespace',
      'host/disk',
      'host/network',
      'host/slot',
      'oci/runtime',
      'oci/context',
      'oci/snapshot',
    ],
    'oci/machine': [
      'host/namespace',
      'host/record',
      'host/device',
      'host/process',
      'host/disk',
      'host/network',
      'oci/runtime',
      'oci/context',
      'oci/lifecycle',
    ],
    oci: [
      'host/record',
      'host/device',
      'host/process',
      'host/disk',
      'host/network',
      'oci/runtime',
      'oci/context',
      'oci/snapshot',
      'oci/lifecycle',
      'oci/machine',
    ],
  },
}

/** Undefined: the file is in no room that has floors. */
function floorOf(path: string): { floors: string; folder: string } | undefined {
  const floors = Object.keys(floorsOf).find((each) => path.startsWith(`${each}/`))
  return floors === undefined
    ? undefined
    : { floors, folder: posix.relative(floors, posix.dirname(path)) || '.' }
}

/** For a file whose folder the table does not name. */
export function missingFloor(path: string): string[] {
  const at = floorOf(path)
  if (!at || at.folder in floorsOf[at.floors]!) return []
  return [`${path} is on no floor of ${at.floors}: add ${at.folder} to the table of floors`]
}

/** For an import that the table does not allow. */
export function arrowsUp(path: string, target: string): string[] {
  const from = floorOf(path)
  const to = floorOf(target)
  if (!from || from.floors !== to?.floors || from.folder === to.folder) return []
  const below = floorsOf[from.floors]![from.folder] ?? []
  if (below.includes(to.folder)) return []
  const reason = 'what two folders share lies on a lower floor than both'
  return [
    `${path} imports ${target}; ${from.folder} may import ${below.join(', ') || 'no other folder'}: ${reason}`,
  ]
}
