/** Ports of a domain that builds no templates and keeps no logs. */
import type { DomainPorts } from '../../src/app/domain/domain-ports.ts'
import { AppError } from '../../src/lib/app-error.ts'

const unused = () => Promise.reject(new AppError('internal', 'No templates are built here.'))

export const noBuilds: Pick<
  DomainPorts,
  'images' | 'buildFiles' | 'createBuilder' | 'logs' | 'recipes' | 'appendLog'
> = {
  images: {
    prune: async () => ({ count: 0, bytes: 0 }),
    missing: () => [],
    digestOf: async () => 'sha256:one',
  },
  buildFiles: { has: unused, write: unused, open: unused, list: async () => [], remove: () => false },
  createBuilder: () => ({ run: unused }),
  logs: {
    append: async () => {},
    prune: async () => {},
    read: async () => [],
    newest: async () => [],
    lastSequence: async () => 0,
  },
  recipes: [],
  appendLog: () => {},
}

/** Ports of a domain whose sandboxes need nothing of the network. */
export const noEgress: Pick<DomainPorts, 'gate' | 'authority' | 'extraCA' | 'lookup' | 'isClosed'> = {
  gate: undefined,
  authority: undefined,
  extraCA: undefined,
  lookup: async () => ['198.51.100.1'],
  isClosed: () => false,
}
