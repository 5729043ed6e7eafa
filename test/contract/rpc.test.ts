/** The calls, fields and numbers that our agent speaks are those of the contract. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { DescFile, DescMessage } from '@bufbuild/protobuf'
import { file_filesystem } from '../../src/contract/rpc/filesystem_pb.ts'
import { file_process } from '../../src/contract/rpc/process_pb.ts'
import { calls, enums, messages } from './rpc.ts'

const files: Record<string, DescFile> = {
  'process.Process': file_process,
  'filesystem.Filesystem': file_filesystem,
}

const allMessages = (file: DescFile): DescMessage[] => {
  const withNested = (message: DescMessage): DescMessage[] => [
    message,
    ...message.nestedMessages.flatMap(withNested),
  ]
  return file.messages.flatMap(withNested)
}
const shortName = (typeName: string): string => typeName.slice(typeName.indexOf('.') + 1)

for (const [service, file] of Object.entries(files)) {
  describe(`the service ${service}`, () => {
    it('has the calls of the contract', () => {
      const [found] = file.services
      assert.equal(found?.typeName, service)
      const kinds = Object.fromEntries(
        found!.methods.map(({ name, methodKind, input, output }) => [
          name,
          {
            accepts: `${methodKind === 'client_streaming' ? 'stream ' : ''}${shortName(input.typeName)}`,
            gives: `${methodKind === 'server_streaming' ? 'stream ' : ''}${shortName(output.typeName)}`,
          },
        ]),
      )
      const wanted = Object.entries(calls[service]!).map(([name, { accepts, gives }]) => [
        name,
        { accepts, gives },
      ])
      assert.deepEqual(kinds, Object.fromEntries(wanted))
    })

    it('has the fields of the contract, each under its number', () => {
      const found = allMessages(file).map(({ typeName, fields }) => [
        shortName(typeName),
        fields.map(({ name, number }) => `${name}=${number}`).join(' '),
      ])
      const filled = found.filter(([, fields]) => fields !== '')
      assert.deepEqual(Object.fromEntries(filled), messages[service])
    })

    it('has the named values of the contract', () => {
      const found = file.enums.map(({ name, values }) => [
        name,
        values.map((value) => `${value.name}=${value.number}`).join(' '),
      ])
      assert.deepEqual(Object.fromEntries(found), enums[service])
    })
  })
}
