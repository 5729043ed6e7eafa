/**
 * Reads the devices and files from a Container Device Interface specification, as `nvidia-ctk cdi generate` writes it.
 * The hooks of a specification are not run: they prepare a container's file system, which `driver-files.ts` does here.
 */
import { AppError, errorText } from '../../../lib/app-error.ts'
import { type PlainValue, parsePlainYaml } from './plain-yaml.ts'

export type CdiFile = {
  path: string
  /** Devices with all their names; names of the same nodes are one device. The device `all` is left out. */
  devices: readonly { names: readonly string[]; nodes: readonly string[] }[]
  /** Files of the host that the specification mounts into containers. */
  files: readonly string[]
}

const gpuKind = 'nvidia.com/gpu'
const gpuNode = /^\/dev\/nvidia(?:\d+|-caps\/nvidia-cap\d+)$/

type Fields = Record<string, PlainValue | undefined>

/** Undefined if the specification is of other devices than NVIDIA GPUs. */
export function readCdi(path: string, text: string, root = '/'): CdiFile | undefined {
  const content = fieldsOf(parse(path, text))
  if (content.kind !== gpuKind) return undefined
  const common = fieldsOf(content.containerEdits)
  const devices = new Map<string, { names: string[]; nodes: string[] }>()
  for (const device of listOf(content.devices).map(fieldsOf)) {
    const name = String(device.name ?? '')
    if (name === '' || name === 'all') continue
    const nodes = listOf(fieldsOf(device.containerEdits).deviceNodes)
      .map((node) => String(fieldsOf(node).path ?? ''))
      .filter((node) => gpuNode.test(node))
      .sort()
    const known = devices.get(nodes.join(' '))
    if (known) known.names.push(name)
    else devices.set(nodes.join(' '), { names: [name], nodes })
  }
  const files = listOf(common.mounts).map((mount) => String(fieldsOf(mount).hostPath ?? ''))
  const shown = root === '/' ? path : path.slice(root.length)
  return { path: shown, devices: [...devices.values()], files: files.filter((file) => file.startsWith('/')) }
}

function parse(path: string, text: string): PlainValue {
  try {
    return path.endsWith('.json') ? (JSON.parse(text) as PlainValue) : parsePlainYaml(text)
  } catch (error) {
    throw new AppError(
      'unavailable',
      `${path} cannot be read: ${errorText(error)}. Write it again: nvidia-ctk cdi generate --format=json.`,
      { cause: error },
    )
  }
}

function fieldsOf(value: PlainValue | undefined): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
}

function listOf(value: PlainValue | undefined): readonly PlainValue[] {
  return Array.isArray(value) ? value : []
}
