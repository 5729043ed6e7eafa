/** The messages of process.proto for their JSON form; `message-fields.test.ts` compares them with what is generated. */
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

export const Signal = { UNSPECIFIED: 0, SIGKILL: 9, SIGTERM: 15 } as const

const signal = new NamedValues({ SIGNAL_UNSPECIFIED: 0, SIGNAL_SIGKILL: 9, SIGNAL_SIGTERM: 15 })
const pty = new MessageFields({ size: new MessageFields({ cols: 'uint32', rows: 'uint32' }) })
const config = new MessageFields({
  cmd: 'string',
  args: list('string'),
  envs: texts,
  cwd: optional('string'),
})
const info = new MessageFields({ config, pid: 'uint32', tag: optional('string') })
const selector = new MessageFields({ selector: oneOf({ pid: 'uint32', tag: 'string' }) })
const input = new MessageFields({ input: oneOf({ stdin: 'bytes', pty: 'bytes' }) })
const event = new MessageFields({
  event: oneOf({
    start: new MessageFields({ pid: 'uint32' }),
    data: new MessageFields({ output: oneOf({ stdout: 'bytes', stderr: 'bytes', pty: 'bytes' }) }),
    end: new MessageFields({
      exitCode: 'sint32',
      exited: 'bool',
      status: 'string',
      error: optional('string'),
    }),
    keepalive: empty,
  }),
})
const start = new MessageFields({ process: config, pty, tag: optional('string'), stdin: optional('bool') })
const events = new MessageFields({ event })
const selected = new MessageFields({ process: selector })
const streamInput = new MessageFields({
  event: oneOf({ start: selected, data: new MessageFields({ input }), keepalive: empty }),
})

export const processMethods = {
  list: { name: 'List', kind: 'unary', input: empty, output: new MessageFields({ processes: list(info) }) },
  start: { name: 'Start', kind: 'server_streaming', input: start, output: events },
  connect: { name: 'Connect', kind: 'server_streaming', input: selected, output: events },
  update: {
    name: 'Update',
    kind: 'unary',
    input: new MessageFields({ process: selector, pty }),
    output: empty,
  },
  streamInput: { name: 'StreamInput', kind: 'client_streaming', input: streamInput, output: empty },
  sendInput: {
    name: 'SendInput',
    kind: 'unary',
    output: empty,
    input: new MessageFields({ process: selector, input }),
  },
  sendSignal: {
    name: 'SendSignal',
    kind: 'unary',
    output: empty,
    input: new MessageFields({ process: selector, signal }),
  },
  closeStdin: { name: 'CloseStdin', kind: 'unary', input: selected, output: empty },
} satisfies Record<string, MethodFields>
