/** SSH and git from a sandbox to a real host outside, as its network rules say. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ALL_TRAFFIC, NotFoundError, Sandbox, Secret } from 'e2b'
import { elsewhere, internet } from '../../src/drivers/oci/suite/outside.ts'
import { eventually } from '../support/eventually.ts'
import { type GitHost, makeGitHost } from '../support/git-host.ts'
import { NamedWorld, socksPort } from '../support/named-world.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const name = 'allowed.test'
const login = Buffer.from('agent:hidden-token').toString('base64')

for (const isolation of isolations) {
  describe(`SSH and git, ${isolation}`, () => {
    let warren: Warren
    let host: GitHost
    const outside = new NamedWorld([name])
    before(async () => {
      warren = await startWarren(isolation, { settings: { ...outside.settings, ...noWarmPool } })
      host = await makeGitHost(outside.folder, `Basic ${login}`)
      await outside.open(warren.dataFolder, host.program)
    })
    after(async () => {
      await outside.close()
      await warren?.stop()
    })

    type Network = NonNullable<Parameters<typeof Sandbox.create>[1]>['network']
    /** A sandbox that has the key to the host, and knows the host's. */
    async function create(network: Network): Promise<Sandbox> {
      const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000, network })
      await sandbox.files.write([
        { path: '.ssh/id_ed25519', data: host.clientKey },
        { path: '.ssh/known_hosts', data: `${internet},${name} ${host.hostKey}\n` },
        { path: 'authority.pem', data: outside.authority },
      ])
      const identity =
        'git config --global user.name Agent && git config --global user.email agent@example.com'
      await sandbox.commands.run(`chmod 600 .ssh/id_ed25519 && ${identity}`)
      return sandbox
    }
    const options = { timeoutMs: 300_000, envs: { GIT_TERMINAL_PROMPT: '0' } }
    const run = async (sandbox: Sandbox, command: string) =>
      (await sandbox.commands.run(`{ ${command}\n} 2>&1`, options)).stdout
    const ssh = (to: string) => `ssh -o BatchMode=yes git@${to}`

    /** Clones, commits, pushes, and sees in another clone what came there. */
    async function pushes(sandbox: Sandbox, url: string): Promise<void> {
      const text = `${isolation} ${url} ${Date.now()}`
      await run(
        sandbox,
        `set -e; rm -rf one two; git clone -q ${url} one; cd one; echo '${text}' > file; git add file
git commit -qm change; git push -q origin HEAD:main; cd; git clone -q ${url} two`,
      )
      assert.equal(await sandbox.files.read('two/file'), `${text}\n`)
    }

    /** Fails as if nobody listened there, and not by waiting. */
    async function refuses(sandbox: Sandbox, to: string): Promise<void> {
      const url = `ssh://git@${to}/~/repo.git`
      assert.match(await run(sandbox, `${ssh(to)} true; echo $?`), /port 22: Connection refused\s+255\n$/)
      const cloned = await run(sandbox, `git clone ${url} refused; echo $?`)
      assert.match(cloned, /Connection refused.*Could not read from remote repository.*\n128\n$/s)
    }

    it('work with a host whose address is allowed, and are rejected at once for all others', async () => {
      const sandbox = await create({ allowOut: [internet], denyOut: [ALL_TRAFFIC] })
      const said = await run(sandbox, `${ssh(internet)} 'echo $USER $SSH_CONNECTION'`)
      assert.match(said, new RegExp(`^git \\S+ \\d+ ${internet} 22\n$`))
      await pushes(sandbox, `git@${internet}:repo.git`)
      await refuses(sandbox, elsewhere)
      await sandbox.updateNetwork({ allowOut: [elsewhere], denyOut: [ALL_TRAFFIC] })
      await refuses(sandbox, internet)
      await sandbox.updateNetwork({ allowInternetAccess: false })
      await refuses(sandbox, internet)
      await sandbox.kill()
    })

    it('are distinguished if a name is allowed: git over TLS works, SSH needs the address too', async () => {
      const sandbox = await create({ allowOut: [name], denyOut: [ALL_TRAFFIC] })
      await run(sandbox, 'git config --global http.sslCAInfo ~/authority.pem')
      await pushes(sandbox, `https://agent:hidden-token@${name}/repo.git`)
      await refuses(sandbox, name)
      await sandbox.updateNetwork({ allowOut: [name, internet], denyOut: [ALL_TRAFFIC] })
      assert.equal(await run(sandbox, `${ssh(name)} echo there`), 'there\n')
      await sandbox.kill()
    })

    it('lose open sessions when the host is denied', async () => {
      const sandbox = await create({ allowOut: [internet], denyOut: [ALL_TRAFFIC] })
      const session = (command: string) =>
        sandbox.commands.run(`${ssh(internet)} '${command}'`, {
          background: true,
          stdin: true,
          timeoutMs: 300_000,
        })
      const busy = await session('while echo tick; do sleep 0.1; done')
      const quiet = await session(`while read line; do echo "$line" | tee -a heard; done`)
      await sandbox.commands.sendStdin(quiet.pid, 'before\n')
      await eventually(() => {
        assert.match(busy.stdout, /tick/)
        assert.equal(quiet.stdout, 'before\n')
      })
      await sandbox.updateNetwork({ denyOut: [internet] })
      // A session that was just about to speak may be over by now, or about to end.
      await sandbox.commands.sendStdin(quiet.pid, 'after\n').catch((error: Error) => {
        assert.ok(error instanceof NotFoundError || error.message.includes('EPIPE'), error)
      })
      for (const cut of [busy, quiet]) {
        await assert.rejects(cut.wait(), (error: { exitCode?: number }) => error.exitCode === 255)
        assert.match(cut.stderr, /Connection reset|Broken pipe|Connection.*closed/)
      }
      await sandbox.updateNetwork({})
      assert.equal(await run(sandbox, `${ssh(internet)} cat heard`), 'before\n')
      await sandbox.kill()
    })

    it('push with a login that the sandbox never has', async () => {
      await Secret.create('git-login', login, warren.client)
      const headers = { Authorization: `Basic ${Secret.fill('git-login')}` }
      const allowed = { allowOut: [name], denyOut: [ALL_TRAFFIC] }
      const sandbox = await create({ ...allowed, rules: { [name]: [{ transform: { headers } }] } })
      await pushes(sandbox, `https://${name}/repo.git`)
      await sandbox.updateNetwork(allowed)
      await run(sandbox, 'git config --global http.sslCAInfo ~/authority.pem')
      assert.match(await run(sandbox, 'git -C one push; true'), /could not read Username/)
      await sandbox.kill()
    })

    it('go through the egress proxy', async () => {
      const sandbox = await create({ egressProxy: { address: `proxy.test:${socksPort}` } })
      assert.equal(await run(sandbox, `${ssh(name)} echo there`), 'there\n')
      await outside.sees(/carried \S+ 22\n/)
      await sandbox.kill()
    })
  })
}
