/** A Warren that people use: what the pictures of the dashboard show, and what its test looks at. */
import { Sandbox, Template, Volume } from 'e2b'
import type { Warren } from '../support/warren.ts'

/** Markup and control characters where a sandbox or its owner can write them. */
export const hostile = `<img src=x onerror="window.owned=1"><script>window.owned=1</script>\u202e"'&`

export type Scene = { busy: Sandbox; paused: Sandbox; sandboxIDs: string[] }

const server = `import http.server, itertools
print('listening on 8000', flush=True)
http.server.HTTPServer(('', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()`

/** Two sandboxes: one that works, with files, a server and hostile texts, and one that is paused. */
export async function makeSandboxes(warren: Warren): Promise<Scene> {
  const options = { ...warren.client, timeoutMs: 3_600_000 }
  const [busy, paused] = await Promise.all([
    Sandbox.create({ ...options, metadata: { user: '42', task: 'summarize-report', note: hostile } }),
    Sandbox.create({ ...options, metadata: { user: '7', task: 'nightly-eval' } }),
  ])
  await busy.files.write([
    { path: '/home/user/server.py', data: server },
    { path: '/home/user/notes.md', data: '# Plan\n\n1. Read the report\n2. Write a summary\n' },
    { path: '/home/user/data/report.csv', data: 'month,revenue\n2026-09,41200\n2026-10,45900\n' },
    { path: `/home/user/${hostile.replaceAll('/', '')}.txt`, data: hostile },
  ])
  await busy.commands.run('python3 /home/user/server.py', { background: true, timeoutMs: 0 })
  await busy.commands.run(`printf '%s\\n' "$TEXT"; echo oops >&2`, { envs: { TEXT: hostile } })
  await paused.pause()
  return { busy, paused, sandboxIDs: [busy.sandboxId, paused.sandboxId] }
}

/** One of each other thing. */
export async function makeThings(
  warren: Warren,
): Promise<{ volumeID: string; webhookID: string; templateID: string }> {
  const volume = await Volume.create('datasets', warren.client)
  await volume.writeFile('/readme.md', '# Datasets\n')
  await volume.makeDir('/raw')
  await post(warren, '/secrets', { name: 'openai-key', value: 'sealed' })
  await post(warren, '/api-keys', { name: 'laptop' })
  const webhook = await post(warren, '/events/webhooks', {
    name: 'audit',
    url: 'https://hooks.example.com/warren',
    signatureSecret: 'a secret of 16 bytes or more',
    events: ['sandbox.lifecycle.created', 'sandbox.lifecycle.killed'],
  })
  const steps = Template().fromBaseImage().runCmd('echo tools > /home/user/tools.txt').runCmd('sleep 1')
  const { templateId } = await Template.build(steps, 'data-tools', {
    ...warren.client,
    cpuCount: 1,
    memoryMB: 512,
  })
  return { volumeID: volume.volumeId, webhookID: webhook.id!, templateID: templateId }
}

const work = 'timeout 120 sh -c "while :; do python3 -c \\"sum(range(10**5))\\"; sleep 1; done"'

type Other = { template: string; minutes: number; metadata: Record<string, string>; isPaused?: boolean }

/** What else the team has: sandboxes of several templates, most of them paused. */
export async function makeOthers(warren: Warren): Promise<void> {
  const steps = Template().fromBaseImage().runCmd('echo agent > /home/user/agent.txt')
  await Template.build(steps, 'web-agent', { ...warren.client, cpuCount: 2, memoryMB: 1024 })
  const others: Other[] = [
    { template: 'data-tools', minutes: 15, metadata: { user: '11', task: 'clean-csv' } },
    { template: 'data-tools', minutes: 30, metadata: { user: '42', task: 'plot-sales' }, isPaused: true },
    { template: 'web-agent', minutes: 5, metadata: { user: '7', run: 'eval-118' } },
    { template: 'web-agent', minutes: 60, metadata: { user: '19', run: 'eval-117' }, isPaused: true },
    { template: 'base', minutes: 45, metadata: { branch: 'fix-login', task: 'run-tests' } },
    { template: 'base', minutes: 10, metadata: { branch: 'main', task: 'review' }, isPaused: true },
  ]
  for (const { template, minutes, metadata, isPaused } of others) {
    const options = { ...warren.client, timeoutMs: minutes * 60_000, metadata }
    const sandbox = await Sandbox.create(template, options)
    if (isPaused) await sandbox.pause()
    else await sandbox.commands.run(work, { background: true, timeoutMs: 0 })
  }
}

async function post(warren: Warren, path: string, body: object): Promise<Record<string, string>> {
  const answer = await warren.api(path, { body })
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`)
  return (await answer.json()) as Record<string, string>
}
