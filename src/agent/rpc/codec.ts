/** The encoding of messages: JSON, or the binary form of Protobuf. */
import type { MethodFields } from '../../contract/rpc/message-fields.ts'
import type { PlainMessage } from './json-codec.ts'

export type RpcMethod = MethodFields & { service: string }

export type Codec = {
  type: 'json' | 'proto'
  decode(method: RpcMethod, bytes: Buffer): PlainMessage
  /** Returns text with one character for each byte. */
  encode(method: RpcMethod, message: PlainMessage): string
}

/** Most texts are ASCII only, and so are the text of their bytes already. */
export function byteText(text: string): string {
  return Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1')
}

const contentType = /^application\/(connect\+)?(?:(json)(?:; ?charset=utf-?8)?|proto)$/i

/** The encoding that a content type names; undefined if it is not for calls of this kind. */
export function codecNameOf(type: string | undefined, isStream: boolean): Codec['type'] | undefined {
  const match = contentType.exec(type ?? '')
  if (!match || (match[1] !== undefined) !== isStream) return undefined
  return match[2] === undefined ? 'proto' : 'json'
}
