/** How messages are written: as JSON, or in the binary form of Protobuf. */
import {
  create,
  type DescMessage,
  fromBinary,
  fromJson,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
  toBinary,
  toJsonString,
} from '@bufbuild/protobuf'
import { errorText } from '../../lib/app-error.ts'
import { RpcError } from './rpc-error.ts'

export type Codec = {
  type: 'json' | 'proto'
  decode<T extends DescMessage>(schema: T, bytes: Buffer): MessageShape<T>
  /** As text with one character for each byte. */
  encode<T extends DescMessage>(schema: T, message: MessageInitShape<T>): string
}

const json: Codec = {
  type: 'json',
  decode(schema, bytes) {
    try {
      return fromJson(schema, JSON.parse(bytes.toString()) as JsonValue, { ignoreUnknownFields: true })
    } catch (error) {
      throw new RpcError('invalid_argument', errorText(error))
    }
  },
  encode: (schema, message) => byteText(toJsonString(schema, create(schema, message))),
}

const proto: Codec = {
  type: 'proto',
  decode(schema, bytes) {
    try {
      return fromBinary(schema, bytes)
    } catch (error) {
      throw new RpcError('invalid_argument', errorText(error))
    }
  },
  encode(schema, message) {
    const { buffer, byteOffset, length } = toBinary(schema, create(schema, message))
    return Buffer.from(buffer, byteOffset, length).toString('latin1')
  },
}

/** Most texts have no character beyond ASCII, and are the text of their bytes already. */
export function byteText(text: string): string {
  return Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1')
}

const contentType = /^application\/(connect\+)?(?:(json)(?:; ?charset=utf-?8)?|proto)$/i

/** The codec that a content type names; undefined for one that is not for calls of this kind. */
export function codecOf(type: string | undefined, isStream: boolean): Codec | undefined {
  const match = contentType.exec(type ?? '')
  if (!match || (match[1] !== undefined) !== isStream) return undefined
  return match[2] === undefined ? proto : json
}
