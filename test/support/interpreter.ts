/** The code interpreter's server on a port of its own, with real kernels of this machine. */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { writeInterpreter } from '../../src/app/templates/interpreter-files.ts'
import type { ReadVariables } from '../../src/interpreter/context.ts'
import { createInterpreter } from '../../src/interpreter/server.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { runCommand } from '../../src/lib/run-command.ts'

export type Line = { type: string; text?: string; name?: string; value?: string } & Record<string, unknown>
export type ExecuteOptions = {
  language?: string
  context_id?: string
  env_vars?: Record<string, string>
  token?: string
  signal?: AbortSignal
}

/** Every machine has it, and it is two folders deep as that of a sandbox. */
const homeFolder = '/usr/share'

export async function openInterpreter(
  readVariables: ReadVariables = async () => ({}),
  /** Java's kernel is compiled only for those who need it, because that takes seconds. */
  language?: string,
) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-interpreter-'))
  await writeInterpreter(folder)
  if (language === 'java') await runCommand('bash', [join(folder, 'java/compile.sh')], { timeoutMs: 300_000 })
  const interpreter = createInterpreter({
    kernelsFolder: folder,
    homeFolder,
    readVariables,
    clock: systemClock,
  })
  interpreter.server.listen(0, '127.0.0.1')
  await once(interpreter.server, 'listening')
  const url = `http://127.0.0.1:${(interpreter.server.address() as AddressInfo).port}`
  const call = (method: string, path: string, body?: unknown) =>
    fetch(url + path, { method, ...(body !== undefined && { body: JSON.stringify(body) }) })

  async function execute(code: string, { token, signal, ...options }: ExecuteOptions = {}): Promise<Line[]> {
    const response = await fetch(`${url}/execute`, {
      method: 'POST',
      body: JSON.stringify({ code, ...options }),
      ...(token !== undefined && { headers: { 'x-access-token': token } }),
      ...(signal && { signal }),
    })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`${response.status} ${text}`)
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
  }

  return {
    url,
    call,
    execute,
    /** What the cell printed on a stream. */
    printed: (lines: Line[], type = 'stdout') =>
      lines.flatMap((line) => (line.type === type ? [line.text] : [])).join(''),
    async [Symbol.asyncDispose]() {
      await interpreter.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
