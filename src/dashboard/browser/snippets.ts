/** Code that a reader pastes elsewhere. */

type Named = readonly (readonly [language: string, code: string])[]

const shell = (url: string) => `export E2B_API_KEY=e2b_…
export E2B_API_URL=${url}
export E2B_SANDBOX_URL=${url}`

/** With a domain the clients find everything by it. */
export function environmentLines(origin: string, domain = ''): string {
  return domain === '' ? shell(origin) : `export E2B_API_KEY=e2b_…\nexport E2B_DOMAIN=${domain}`
}

export function firstSteps(origin: string, domain = ''): Named {
  const environment = environmentLines(origin, domain)
  return [
    [
      'JavaScript',
      `${environment}

// npm install e2b
import { Sandbox } from 'e2b'
const sandbox = await Sandbox.create()
console.log((await sandbox.commands.run('echo hello from $(whoami)')).stdout)`,
    ],
    [
      'Python',
      `${environment}

# pip install e2b
from e2b import Sandbox
sandbox = Sandbox.create()
print(sandbox.commands.run("echo hello from $(whoami)").stdout)`,
    ],
    ['curl', createByCurl(origin, 'base')],
  ]
}

export const createByCurl = (
  origin: string,
  template: string,
): string => `curl -X POST ${origin}/v2/sandboxes \\
  -H "X-API-Key: $E2B_API_KEY" -H "Content-Type: application/json" \\
  -d '${JSON.stringify({ templateID: template, timeout: 300 })}'`

/** Connects to exactly this sandbox. */
export function connectTo(sandboxID: string, origin: string, domain = ''): Named {
  const environment = environmentLines(origin, domain)
  return [
    [
      'JavaScript',
      `${environment}

import { Sandbox } from 'e2b'
const sandbox = await Sandbox.connect('${sandboxID}')
console.log((await sandbox.commands.run('uname -a')).stdout)`,
    ],
    [
      'Python',
      `${environment}

from e2b import Sandbox
sandbox = Sandbox.connect("${sandboxID}")
print(sandbox.commands.run("uname -a").stdout)`,
    ],
    [
      'curl',
      `curl ${origin}/sandboxes/${sandboxID} -H "X-API-Key: $E2B_API_KEY"

# Keep it for ten minutes more
curl -X POST ${origin}/sandboxes/${sandboxID}/timeout \\
  -H "X-API-Key: $E2B_API_KEY" -H "Content-Type: application/json" -d '{"timeout":600}'`,
    ],
    ['Shell', `${environment}\n\nnpx @e2b/cli sandbox connect ${sandboxID}`],
  ]
}
