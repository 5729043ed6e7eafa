/** Code that a reader pastes elsewhere. */

export type Snippet = {
  language: string
  /** Commands for the shell that come before the code and are copied separately. */
  environment?: string
  code: string
}

/** With a domain the clients find everything by it. */
function environmentLines(origin: string, domain = ''): string {
  const settings =
    domain === ''
      ? `export E2B_API_URL=${origin}\nexport E2B_SANDBOX_URL=${origin}`
      : `export E2B_DOMAIN=${domain}`
  return `export E2B_API_KEY=e2b_…\n${settings}`
}

export function firstSteps(origin: string, domain = ''): Snippet[] {
  const environment = environmentLines(origin, domain)
  return [
    {
      language: 'JavaScript',
      environment: `${environment}\nnpm install e2b`,
      code: `import { Sandbox } from 'e2b'
const sandbox = await Sandbox.create()
console.log((await sandbox.commands.run('echo hello from $(whoami)')).stdout)`,
    },
    {
      language: 'Python',
      environment: `${environment}\npip install e2b`,
      code: `from e2b import Sandbox
sandbox = Sandbox.create()
print(sandbox.commands.run("echo hello from $(whoami)").stdout)`,
    },
    { language: 'curl', code: createByCurl(origin, 'base') },
  ]
}

const createByCurl = (origin: string, template: string): string => `curl -X POST ${origin}/v2/sandboxes \\
  -H "X-API-Key: $E2B_API_KEY" -H "Content-Type: application/json" \\
  -d '${JSON.stringify({ templateID: template, timeout: 300 })}'`

/** Connects to exactly this sandbox. */
export function connectTo(sandboxID: string, origin: string, domain = ''): Snippet[] {
  const environment = environmentLines(origin, domain)
  return [
    {
      language: 'JavaScript',
      environment,
      code: `import { Sandbox } from 'e2b'
const sandbox = await Sandbox.connect('${sandboxID}')
console.log((await sandbox.commands.run('uname -a')).stdout)`,
    },
    {
      language: 'Python',
      environment,
      code: `from e2b import Sandbox
sandbox = Sandbox.connect("${sandboxID}")
print(sandbox.commands.run("uname -a").stdout)`,
    },
    {
      language: 'curl',
      code: `curl ${origin}/sandboxes/${sandboxID} -H "X-API-Key: $E2B_API_KEY"

# Keep it for ten minutes more
curl -X POST ${origin}/sandboxes/${sandboxID}/timeout \\
  -H "X-API-Key: $E2B_API_KEY" -H "Content-Type: application/json" -d '{"timeout":600}'`,
    },
    { language: 'Shell', environment, code: `npx @e2b/cli sandbox connect ${sandboxID}` },
  ]
}
