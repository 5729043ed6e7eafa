/**
 * Starts a runtime in the mount namespace of a slot, under the limits of its sandbox. The new process sets
 * them itself before it executes the runtime; helper programs for that would be loaded one after the other.
 */
import { closeSync, openSync } from 'node:fs'
import { openCLibrary } from '../../../lib/c-library.ts'
import type { CallList } from '../../../lib/call-list.ts'
import { addDefaultSignals, addOomScore, addSignalMask, openListProcess } from '../../../lib/list-process.ts'
import { requireAddonFile } from '../../../lib/native.ts'

/** As in the OCI configuration. */
export type ResourceLimit = { type: string; soft: number; hard: number }

export type RuntimeTask = {
  /** The file of the mount namespace. */
  namespace: string
  /** The path of the program, and its arguments. It has no input, and nobody reads its output. */
  command: readonly string[]
  /** Its environment, each entry as `NAME=value`. */
  variables: readonly string[]
  limits: readonly ResourceLimit[]
  oomScore: number
}

/** CLONE_NEWNS. */
const mountNamespace = 0x20000
const resourceNumbers: Record<string, number> = { RLIMIT_CORE: 4, RLIMIT_NPROC: 6, RLIMIT_NOFILE: 7 }
const currentFolder = -100
const readAndWrite = 2
/** Maximum UTF-8 bytes per UTF-16 unit of a text; and the bytes of a text's final zero byte and of its address. */
const bytesPerUnit = 3
const bytesPerText = 9
/** Bytes for the fixed, small parts of the list. */
const otherBytes = 1024

const start = openListProcess(openCLibrary(requireAddonFile('Sandboxes cannot be started')), (list) =>
  addDefaultSignals(list),
)

/** Returns the pid of the runtime, which is a child of this process. */
export function startRuntime({ namespace, ...task }: RuntimeTask): number {
  const descriptor = openSync(namespace, 'r')
  try {
    return start(dataBytes(task), (list) => addCalls(list, descriptor, task))
  } finally {
    closeSync(descriptor)
  }
}

type RuntimeCalls = Omit<RuntimeTask, 'namespace'>

function dataBytes({ command, variables }: RuntimeCalls): number {
  const texts = [...command, ...variables]
  return texts.reduce((bytes, text) => bytes + text.length * bytesPerUnit + bytesPerText, otherBytes)
}

function addCalls(
  list: CallList,
  namespace: number,
  { command, variables, limits, oomScore }: RuntimeCalls,
): void {
  addOomScore(list, oomScore)
  list.add('setns', namespace, mountNamespace)
  list.add('close', 0)
  list.add('openat', currentFolder, list.text('/dev/null'), readAndWrite)
  list.add('dup3', 0, 1)
  list.add('dup3', 0, 2)
  for (const limit of limits) addLimit(list, limit)
  addSignalMask(list)
  const [argv, envp] = [command, variables].map((texts) =>
    list.addresses(texts.map((text) => list.text(text))),
  )
  list.add('execve', list.text(command[0]!), argv!, envp!)
}

function addLimit(list: CallList, { type, soft, hard }: ResourceLimit): void {
  const limit = Buffer.from(new BigUint64Array([BigInt(soft), BigInt(hard)]).buffer)
  list.add('prlimit64', 0, resourceNumbers[type]!, list.bytes(limit))
}
