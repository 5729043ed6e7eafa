/**
 * Every age of the published clients, from the oldest that speaks this protocol to the newest, each with what it needs
 * of the operator: nothing, a domain, or a domain and the switch for clients older than access tokens.
 * docs/moving-from-e2b.md shows the same list.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { trustSettings } from '../support/host-authorities.ts'
import { npmWith } from '../support/javascript.ts'
import { type NameServer, startNameServer } from '../support/name-server.ts'
import { pythonWith } from '../support/python.ts'
import { isolations, noWarmPool, repoFolder, startWarren, type Warren } from '../support/warren.ts'

const domain = 'warren.test'
const programs = join(import.meta.dirname, 'clients')

type Needs = 'nothing' | 'a domain' | 'the switch'
const javaScript: Record<string, Needs> = {
  '1.0.1': 'the switch',
  // The one of @vibe-kit/e2b.
  '1.2.0-beta.4': 'the switch',
  '1.2.1': 'the switch',
  '1.4.0': 'the switch',
  '1.5.0': 'a domain',
  '1.9.1': 'a domain',
  '1.13.2': 'a domain',
  '2.0.1': 'a domain',
  '2.6.4': 'a domain',
  '2.7.0': 'nothing',
  // Up to here calls for files do not say which sandbox they are for.
  '2.14.0': 'nothing',
  '2.20.1': 'nothing',
  '2.35.3': 'nothing',
  '2.45.0': 'nothing',
  '2.51.0': 'nothing',
}
const python: Record<string, Needs> = {
  '1.0.0': 'the switch',
  '1.0.5': 'the switch',
  '1.3.3': 'the switch',
  '1.4.0': 'the switch',
  '1.5.0': 'a domain',
  '1.11.1': 'a domain',
  '2.0.0': 'a domain',
  '2.6.4': 'a domain',
  '2.7.0': 'nothing',
  // Up to 2.25.0 calls after a connect do not say which sandbox they are for.
  '2.20.3': 'nothing',
  // Up to here the connect itself seems to be for the sandbox.
  '2.26.0': 'nothing',
  '2.35.0': 'nothing',
  '2.45.1': 'nothing',
  '2.63.0': 'nothing',
}

type Client = { name: string; needs: Needs; command(): [program: string, args: string[]] }
const clients: Client[] = [
  ...Object.entries(javaScript).map(([version, needs]) => ({
    name: `JavaScript ${version}`,
    needs,
    command(): [string, string[]] {
      return [join(repoFolder, 'bin/node'), [join(programs, 'client.ts'), npmWith(`e2b@${version}`), 'e2b']]
    },
  })),
  ...Object.entries(python).map(([version, needs]) => ({
    name: `Python ${version}`,
    needs,
    command(): [string, string[]] {
      return [pythonWith(`e2b==${version}`), [join(programs, 'client.py')]]
    },
  })),
]

/** With the newest `e2b` that they accept, as an installation of today gets it. Those before 2.0 need the switch to run code. */
const interpreters: Client[] = [
  ...['1.0.4', '1.5.1', '2.0.0'].map(
    (version): Client => ({
      name: `the code interpreter's JavaScript ${version}`,
      needs: version < '2' ? 'the switch' : 'a domain',
      command() {
        const folder = npmWith(`@e2b/code-interpreter@${version}`)
        return [join(repoFolder, 'bin/node'), [join(programs, 'interpreter.ts'), folder]]
      },
    }),
  ),
  ...['1.0.5', '1.5.2'].map(
    (version): Client => ({
      name: `the code interpreter's Python ${version}`,
      needs: 'the switch',
      command: () => [pythonWith(`e2b-code-interpreter==${version}`), [join(programs, 'interpreter.py')]],
    }),
  ),
]

for (const isolation of isolations) {
  describe(`clients with an address (${isolation})`, { timeout: 1_800_000 }, () => {
    let warren: Warren
    let names: NameServer
    before(async () => {
      // Knows no name of the outside, so a client that does not stay here fails.
      names = await startNameServer(domain)
      warren = await startWarren(isolation, { settings: noWarmPool })
    })
    after(async () => {
      await warren?.stop()
      await names?.close()
    })
    for (const client of clients.filter(({ needs }) => needs === 'nothing')) {
      it(`${client.name} needs nothing else`, async () => {
        const { output, code } = await run(names, client, warren.environment)
        assert.equal(code, 0, output)
        assert.match(output, /^done$/m)
      })
    }
  })

  describe(`clients with a domain (${isolation})`, { timeout: 1_800_000 }, () => {
    let warren: Warren
    let names: NameServer
    let folder: string
    let environment: Record<string, string>
    before(async () => {
      folder = mkdtempSync(join(tmpdir(), 'clients-'))
      const made = warrenCommand(['cert', '--domain', domain, '--out', folder, '--json'], {})
      const { settings, trust } = JSON.parse(made)
      names = await startNameServer(domain)
      warren = await startWarren(isolation, {
        settings: { ...noWarmPool, ...trustSettings(), ...settings, WARREN_ALLOW_INSECURE_SANDBOXES: 'no' },
      })
      environment = { ...JSON.parse(warrenCommand(['env', '--json'], warren)), ...trust }
    })
    after(async () => {
      await warren?.stop()
      await names?.close()
      rmSync(folder, { recursive: true, force: true })
    })

    const inFirstUse = { timeout: 900_000 }
    it('have the template of the code interpreter', inFirstUse, () => {
      warrenCommand(['template', 'add', 'code-interpreter'], warren)
    })

    const works = async (client: Client) => {
      const { output, code } = await run(names, client, environment)
      assert.equal(code, 0, output)
      assert.match(output, /^done$/m)
    }
    for (const client of [...clients, ...interpreters].filter(({ needs }) => needs !== 'the switch')) {
      it(`${client.name} needs nothing else`, () => works(client))
    }
    for (const client of [...clients, ...interpreters].filter(({ needs }) => needs === 'the switch')) {
      it(`${client.name} is told of the switch, and works with it`, async () => {
        warrenCommand(['team', 'older-clients', 'default', 'no'], warren)
        const { output, code } = await run(names, client, environment)
        assert.notEqual(code, 0)
        // JavaScript's code interpreter shows no more than the status.
        assert.match(output, /warren team older-clients (default|TEAM) yes|401 Unauthorized/)
        warrenCommand(['team', 'older-clients', 'default', 'yes'], warren)
        await works(client)
      })
    }
  })
}

function warrenCommand(args: string[], { dataFolder }: Partial<Warren>): string {
  const env = { PATH: process.env.PATH, ...(dataFolder !== undefined && { WARREN_DATA_DIR: dataFolder }) }
  return execFileSync(join(repoFolder, 'bin/warren'), args, { encoding: 'utf8', env })
}

async function run(
  names: NameServer,
  client: Client,
  environment: Record<string, string>,
): Promise<{ output: string; code: unknown }> {
  const { PATH, HOME } = process.env
  const child = names.spawn(...client.command(), { PATH, HOME, ...environment })
  let output = ''
  child.stdout?.on('data', (chunk) => (output += chunk))
  child.stderr?.on('data', (chunk) => (output += chunk))
  const timer = setTimeout(() => child.kill('SIGKILL'), 120_000)
  const code = await new Promise((resolve) => child.once('close', resolve))
  clearTimeout(timer)
  return { output, code }
}
