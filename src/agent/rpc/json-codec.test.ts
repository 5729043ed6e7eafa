/** What we read and write as JSON is what the Protobuf library reads and writes. */
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import {
  create,
  type DescMessage,
  equals,
  fromJson,
  type JsonValue,
  type MessageInitShape,
  toJson,
} from '@bufbuild/protobuf'
import { Filesystem } from '../../contract/rpc/filesystem_pb.ts'
import { filesystemMethods } from '../../contract/rpc/filesystem-fields.ts'
import type { MessageFields } from '../../contract/rpc/message-fields.ts'
import { Process } from '../../contract/rpc/process_pb.ts'
import { processMethods } from '../../contract/rpc/process-fields.ts'
import { fromJSON, type PlainMessage, toJSON } from './json-codec.ts'
import { RpcError } from './rpc-error.ts'

const start = { fields: processMethods.start.input, schema: Process.method.start.input }

/** Both readers make the same of it. */
function reads({ fields, schema }: { fields: MessageFields; schema: DescMessage }, json: JsonValue): void {
  const ours = create(schema, fromJSON(fields, json) as MessageInitShape<DescMessage>)
  const theirs = fromJson(schema, json, { ignoreUnknownFields: true })
  assert.ok(equals(schema, ours, theirs), JSON.stringify(json))
}

function writes(fields: MessageFields, schema: DescMessage, message: PlainMessage): void {
  const theirs = toJson(schema, create(schema, message as MessageInitShape<DescMessage>))
  assert.deepEqual(JSON.parse(JSON.stringify(toJSON(fields, message))), theirs)
}

suite('reading', () => {
  test('fills in missing fields, and ignores unknown and null ones', () => {
    const readable: JsonValue[] = [
      {},
      { process: {}, unknown: [1, { x: 2 }] },
      { process: { cmd: 'a', args: ['-l', 'ż'], envs: { A: 'b', constructor: 'c' }, cwd: '' }, stdin: false },
      { process: null, pty: { size: { cols: 80, rows: '24' } }, tag: 't', stdin: null },
    ]
    for (const json of readable) reads(start, json)
  })

  test('takes both names of a field, names and numbers of enum values, and both alphabets of base64', () => {
    const watch = { fields: filesystemMethods.watchDir.input, schema: Filesystem.method.watchDir.input }
    reads(watch, { path: '/', include_entry: true, allowNetworkMounts: true })
    const signal = { fields: processMethods.sendSignal.input, schema: Process.method.sendSignal.input }
    for (const value of ['SIGNAL_SIGKILL', 9, 3, 'SIGNAL_NONE'])
      reads(signal, { process: { pid: 7 }, signal: value })
    const input = { fields: processMethods.sendInput.input, schema: Process.method.sendInput.input }
    for (const stdin of ['', 'AA==', 'AA', '-_8=', '+/8', 'SGVsbG8'])
      reads(input, { process: { tag: 'x' }, input: { stdin } })
  })

  test('keeps a variable whose name has a meaning in JavaScript objects', () => {
    const json = JSON.parse('{"process":{"cmd":"x","envs":{"__proto__":"kept"}}}')
    const { envs } = fromJSON(start.fields, json).process as { envs: Record<string, string> }
    assert.deepEqual(Object.entries(envs), [['__proto__', 'kept']])
  })

  test('rejects the messages that the library rejects', () => {
    const process = { cmd: 'x' }
    const wrong: JsonValue[] = [
      [],
      'text',
      null,
      { process: 'x' },
      { process: { cmd: 1 } },
      { process: { args: 'x' } },
      { process: { args: [null] } },
      { process: { args: [['x']] } },
      { process: { envs: [] } },
      { process: { envs: { A: 1 } } },
      { process, stdin: 'true' },
      { process, pty: { size: { cols: -1 } } },
      { process, pty: { size: { cols: 1.5 } } },
      { process, pty: { size: { cols: 2 ** 32 } } },
      { process, pty: { size: { cols: 'many' } } },
    ]
    for (const json of wrong) {
      assert.throws(() => fromJson(start.schema, json), Error, JSON.stringify(json))
      assert.throws(() => fromJSON(start.fields, json), RpcError, JSON.stringify(json))
    }
    const { input } = processMethods.sendInput
    const wrongInput: JsonValue[] = [
      { process: { pid: 1, tag: 'x' } },
      { input: { stdin: 'A' } },
      { input: { stdin: 5 } },
      { input: { pty: 'ż' } },
    ]
    for (const json of wrongInput) {
      assert.throws(() => fromJson(Process.method.sendInput.input, json), Error, JSON.stringify(json))
      assert.throws(() => fromJSON(input, json), RpcError, JSON.stringify(json))
    }
  })
})

suite('writing', () => {
  const events = processMethods.start.output
  const schema = Process.method.start.output

  test('writes every event of a process', () => {
    const bytes = Buffer.from([0, 255, 128, 10])
    for (const event of [
      { case: 'start', value: { pid: 12 } },
      { case: 'data', value: { output: { case: 'stdout', value: bytes } } },
      { case: 'data', value: { output: { case: 'stderr', value: new Uint8Array(bytes) } } },
      { case: 'data', value: { output: { case: 'pty', value: Buffer.alloc(0) } } },
      { case: 'end', value: { exitCode: 0, exited: true, status: 'exit status 0' } },
      { case: 'end', value: { exitCode: -1, exited: false, status: 'x', error: '' } },
      { case: 'keepalive', value: {} },
      { case: undefined },
    ])
      writes(events, schema, { event: { event } })
    writes(events, schema, {})
  })

  test('writes entries with their times to the nanosecond, large sizes and metadata', () => {
    const { output } = filesystemMethods.listDir
    for (const [seconds, nanos] of [
      [0n, 0],
      [1_700_000_000n, 120_000_000],
      [1_700_000_000n, 123_456_000],
      [1_700_000_000n, 1],
      [1_700_000_000n, 1_000_000],
      [-1n, 999_999_999],
      [253_402_300_799n, 0],
      [-62_135_596_800n, 0],
    ] as const) {
      const entry = {
        name: 'ż',
        type: 2,
        path: '/ż',
        size: 9_007_199_254_740_993n,
        mode: 0o644,
        permissions: '-rw',
        owner: 'root',
        group: 'root',
        modifiedTime: { seconds, nanos },
        isSymlink: true,
        symlinkTarget: '',
        metadata: { a: 'b' },
      }
      writes(output, Filesystem.method.listDir.output, { entries: [entry, { type: 7, size: 0n }] })
    }
    writes(output, Filesystem.method.listDir.output, { entries: [] })
  })

  test('leaves out a time that the protocol cannot represent', () => {
    const entry = { name: 'x', modifiedTime: { seconds: 253_402_300_800n, nanos: 0 } }
    const { output } = filesystemMethods.stat
    assert.equal(JSON.stringify(toJSON(output, { entry })), '{"entry":{"name":"x"}}')
  })

  test('writes lists of processes and changes in folders', () => {
    writes(processMethods.list.output, Process.method.list.output, {
      processes: [{ config: { cmd: 'x', args: [], envs: {} }, pid: 3, tag: '' }, { pid: 0 }],
    })
    writes(filesystemMethods.watchDir.output, Filesystem.method.watchDir.output, {
      event: { case: 'filesystem', value: { name: 'a/b', type: 1, entry: { name: 'b' } } },
    })
  })
})
