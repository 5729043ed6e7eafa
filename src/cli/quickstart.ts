/** `warren quickstart`: a first sandbox, and a link that logs in to the dashboard once and shows its terminal. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { AdminClient } from './admin-client.ts'
import type { ServerLocation } from './env.ts'
import { asJson } from './output.ts'
import { nameKey } from './sandbox-name.ts'
import type { TeamClient } from './team-client.ts'
import type { Given, SingleCommand } from './verbs.ts'

const sandboxName = 'quickstart'
const sandboxSeconds = 3600

type QuickstartServer = { location: Pick<ServerLocation, 'url'>; admin: AdminClient; team: TeamClient }

export type QuickstartParts = {
  /** Finds the server of this machine, with its operator and its first team. */
  find: () => Promise<QuickstartServer>
  /** The path of `warren`. */
  program: string
}

export const quickstartCommand: SingleCommand<QuickstartParts> = {
  name: 'quickstart',
  does: 'a first sandbox, and a link that logs in to the dashboard',
  verb: {
    does: 'Creates a sandbox and prints a link that logs in to the dashboard and opens a terminal in it.',
    about: `The link works once, within 10 minutes, and logs in for 12 hours. The sandbox ends after
an hour; a second call uses the same one. It works on the machine of the server only.`,
    flags: ['open'],
    options: { open: "opens the link with this machine's browser (xdg-open)" },
    run: quickstart,
  },
}

async function quickstart({ flags, json }: Given, { find, program }: QuickstartParts): Promise<string> {
  const { location, admin, team } = await find()
  const [own] = await team.listTeams()
  const sandboxID = await findOrCreate(team)
  const { code, expiresAt } = await admin.createLink(own!.teamID)
  // What follows # is sent to no server and stands in no log.
  const link = `${location.url}/dashboard/sandboxes/${sandboxID}/terminal#link=${code}`
  const isOpen = flags.has('open') && (await opens(link))
  if (json) return asJson({ sandboxID, link, expiresAt })
  const why = flags.has('open') && !isOpen ? 'This machine has no browser that opens it. ' : ''
  return `The sandbox ${sandboxID} runs, for an hour.

${why}Open this link in a browser within 10 minutes. It works once and logs in for 12 hours:

  ${link}

${reaching(location.url)}Without a browser: ${program} sandbox shell ${sandboxID}`
}

async function findOrCreate(team: TeamClient): Promise<string> {
  const query = { metadata: `${nameKey}=${sandboxName}`, state: 'running' }
  const [found] = await team.listSandboxes(query)
  if (found) {
    await team.setTimeout(found.sandboxID, sandboxSeconds)
    return found.sandboxID
  }
  const wanted = { templateID: 'base', timeout: sandboxSeconds, metadata: { [nameKey]: sandboxName } }
  return (await team.createSandbox(wanted)).sandboxID
}

/** A server that only this machine reaches, as a person at another one sees it. */
function reaching(url: string): string {
  const { hostname, port } = new URL(url)
  if (!/^(127\.|localhost$|\[::1\]$)/.test(hostname)) return ''
  return `In a browser of another machine, run there first: ssh -L ${port}:${hostname}:${port} THIS-MACHINE\n`
}

async function opens(link: string): Promise<boolean> {
  const child = spawn('xdg-open', [link], { stdio: 'ignore', detached: true })
  const isStarted = await Promise.race([
    once(child, 'exit').then(([code]) => code === 0),
    once(child, 'error').then(() => false),
  ])
  return isStarted
}
