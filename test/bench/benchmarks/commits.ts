/**
 * This checkout beside another one of an earlier commit: `npm run bench -- commits --before FOLDER`. Both Warrens run at the
 * same time and take turns at the same work, so that whatever disturbs the machine disturbs both.
 */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Sandbox } from 'e2b'
import { internet, Outside, port } from '../../../src/drivers/oci/suite/outside.ts'
import type { Isolation, Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { echo } from '../contenders/warren.ts'
import { type Contender, type Row, takeTurns, timed } from '../measure.ts'
import type { Report } from '../report.ts'

const burst = 8
const commandsAtOnce = 40
const requests = 200
const connections = 200
const fileBytes = 4 * 1024 * 1024
const servicePort = 8000

export type CommitsOptions = { rounds: number; before: string | undefined }

export async function commits(machine: BenchMachine, { rounds, before }: CommitsOptions): Promise<Report> {
  const program = launcherOf(before)
  const rows: Row[] = []
  const outside = new Outside('bench')
  await outside.open()
  try {
    for (const isolation of machine.isolations) {
      const contenders = await contendersFor(machine, isolation, program)
      const onRound = (done: number) => machine.say(`  ${isolation}: round ${done} of ${rounds}`)
      rows.push(...(await takeTurns(contenders, { rounds, signal: machine.signal, pauseMs: 800, onRound })))
    }
  } finally {
    await outside.close()
  }
  return {
    title: `This commit beside another: ${rounds} rounds, one try of each per round`,
    rows: inPairs(rows),
    references: machine.isolations.map((isolation) => ({
      label: `${isolation} before`,
      contender: named(isolation, 'before'),
    })),
  }
}

function launcherOf(folder: string | undefined): string {
  if (folder === undefined)
    throw new Error('Name a checkout of the earlier commit, with its node_modules: --before FOLDER')
  const program = join(resolve(folder), 'bin/warren')
  if (!existsSync(program)) throw new Error(`There is no ${program}.`)
  return program
}

const named = (isolation: Isolation, when: 'now' | 'before') => `${isolation} ${when}`

/** Each step's row of both commits, one below the other. */
function inPairs(rows: readonly Row[]): Row[] {
  const pair = ({ name }: Row) => name.replace(/ (now|before) · /, ' · ')
  const order = [...new Set(rows.map(pair))]
  return rows.toSorted((a, b) => order.indexOf(pair(a)) - order.indexOf(pair(b)))
}

async function contendersFor(
  machine: BenchMachine,
  isolation: Isolation,
  program: string,
): Promise<Contender[]> {
  const both = async (mode?: 'cold') => ({
    now: await machine.warren(isolation, mode),
    before: await machine.earlierWarren(isolation, program, mode),
  })
  const [warm, cold] = [await both(), await both('cold')]
  const of = (when: 'now' | 'before'): Contender[] => {
    const name = named(isolation, when)
    return [
      { name, sample: () => warmLife(warm[when]) },
      { name, sample: () => coldLife(cold[when]) },
      { name, sample: () => burstOf(cold[when]) },
    ]
  }
  const [now, before] = [of('now'), of('before')]
  return now.flatMap((contender, at) => [contender, before[at]!])
}

async function warmLife({ client, isolation }: Warren): Promise<Record<string, number>> {
  const [create, sandbox] = await timed(() => Sandbox.create('base', client))
  try {
    const first = await echo(sandbox)
    const [many] = await timed(() => Promise.all(Array.from({ length: commandsAtOnce }, () => echo(sandbox))))
    const data = 'x'.repeat(fileBytes)
    const [write] = await timed(() => sandbox.files.write('/tmp/file', data))
    const [read] = await timed(() => sandbox.files.read('/tmp/file'))
    const edge = await throughTheEdge(sandbox, client.sandboxUrl)
    const out = await connectionsOut(sandbox)
    const pauses = isolation === 'gvisor' ? await pauseAndResume(sandbox) : {}
    const [kill] = await timed(() => sandbox.kill())
    return {
      'warm create + first command': create + first,
      [`${commandsAtOnce} commands at once`]: many,
      'write 4 MiB': write,
      'read 4 MiB': read,
      [`${requests} requests through the edge`]: edge,
      [`${connections} connections out`]: out,
      ...pauses,
      kill,
    }
  } catch (error) {
    await sandbox.kill()
    throw error
  }
}

async function throughTheEdge(sandbox: Sandbox, url: string): Promise<number> {
  const serve = `mkdir -p /tmp/empty; python3 -m http.server ${servicePort} --directory /tmp/empty`
  await sandbox.commands.run(serve, { background: true })
  await sandbox.commands.run(`until curl -s -o /dev/null localhost:${servicePort}; do sleep 0.1; done`)
  const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': String(servicePort) }
  const [ms] = await timed(async () => {
    for (let done = 0; done < requests; done++) {
      const answer = await fetch(url, { headers })
      await answer.arrayBuffer()
      if (!answer.ok) throw new Error(`the service answered ${answer.status}`)
    }
  })
  return ms
}

/** To a server in a namespace of this machine, one after the other, as the sandbox measures them. */
async function connectionsOut(sandbox: Sandbox): Promise<number> {
  const program = `import socket, time
began = time.monotonic()
for _ in range(${connections}):
    with socket.create_connection(('${internet}', ${port})) as client:
        while client.recv(1000): pass
print((time.monotonic() - began) * 1000)`
  await sandbox.files.write('/tmp/out.py', program)
  return Number((await sandbox.commands.run('python3 /tmp/out.py')).stdout)
}

async function pauseAndResume(sandbox: Sandbox): Promise<Record<string, number>> {
  const [pause] = await timed(() => sandbox.pause())
  const [resume] = await timed(() => sandbox.connect())
  await echo(sandbox)
  return { pause, resume }
}

async function coldLife({ client }: Warren): Promise<Record<string, number>> {
  const [create, sandbox] = await timed(() => Sandbox.create('base', client))
  try {
    return { 'cold create + first command': create + (await echo(sandbox)) }
  } finally {
    await sandbox.kill()
  }
}

async function burstOf({ client }: Warren): Promise<Record<string, number>> {
  const created: Sandbox[] = []
  const one = async () => {
    const sandbox = await Sandbox.create('base', client)
    created.push(sandbox)
    await echo(sandbox)
  }
  try {
    const [ms] = await timed(() => Promise.all(Array.from({ length: burst }, one)))
    return { [`${burst} creates at once, with a command each`]: ms }
  } finally {
    await Promise.all(created.map((sandbox) => sandbox.kill()))
  }
}
