import { create, type DescMethod, fromBinary, toBinary } from '@bufbuild/protobuf'
import { Filesystem } from '../../contract/rpc/filesystem_pb.ts'
import { Process } from '../../contract/rpc/process_pb.ts'
import { errorText } from '../../lib/app-error.ts'
import type { Codec, RpcMethod } from './codec.ts'
import { RpcError } from './rpc-error.ts'

const methods = new Map<string, DescMethod>(
  [Process, Filesystem].flatMap((service) =>
    service.methods.map((method) => [`${service.typeName}/${method.name}`, method]),
  ),
)

export const protoCodec: Codec = {
  type: 'proto',
  decode(method, bytes) {
    try {
      return fromBinary(descriptionOf(method).input, bytes)
    } catch (error) {
      throw new RpcError('invalid_argument', `the message cannot be read: ${errorText(error)}`)
    }
  },
  encode(method, message) {
    const { output } = descriptionOf(method)
    const { buffer, byteOffset, length } = toBinary(output, create(output, message))
    return Buffer.from(buffer, byteOffset, length).toString('latin1')
  },
}

function descriptionOf({ service, name }: RpcMethod): DescMethod {
  return methods.get(`${service}/${name}`)!
}
