import { errorText } from '../../lib/app-error.ts'
import { byteText, type Codec } from './codec.ts'
import { fromJSON, toJSON } from './json-codec.ts'
import { RpcError } from './rpc-error.ts'

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

/** Loads the library for the binary form only for the few clients that use it. */
export async function loadCodec(type: Codec['type']): Promise<Codec> {
  return type === 'json' ? json : (await import('./proto-codec.ts')).protoCodec
}
