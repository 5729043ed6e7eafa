/**
 * Runs cells of JavaScript and TypeScript for the interpreter's server. V8's console mode evaluates them: it
 * supports top-level await, and lets a later cell redeclare a name. A second thread (`listener.ts`) receives
 * requests and interrupts; events are written as JSON lines to descriptor 4.
 */
import { writeSync } from 'node:fs'
import { Session } from 'node:inspector'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { constants, runInThisContext } from 'node:vm'
import { isMainThread } from 'node:worker_threads'
import { cellSource, importName } from './cell-source.ts'
import { listen, startListener } from './listener.ts'
import { mimeBundle } from './mime-bundle.ts'

type ExecuteRequest = {
  type: 'execute'
  code: string
  marker: string
  set: Record<string, string | null>
  restore: Record<string, string | null>
}
type ChdirRequest = { type: 'chdir'; path: string }
type Remote = { type: string; objectId?: string; value?: unknown; description?: string }
type Evaluated = { result: Remote; exceptionDetails?: { exception?: Remote; text: string } }

/** The name under which the debugger passes a value. */
const slot = Symbol.for('warren.value')
let session = new Session()
let executionCount = 0
let interrupt: (() => void) | undefined

function send(event: object): void {
  writeSync(4, `${JSON.stringify(event)}\n`)
}

function display(value: unknown, isMain = false): void {
  send({ type: 'result', main: isMain, data: mimeBundle(value) })
}

/** Imports relative to the cell, or else from the packages that are installed for the whole machine. */
async function importFromHere(specifier: string, options?: ImportCallOptions): Promise<unknown> {
  const load = runInThisContext('(specifier, options) => import(specifier, options)', {
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  }) as (specifier: string, options?: ImportCallOptions) => Promise<unknown>
  try {
    return await load(String(specifier), options)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND' || /^[./]|:/.test(specifier))
      throw error
    let found: string
    try {
      found = createRequire(`${process.cwd()}/`).resolve(specifier)
    } catch {
      throw error
    }
    return load(pathToFileURL(found).href, options)
  }
}

function defineGlobals(): void {
  const requireFromHere = (id: string) => createRequire(`${process.cwd()}/`)(id)
  const resolve = (id: string) => createRequire(`${process.cwd()}/`).resolve(id)
  const globals = {
    [importName]: importFromHere,
    require: Object.assign(requireFromHere, { resolve }),
    module: { exports: {} },
    exports: {},
    display: (value: unknown) => display(value),
  }
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false })
  }
}

function evaluate(code: string): Promise<Evaluated> {
  const options = { expression: code, replMode: true, awaitPromise: true, objectGroup: 'cell' }
  return new Promise((resolve, reject) => {
    session.post('Runtime.evaluate', options, (error, answer) => {
      if (error) reject(new InterruptedError())
      else resolve(answer as unknown as Evaluated)
    })
  })
}

class InterruptedError extends Error {
  override name = 'InterruptedError'
  override message = 'The execution was interrupted.'
  override stack = `${this.name}: ${this.message}`
}

/** Returns the value itself; the debugger only describes it. */
function debuggerValue(remote: Remote): unknown {
  if (remote.objectId === undefined) {
    return remote.type === 'bigint' ? BigInt(remote.description!.slice(0, -1)) : specialNumber(remote)
  }
  const scope = globalThis as { [slot]?: (value: unknown) => void }
  let found: unknown
  scope[slot] = (value) => {
    found = value
  }
  // A session on the same thread calls its callback before `post` returns.
  session.post('Runtime.callFunctionOn', {
    objectId: remote.objectId,
    functionDeclaration: "function () { 'use strict'; globalThis[Symbol.for('warren.value')](this) }",
  })
  delete scope[slot]
  return found
}

/** NaN, infinities and -0 have no representation in the debugger's messages. */
function specialNumber({ type, value, description }: Remote): unknown {
  return type === 'number' && value === undefined ? Number(description) : value
}

async function runCell(code: string): Promise<void> {
  const answer = await evaluate(cellSource(code))
  if (answer.exceptionDetails) {
    const { exception, text } = answer.exceptionDetails
    throw exception ? debuggerValue(exception) : new Error(text)
  }
  const value = await debuggerValue(answer.result)
  if (value !== undefined) display(value, true)
}

function errorEvent(error: unknown) {
  if (!(error instanceof Error)) {
    return { type: 'error', name: 'Error', value: inspect(error), traceback: inspect(error) }
  }
  const frames = String(error.stack ?? error).split('\n')
  const traceback = frames.filter((line) => !/node:internal|[/\\]javascript\.cjs/.test(line)).join('\n')
  return { type: 'error', name: error.name, value: error.message, traceback }
}

function setVariables(changes: Record<string, string | null>): void {
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) delete process.env[name]
    else process.env[name] = value
  }
}

async function execute({ code, marker, set, restore }: ExecuteRequest): Promise<void> {
  setVariables(set)
  send({ type: 'started', count: ++executionCount })
  const interrupted = new Promise<never>((_, reject) => {
    interrupt = () => reject(new InterruptedError())
  })
  await Promise.race([runCell(code), interrupted]).catch((error) => send(errorEvent(error)))
  interrupt = undefined
  renewSession()
  setVariables(restore)
  await Promise.all([process.stdout, process.stderr].map((stream) => writeWhole(stream, marker)))
  send({ type: 'done' })
}

/**
 * Releases the debugger's references to a cell. A cell that was interrupted while it waited leaves a promise
 * there, and V8 crashes when it collects one whose session still listens.
 */
function renewSession(): void {
  session.disconnect()
  session = new Session()
  session.connect()
}

function writeWhole(stream: NodeJS.WriteStream, text: string): Promise<void> {
  return new Promise((resolve) => stream.write(text, () => resolve()))
}

function changeFolder({ path }: ChdirRequest): void {
  try {
    process.chdir(path)
    send({ type: 'done' })
  } catch (error) {
    send({ type: 'failed', reason: (error as Error).message })
  }
}

function start(): void {
  defineGlobals()
  session.connect()
  process.on('SIGINT', () => {})
  const report = (error: unknown) => process.stderr.write(`${errorEvent(error).traceback}\n`)
  process.on('uncaughtException', report)
  process.on('unhandledRejection', report)
  // The server sends the next request after it has received the end of the previous one.
  const onRequest = (line: string) => {
    const request = JSON.parse(line) as ExecuteRequest | ChdirRequest
    if (request.type === 'execute') void execute(request)
    else changeFolder(request)
  }
  startListener(onRequest, () => interrupt?.())
  send({ type: 'ready' })
}

if (isMainThread) start()
else listen()
