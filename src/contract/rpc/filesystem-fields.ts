/** The messages of filesystem.proto for their JSON form; `message-fields.test.ts` compares them with what is generated. */
import {
  empty,
  list,
  MessageFields,
  type MethodFields,
  NamedValues,
  oneOf,
  optional,
  texts,
} from './message-fields.ts'

export const FileType = { UNSPECIFIED: 0, FILE: 1, DIRECTORY: 2, SYMLINK: 3 } as const
export const EventType = { UNSPECIFIED: 0, CREATE: 1, WRITE: 2, REMOVE: 3, RENAME: 4, CHMOD: 5 } as const

const fileType = prefixed('FILE_TYPE_', FileType)
const eventType = prefixed('EVENT_TYPE_', EventType)

function prefixed(prefix: string, numbers: Record<string, number>): NamedValues {
  return new NamedValues(
    Object.fromEntries(Object.entries(numbers).map(([name, number]) => [prefix + name, number])),
  )
}

const entry = new MessageFields({
  name: 'string',
  type: fileType,
  path: 'string',
  size: 'int64',
  mode: 'uint32',
  permissions: 'string',
  owner: 'string',
  group: 'string',
  modifiedTime: optional('timestamp'),
  symlinkTarget: optional('string'),
  metadata: texts,
  isSymlink: 'bool',
})
const event = new MessageFields({ name: 'string', type: eventType, entry })
const path = new MessageFields({ path: 'string' })
const described = new MessageFields({ entry })
const watcher = new MessageFields({ watcherId: 'string' })
const watch = new MessageFields({
  path: 'string',
  recursive: 'bool',
  includeEntry: 'bool',
  allowNetworkMounts: 'bool',
})

export const filesystemMethods = {
  stat: { name: 'Stat', kind: 'unary', input: path, output: described },
  makeDir: { name: 'MakeDir', kind: 'unary', input: path, output: described },
  move: {
    name: 'Move',
    kind: 'unary',
    output: described,
    input: new MessageFields({ source: 'string', destination: 'string' }),
  },
  listDir: {
    name: 'ListDir',
    kind: 'unary',
    input: new MessageFields({ path: 'string', depth: 'uint32' }),
    output: new MessageFields({ entries: list(entry) }),
  },
  remove: { name: 'Remove', kind: 'unary', input: path, output: empty },
  watchDir: {
    name: 'WatchDir',
    kind: 'server_streaming',
    input: watch,
    output: new MessageFields({ event: oneOf({ start: empty, filesystem: event, keepalive: empty }) }),
  },
  createWatcher: { name: 'CreateWatcher', kind: 'unary', input: watch, output: watcher },
  getWatcherEvents: {
    name: 'GetWatcherEvents',
    kind: 'unary',
    input: watcher,
    output: new MessageFields({ events: list(event) }),
  },
  removeWatcher: { name: 'RemoveWatcher', kind: 'unary', input: watcher, output: empty },
} satisfies Record<string, MethodFields>
