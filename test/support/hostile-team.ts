/** Expensive things that a team does within its limits, for the test of what a neighbour feels. None of them waits for ever. */
import { Sandbox, Template } from 'e2b'
import { internet, port } from '../../src/drivers/oci/suite/outside.ts'
import { delay } from '../../src/lib/clock.ts'
import type { Random } from './fuzz.ts'
import type { Warren } from './warren.ts'

export type HostileTeam = Pick<Warren, 'client' | 'api' | 'url'>
type Deed = (team: HostileTeam, random: Random, neighbour: Neighbour) => Promise<unknown>

/** How often the neighbour has created a sandbox. A deed that holds something back waits until it has tried to. */
export type Neighbour = { creates: number; isBeside(hogs: readonly Sandbox[]): Promise<boolean> }

const create = ({ client }: HostileTeam) => Sandbox.create('base', { ...client, timeoutMs: 600_000 })
/** Its own creates, and its own use of memory, may be in its way for a moment. */
async function createAtLast(team: HostileTeam): Promise<Sandbox> {
  let made: Sandbox | undefined
  await upTo(20, async () => {
    made = await create(team).catch(() => undefined)
    return made !== undefined
  })
  return made ?? create(team)
}
/** Ends by itself inside, so that nothing of it outlasts its turn. */
const inside = (seconds: number, script: string): Deed => inOwn((sandbox) => run(sandbox, seconds, script))

function inOwn(work: (sandbox: Sandbox, random: Random, team: HostileTeam) => Promise<unknown>): Deed {
  return async (team, random) => {
    const sandbox = await createAtLast(team)
    await work(sandbox, random, team).finally(() => sandbox.kill())
  }
}

const run = (sandbox: Sandbox, seconds: number, script: string) =>
  sandbox.commands.run(`timeout -s KILL ${seconds} bash -c '${script}'; true`, {
    user: 'root',
    timeoutMs: 30_000,
  })

const many = <T>(count: number, work: (at: number) => Promise<T>) =>
  Promise.allSettled(Array.from({ length: count }, (_, at) => work(at)))

/** Takes memory slowly enough for the guard of the machine, and keeps it. */
const takeMemory = `python3 -u -c "
import time
kept = [bytearray(b'x') * (180 << 20)]
for number in range(200):
    time.sleep(0.1)
    kept.append(bytearray(b'x') * (1 << 20))
time.sleep(600)
"`

const flood = `import socket, time
kept = []
for number in range(6000):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.sendto(b"x", ("${internet}", 1000 + number))
for number in range(500):
    try:
        one = socket.socket(); one.settimeout(0.2); one.connect(("${internet}", ${port})); kept.append(one)
    except OSError: break
`

/** Those that burn CPU do so for two seconds, so that all together stay cheap. */
export const deeds: Record<string, Deed> = {
  cpu: inside(2, 'for i in $(seq 32); do (while :; do :; done) & done; wait'),
  processes: inside(2, 'for i in $(seq 1000); do sleep 9 & done; bomb() { bomb | bomb & }; bomb; wait'),
  disk: inside(8, 'dd if=/dev/zero of=/root/big bs=1M count=400 conv=fsync; rm /root/big; sync'),
  files: inside(6, 'mkdir /root/f; cd /root/f; seq 20000 | xargs touch; ls -lR /root; find / -xdev'),
  flows: inOwn(async (sandbox) => {
    await sandbox.files.write('/root/flood.py', flood, { user: 'root' })
    await run(sandbox, 5, 'ulimit -n 4096; python3 /root/flood.py; python3 /root/flood.py')
  }),
  output: inside(2, 'yes | head -c 40000000'),
  memory: async (team, _random, neighbour) => {
    const hogs: Sandbox[] = []
    try {
      for (let count = 0; count < 4; count++) hogs.push(await createAtLast(team))
      for (const hog of hogs)
        void hog.commands.run(takeMemory, { background: true, timeoutMs: 0 }).catch(() => {})
      await upTo(30, () => neighbour.isBeside(hogs))
      const { creates } = neighbour
      await upTo(30, async () => neighbour.creates >= creates + 2)
    } finally {
      await Promise.all(hogs.map((hog) => hog.kill().catch(() => {})))
    }
  },
  tags: async ({ api }, random) => {
    const { templateID, buildID } = (await (
      await api('/v3/templates', { body: { name: `tags-${random.below(2 ** 31)}` } })
    ).json()) as Record<string, string>
    await api(`/v2/templates/${templateID}/builds/${buildID}`, { body: { fromTemplate: 'base' } })
    const tags = Array.from({ length: 900 }, (_, at) => `tag-${at}-${'x'.repeat(40)}`)
    await many(5, () => api('/templates/tags', { body: { target: `${templateID}:default`, tags } }))
    await many(30, () => api(`/templates/${templateID}/tags`))
  },
  metadata: async ({ api }) => {
    const metadata = Object.fromEntries(Array.from({ length: 400 }, (_, at) => [`key-${at}`, 'y'.repeat(50)]))
    const made = await many(3, async () =>
      (await api('/sandboxes', { body: { templateID: 'base', metadata, timeout: 60 } })).json(),
    )
    await many(100, () => api('/v2/sandboxes?limit=100'))
    const ids = made.flatMap((one) =>
      one.status === 'fulfilled' ? [(one.value as { sandboxID: string }).sandboxID] : [],
    )
    await many(ids.length, (at) => api(`/sandboxes/${ids[at]}`, { method: 'DELETE' }))
  },
  creates: async (team) => {
    const made = await many(8, () => create(team))
    await Promise.all(made.map((one) => (one.status === 'fulfilled' ? one.value.kill() : undefined)))
  },
  build: async ({ client }, random) => {
    const template = Template()
      .fromTemplate('base')
      .runCmd('head -c 50000000 /dev/urandom > /root/random; gzip -k /root/random', { user: 'root' })
    await Template.build(template, `neighbour-${random.below(2 ** 31)}`, client)
  },
  forks: inOwn(async ({ sandboxId }, _random, { api }) => {
    const answer = await api(`/sandboxes/${sandboxId}/fork`, { body: { count: 3 } })
    const forks = (await answer.json()) as { sandboxID?: string; sandbox?: { sandboxID: string } }[]
    const ids = forks.map((fork) => fork.sandboxID ?? fork.sandbox?.sandboxID)
    await many(ids.length, (at) => api(`/sandboxes/${ids[at]}`, { method: 'DELETE' }))
  }),
  pauses: inOwn(async (sandbox, _random, { client }) => {
    for (let round = 0; round < 2; round++) {
      await sandbox.pause()
      await Sandbox.connect(sandbox.sandboxId, client)
    }
  }),
  'long requests': inOwn(async (sandbox) => {
    const open = await many(40, () => sandbox.commands.run('sleep 600', { background: true, timeoutMs: 0 }))
    await delay(1000)
    await many(open.length, async (at) => {
      const one = open[at]!
      if (one.status === 'fulfilled') await one.value.disconnect()
    })
  }),
  floods: inOwn(async (sandbox, random, { url, api }) => {
    const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983' }
    await many(
      400,
      (at): Promise<unknown> =>
        at % 2 === 0
          ? api(`/sandboxes/${random.below(2 ** 31)}`)
          : fetch(`${url}/health`, { headers }).then((answer) => answer.text()),
    )
  }),
}

/** Gives up after a while: what the deed waits for is the neighbour's to judge. */
async function upTo(seconds: number, isDone: () => Promise<boolean>): Promise<void> {
  for (const until = Date.now() + seconds * 1000; Date.now() < until; await delay(100))
    if (await isDone()) return
}
