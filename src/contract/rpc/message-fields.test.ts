/** The fields written by hand are those of the generated descriptions. */
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { type DescField, type DescMessage, type DescService, ScalarType } from '@bufbuild/protobuf'
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt'
import { Filesystem } from './filesystem_pb.ts'
import { filesystemMethods } from './filesystem-fields.ts'
import { type MessageField, MessageFields, type MethodFields, NamedValues } from './message-fields.ts'
import { Process } from './process_pb.ts'
import { processMethods } from './process-fields.ts'

type Summary = Record<string, unknown>

function generated(message: DescMessage): Summary {
  return Object.fromEntries(message.fields.map((field) => [field.jsonName, generatedField(field)]))
}

function generatedField(field: DescField): Summary {
  const scalar = (type: ScalarType) => ScalarType[type].toLowerCase()
  const kind = (): unknown => {
    if (field.message) {
      return field.message.typeName === 'google.protobuf.Timestamp' ? 'timestamp' : generated(field.message)
    }
    if (field.enum) return Object.fromEntries(field.enum.values.map(({ name, number }) => [name, number]))
    return scalar(field.scalar!)
  }
  const choice = field.oneof?.localName
  const names = [field.localName, field.name]
  if (field.fieldKind === 'list') return { form: 'list', kind: kind(), choice, names }
  if (field.fieldKind === 'map') return { form: 'texts', kind: scalar(field.scalar!), choice, names }
  return {
    form: field.presence === FeatureSet_FieldPresence.IMPLICIT ? 'implicit' : 'optional',
    kind: kind(),
    choice,
    names,
  }
}

function written(message: MessageFields): Summary {
  return Object.fromEntries(message.fields.map((field) => [field.name, writtenField(message, field)]))
}

function writtenField({ byName }: MessageFields, field: MessageField): Summary {
  const { name, form, kind, choice } = field
  const names = [...byName].filter(([, found]) => found === field).map(([known]) => known)
  const shown =
    kind instanceof MessageFields
      ? written(kind)
      : kind instanceof NamedValues
        ? Object.fromEntries(kind.numbers)
        : kind
  return { form, kind: shown, choice, names: names.length === 1 ? [name, name] : names }
}

const services: [DescService, Record<string, MethodFields>][] = [
  [Process, processMethods],
  [Filesystem, filesystemMethods],
]

for (const [service, methods] of services) {
  suite(`the methods of ${service.typeName}`, () => {
    test('all exist, by their names and kinds', () => {
      assert.deepEqual(
        Object.entries(methods).map(([localName, { name, kind }]) => [localName, name, kind]),
        service.methods.map(({ localName, name, methodKind }) => [localName, name, methodKind]),
      )
    })

    for (const { localName, name, input, output } of service.methods) {
      test(`${name} takes and gives the same fields`, () => {
        assert.deepEqual(written(methods[localName]!.input), generated(input))
        assert.deepEqual(written(methods[localName]!.output), generated(output))
      })
    }
  })
}
