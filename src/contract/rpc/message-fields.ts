/**
 * The fields of messages, as far as the JSON codec needs them. The generated descriptions have more, but with their
 * library they take a megabyte and many milliseconds in every sandbox.
 */

/** How a single value looks in JSON. */
export type ValueKind =
  | 'string'
  | 'bool'
  | 'uint32'
  | 'sint32'
  | 'int64'
  | 'bytes'
  | 'timestamp'
  | NamedValues
  | MessageFields

/** Names of the wire by their numbers. */
export class NamedValues {
  readonly numbers: ReadonlyMap<string, number>
  readonly names: ReadonlyMap<number, string>

  constructor(numbers: Record<string, number>) {
    const entries = Object.entries(numbers)
    this.numbers = new Map(entries)
    this.names = new Map(entries.map(([name, number]) => [number, name]))
  }
}

/**
 * `implicit`: a value that is left out is the zero of its kind, and the zero is left out. `optional`: it may be absent,
 * as every message may. `list`: any number of values. `texts`: texts by names.
 */
type FieldForm = 'implicit' | 'optional' | 'list' | 'texts'

export type MessageField = {
  /** In the message, and in JSON. */
  name: string
  kind: ValueKind
  form: FieldForm
  /** At most one field of a choice is set; the message holds it under the name of the choice. */
  choice: string | undefined
}

export class MessageFields {
  readonly fields: readonly MessageField[]
  readonly choices: readonly string[]
  /** By every name that clients may use: that of JSON, and that of the wire's definition. */
  readonly byName: ReadonlyMap<string, MessageField>

  constructor(fields: Record<string, FieldInit>) {
    this.fields = Object.entries(fields).flatMap(([name, init]) => fieldsOf(name, init))
    this.choices = [...new Set(this.fields.flatMap(({ choice }) => choice ?? []))]
    this.byName = new Map(
      this.fields.flatMap((field) => [
        [field.name, field],
        [snakeCase(field.name), field],
      ]),
    )
  }
}

type FieldInit = ValueKind | { form: Exclude<FieldForm, 'implicit'>; kind: ValueKind } | Choice
type Choice = { choice: Record<string, ValueKind> }

export const optional = (kind: ValueKind): FieldInit => ({ form: 'optional', kind })
export const list = (kind: ValueKind): FieldInit => ({ form: 'list', kind })
export const texts: FieldInit = { form: 'texts', kind: 'string' }
export const oneOf = (choice: Record<string, ValueKind>): FieldInit => ({ choice })

function fieldsOf(name: string, init: FieldInit): MessageField[] {
  if (typeof init === 'object' && 'choice' in init) {
    return Object.entries(init.choice).map(([member, kind]) => ({
      name: member,
      kind,
      form: 'optional',
      choice: name,
    }))
  }
  if (typeof init === 'object' && 'form' in init) return [{ name, ...init, choice: undefined }]
  return [
    { name, kind: init, form: init instanceof MessageFields ? 'optional' : 'implicit', choice: undefined },
  ]
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

export const empty = new MessageFields({})

type MethodKind = 'unary' | 'server_streaming' | 'client_streaming'
export type MethodFields = { name: string; kind: MethodKind; input: MessageFields; output: MessageFields }
