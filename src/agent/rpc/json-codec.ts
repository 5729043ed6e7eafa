/** Messages as JSON, by the rules of Protobuf, in the shapes of the generated types. */
import {
  type MessageField,
  MessageFields,
  NamedValues,
  type ValueKind,
} from '../../contract/rpc/message-fields.ts'
import { RpcError } from './rpc-error.ts'

export type PlainMessage = Record<string, unknown>
type Selected = { case?: string; value?: unknown }

const largestUint32 = 0xffff_ffff
const base64 = /^[\w+/-]*={0,2}$/
/** From the year 1 to the year 9999; the wire has no other times. */
const firstSecond = -62_135_596_800
const lastSecond = 253_402_300_799

/** Ignores unknown fields. */
export function fromJSON(message: MessageFields, json: unknown, where = 'the message'): PlainMessage {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) throw unexpected('an object', where)
  const result: PlainMessage = {}
  for (const field of message.fields) if (field.form !== 'optional') result[field.name] = zeroOf(field)
  for (const choice of message.choices) result[choice] = { case: undefined }
  for (const [name, value] of Object.entries(json)) {
    const field = message.byName.get(name)
    if (!field || value === null) continue
    const read = readField(field, value)
    if (read === undefined) continue
    if (field.choice === undefined) result[field.name] = read
    else if ((result[field.choice] as Selected).case === undefined)
      result[field.choice] = { case: field.name, value: read }
    else throw unexpected(`only one ${field.choice}`, where)
  }
  return result
}

function zeroOf({ form, kind }: MessageField): unknown {
  if (form === 'list') return []
  if (form === 'texts') return {}
  if (kind === 'string') return ''
  if (kind === 'bool') return false
  return 0
}

function readField({ name, form, kind }: MessageField, value: unknown): unknown {
  if (form === 'list') {
    if (!Array.isArray(value)) throw unexpected('a list', name)
    return value.map((item) => readValue(kind, item, name))
  }
  if (form !== 'texts') return readValue(kind, value, name)
  if (typeof value !== 'object' || Array.isArray(value)) throw unexpected('an object', name)
  // Not by assignment: a key may have a special meaning for objects.
  return Object.fromEntries(
    Object.entries(value as object).map(([key, text]) => [key, readValue('string', text, name)]),
  )
}

function readValue(kind: ValueKind, value: unknown, where: string): unknown {
  if (kind instanceof MessageFields) return fromJSON(kind, value, where)
  if (kind instanceof NamedValues) return readName(kind, value, where)
  switch (kind) {
    case 'string':
      if (typeof value === 'string') return value
      throw unexpected('a text', where)
    case 'bool':
      if (typeof value === 'boolean') return value
      throw unexpected('true or false', where)
    case 'uint32':
      return readUint32(value, where)
    case 'bytes':
      return readBytes(value, where)
    default:
      // Only answers have the other kinds.
      throw unexpected('nothing', where)
  }
}

/** Undefined for an unknown name, which is ignored like an unknown field. */
function readName({ numbers }: NamedValues, value: unknown, where: string): number | undefined {
  if (typeof value === 'string') return numbers.get(value)
  if (Number.isInteger(value)) return value as number
  throw unexpected('a name', where)
}

function readUint32(value: unknown, where: string): number {
  const number = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
  if (Number.isInteger(number) && (number as number) >= 0 && (number as number) <= largestUint32)
    return number as number
  throw unexpected('a whole number', where)
}

function readBytes(value: unknown, where: string): Buffer {
  if (typeof value === 'string' && value.length % 4 !== 1 && base64.test(value)) {
    return Buffer.from(value, 'base64')
  }
  throw unexpected('base64', where)
}

function unexpected(wanted: string, where: string): RpcError {
  return new RpcError('invalid_argument', `the message cannot be read: ${where} must be ${wanted}`)
}

/** The object that `JSON.stringify` turns into the message. */
export function toJSON(message: MessageFields, values: PlainMessage): PlainMessage {
  const result: PlainMessage = {}
  for (const { name, form, kind, choice } of message.fields) {
    const value = choice === undefined ? values[name] : selected(values[choice] as Selected, name)
    if (value === undefined || (form !== 'optional' && isZero(value))) continue
    if (form === 'list') result[name] = (value as unknown[]).map((item) => writeValue(kind, item))
    else result[name] = form === 'texts' ? value : writeValue(kind, value)
  }
  return result
}

function selected(choice: Selected | undefined, name: string): unknown {
  return choice?.case === name ? choice.value : undefined
}

function isZero(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0
  return value === '' || value === 0 || value === false || value === 0n
}

function writeValue(kind: ValueKind, value: unknown): unknown {
  if (kind instanceof MessageFields) return toJSON(kind, value as PlainMessage)
  if (kind instanceof NamedValues) return kind.names.get(value as number) ?? value
  if (kind === 'bytes') return base64Of(value as Uint8Array)
  if (kind === 'int64') return String(value)
  if (kind === 'timestamp') return timeText(value as { seconds: bigint; nanos: number })
  return value
}

function base64Of(bytes: Uint8Array): string {
  const { buffer, byteOffset, length } = bytes
  return (Buffer.isBuffer(bytes) ? bytes : Buffer.from(buffer, byteOffset, length)).toString('base64')
}

/** Undefined for a time that the wire cannot represent: it is left out. */
function timeText({ seconds, nanos }: { seconds: bigint; nanos: number }): string | undefined {
  if (seconds < firstSecond || seconds > lastSecond) return undefined
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, -'.000Z'.length)
  if (nanos === 0) return `${whole}Z`
  const digits = String(nanos).padStart(9, '0')
  return `${whole}.${digits.replace(/(?:000){1,2}$/, '')}Z`
}
