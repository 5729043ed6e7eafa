/** How messages are written: as JSON, or in the binary form of Protobuf. */
import type { MethodFields } from '../../contract/rpc/message-fields.ts'
import { errorText } from '../../lib/app-error.ts'
import { fromJSON, type PlainMessage, toJSON } from './json-codec.ts'
import { RpcError } from './rpc-error.ts'

export type RpcMethod = MethodFields & { service: string }

export type Codec = {
  type: 'json' | 'proto'
  decode(method: RpcMethod, bytes: Buffer): PlainMessage
  /** As text with one character for each byte. */
  encode(method: RpcMethod, message: PlainMessage): string
}

const json: Codec = {
  type: 'json',
  decode: ({ input }, bytes) => fromJSON(input, parse(bytes.toString())),
  encode: ({ output }, message) => byteText(JSON.stringify(toJSON(output, message))),
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new RpcError('invalid_argument', `the message is not JSON: ${errorText(error)}`)
  }
}

/** Most texts have no character beyond ASCII, and are the text of their bytes already. */
export function byteText(text: string): string {
  return Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1')
}

const contentType = /^application\/(connect\+)?(?:(json)(?:; ?charset=utf-?8)?|proto)$/i

/** What a content type says of the messages; undefined for one that is not for calls of this kind. */
export function codecNameOf(type: string | undefined, isStream: boolean): Codec['type'] | undefined {
  const match = contentType.exec(type ?? '')
  if (!match || (match[1] !== undefined) !== isStream) return undefined
  return match[2] === undefined ? 'proto' : 'json'
}

/** The library for the binary form is loaded for the few who use it. */
export async function loadCodec(type: Codec['type']): Promise<Codec> {
  return type === 'json' ? json : (await import('./proto-codec.ts')).protoCodec
}
