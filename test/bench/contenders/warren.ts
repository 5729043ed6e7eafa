/** Warren as its users meet it: through the unmodified client. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Sandbox } from 'e2b'
import { agentMount } from '../../../src/drivers/host/record/layout.ts'
import type { SandboxRecord } from '../../../src/drivers/host/record/records.ts'
import type { Warren } from '../../support/warren.ts'
import { type Contender, timed } from '../measure.ts'
import { argumentsOf, processesOf } from '../processes.ts'
import type { ContainerProcess } from './raw-spec.ts'

export const warrenName = (warren: Warren): string => `warren ${warren.isolation}`

/** A whole life: create, two commands, kill. */
export function warrenLife(warren: Warren, name = warrenName(warren)): Contender {
  return {
    name,
    async sample() {
      const [create, sandbox] = await timed(() => Sandbox.create('base', warren.client))
      const commands: number[] = []
      try {
        for (let index = 0; index < 2; index++) commands.push(await echo(sandbox))
      } catch (error) {
        await sandbox.kill()
        throw error
      }
      const [kill] = await timed(() => sandbox.kill())
      const [first, second] = commands as [number, number]
      const steps = { create, 'first command': first, 'second command': second, kill }
      return { 'create + first command': create + first, ...steps }
    },
  }
}

export async function echo(sandbox: Sandbox): Promise<number> {
  const [ms, { stdout }] = await timed(() => sandbox.commands.run('echo hello'))
  if (stdout !== 'hello\n') throw new Error(`echo said ${JSON.stringify(stdout)}`)
  return ms
}

export type StartedAgent = { process: ContainerProcess; runtime: string; platform: string | undefined }

/** How Warren starts its agent, read off a living sandbox, so that a raw runtime can start the very same. */
export async function startedAgent(warren: Warren, gpus = 0): Promise<StartedAgent> {
  const metadata = { 'warren.gpus': String(gpus) }
  const sandbox = await Sandbox.create('base', { ...warren.client, ...(gpus > 0 && { metadata }) })
  try {
    const read = async (name: string) =>
      JSON.parse(await readFile(join(warren.dataFolder, 'sandboxes', sandbox.sandboxId, name), 'utf8'))
    const spec: Spec = await read('config.json')
    const record: Pick<SandboxRecord, 'agentFolder' | 'gpus'> = await read('record.json')
    const { args, env } = spec.process
    // What the sandbox mounts from is there in its own namespace alone.
    const shown = spec.mounts.find(({ destination }) => destination === agentMount)
    if (!shown) throw new Error(`the sandbox ${sandbox.sandboxId} mounts no agent`)
    const mount = { ...shown, source: record.agentFolder }
    const words = processesOf(sandbox.sandboxId).map(argumentsOf)
    const sentry = words.find(([program]) => program?.startsWith('runsc-sandbox'))
    const platform = sentry?.find((word) => word.startsWith('--platform='))?.split('=')[1]
    const gpu = record.gpus && { gpu: { files: record.gpus.files, devices: spec.linux.devices ?? [] } }
    return { process: { args, env, mount, ...gpu }, runtime: warren.isolation, platform }
  } finally {
    await sandbox.kill()
  }
}

type Spec = {
  process: { args: string[]; env: string[] }
  mounts: { source: string; destination: string }[]
  linux: { devices?: object[] }
}
