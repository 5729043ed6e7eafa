/** Docker in a sandbox of its built-in template: containers, builds, networks, ports, and what a pause does to them. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { ALL_TRAFFIC, Sandbox } from 'e2b'
import { instanceOf } from '../../src/drivers/host/record/layout.ts'
import { elsewhere, internet, Outside, outsideServer, port } from '../../src/drivers/oci/suite/outside.ts'
import { eventually } from '../support/eventually.ts'
import { trustSettings } from '../support/host-authorities.ts'
import { isolations, noWarmPool, repoFolder, startWarren, type Warren } from '../support/warren.ts'
import { packetsIn, recorder } from '../support/wire-recorder.ts'

/** An image without a registry: busybox of the sandbox, with its usual names. */
const importImage = `mkdir -p /tmp/root/bin && cp /bin/busybox /tmp/root/bin/ && cd /tmp/root &&
for name in sh cat echo httpd wget sleep rm mkdir ls ping nc printf; do ln -sf busybox bin/$name; done &&
tar -c . | docker import - tiny`

const dockerfile = `FROM tiny
RUN echo built > /index.html && rm /bin/wget && mkdir /more && echo more > /more/file
RUN rm -r /more && mkdir /more
CMD ["httpd", "-f", "-p", "80", "-h", "/"]
`

const composeFile = `version: "3"
services:
  web:
    image: tiny
    command: sh -c "echo composed > /index.html; exec httpd -f -p 80 -h /"
    ports: ["8082:80"]
  visitor:
    image: tiny
    command: sh -c "until wget -q -O- http://web/index.html; do sleep 0.2; done"
`

function addTemplate(warren: Warren) {
  return spawnSync(`${repoFolder}/bin/warren`, ['template', 'add', 'docker'], {
    env: { ...process.env, WARREN_DATA_DIR: warren.dataFolder },
    encoding: 'utf8',
  })
}

function visit(warren: Warren, sandbox: Sandbox, port: number): Promise<string> {
  const [ownPort, ...rest] = sandbox.getHost(port).split('-')
  assert.deepEqual([ownPort, rest.join('-').startsWith(sandbox.sandboxId)], [String(port), true])
  const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': String(port) }
  return fetch(`${warren.url}/index.html`, { headers }).then((answer) => answer.text())
}

const isText = (warren: Warren, sandbox: Sandbox, port: number, text: string) =>
  eventually(async () => assert.equal(await visit(warren, sandbox, port), text))

if (isolations.includes('gvisor')) {
  describe('Docker in a sandbox', { timeout: 1_200_000 }, () => {
    let warren: Warren
    let sandbox: Sandbox
    let outside: Outside
    before(async () => {
      warren = await startWarren('gvisor', { settings: { ...trustSettings(), ...noWarmPool } })
      const added = addTemplate(warren)
      assert.equal(added.status, 0, added.stdout + added.stderr)
      outside = new Outside(instanceOf(warren.dataFolder), outsideServer + recorder('eth0', 0))
      await outside.open()
      // The server, and then the recorder.
      await outside.sees(/ready\n(?:.*\n)*ready/)
      const network = { denyOut: [elsewhere] }
      sandbox = await Sandbox.create('docker', { ...warren.client, timeoutMs: 3_600_000, network })
      await run('sudo apt-get update -qq && sudo apt-get install -qq -y busybox-static')
      await run(importImage)
    })
    after(async () => {
      await outside?.close()
      await warren?.stop()
    })
    const run = async (command: string, on = sandbox): Promise<string> => {
      const { stdout } = await on.commands.run(command, { timeoutMs: 300_000 })
      return stdout.trim()
    }

    it('runs containers of the user, on a bridge and on the host’s network', async () => {
      assert.equal(await run('docker run --rm tiny echo bridged'), 'bridged')
      assert.equal(await run('docker run --rm --network=host tiny echo plain'), 'plain')
      // Root has no CAP_SYS_PTRACE and no CAP_SYS_RESOURCE to hand on.
      assert.match(await run('docker run --rm --privileged tiny echo powerful 2>&1 || true'), /apply caps/)
      assert.match(await run('docker info'), /Storage Driver: vfs/)
    })

    it('builds an image whose layers remove files, and serves it on a port that the sandbox’s host name reaches', async () => {
      await sandbox.files.write('/home/user/image/Dockerfile', dockerfile)
      await run('docker build -t served image')
      assert.equal(await run('docker run --rm served ls /more'), '')
      await assert.rejects(run('docker run --rm served ls /bin/wget'))
      await run('docker run -d --name served -p 8081:80 served')
      await isText(warren, sandbox, 8081, 'built\n')
    })

    const askOutside = (host: string) => `docker run --rm tiny nc -w 10 ${host} ${port} </dev/null`

    it('lets containers out of their bridge, within the egress policy of the sandbox', async () => {
      assert.match(await run(askOutside(internet)), /from/)
      await assert.rejects(run(askOutside(elsewhere)))
      await assert.rejects(run('docker run --rm tiny nc -w 5 169.254.169.254 80 </dev/null'))
    })

    it('lets nothing out that the policy does not allow, whatever network a container has', async (t) => {
      const policies: { options: Parameters<Sandbox['updateNetwork']>[0]; reached: string[] }[] = [
        { options: { allowInternetAccess: false }, reached: [] },
        { options: { allowOut: ['allowed.test'], denyOut: [ALL_TRAFFIC] }, reached: [] },
        { options: { allowOut: [internet], denyOut: [ALL_TRAFFIC] }, reached: [internet] },
        { options: { denyOut: [internet] }, reached: [elsewhere] },
      ]
      await run(
        'docker network create -d macvlan -o parent=eth0 --subnet 10.78.0.0/24 mac;' +
          'docker network create -d ipvlan -o parent=eth0 --subnet 10.79.0.0/24 ip; true',
      )
      const listed = (await run("docker network ls --format '{{.Name}}'")).split('\n')
      // The first two have the sandbox's own address outside, and the others have not.
      const networks = ['bridge', 'host', 'mac', 'ip'].filter((name) => listed.includes(name))
      t.diagnostic(`networks: ${networks}`)
      const connect = (network: string, port: number) => {
        const both = [internet, elsewhere].map((host) => `nc -w 1 ${host} ${port} </dev/null`)
        return run(`timeout 60 docker run --rm --network=${network} tiny sh -c '${both.join('; ')}' || true`)
      }
      const portOf = (policy: number, network: number) => 20_000 + 10 * policy + network
      for (const [at, { options }] of policies.entries()) {
        await sandbox.updateNetwork(options)
        for (const [index, name] of networks.entries()) await connect(name, portOf(at, index))
      }
      const seen = packetsIn(await outside.sees(/ready/)).flatMap((one) =>
        typeof one !== 'string' && one.protocol === 6 && one.port >= 20_000 && !one.isLater ? [one] : [],
      )
      const wrong = seen.filter(({ source, target, port }) => {
        const isOwn = (port - 20_000) % 10 < 2
        const reached = policies[Math.floor((port - 20_000) / 10)]?.reached
        return source !== '203.0.113.1' || !isOwn || !reached?.includes(target)
      })
      assert.deepEqual(wrong.slice(0, 5), [])
      assert.equal(new Set(seen.map(({ target, port }) => `${target}:${port}`)).size, 4)
      await sandbox.updateNetwork({ denyOut: [elsewhere] })
      await run('docker network rm mac ip || true')
    })

    it('runs a compose file, with a network and names of its own', async () => {
      await sandbox.files.write('/home/user/pair/docker-compose.yml', composeFile)
      await run('cd pair && docker compose up -d')
      await isText(warren, sandbox, 8082, 'composed\n')
      await eventually(async () =>
        assert.match(await run('cd pair && docker compose logs visitor'), /composed/),
      )
    })

    it('rejects a pause while containers have networks of their own, and keeps running', async () => {
      const refusal = /keeps running: a process in it has a network namespace of its own/
      await assert.rejects(sandbox.pause(), refusal)
      await assert.rejects(sandbox.fork(), refusal)
      await assert.rejects(sandbox.createSnapshot(), refusal)
      await isText(warren, sandbox, 8081, 'built\n')
      assert.equal(await run('docker ps --quiet --filter name=served | wc -l'), '1')
    })

    it('keeps containers on the sandbox’s own network over pause and fork, and recreates bridges', async () => {
      await run('cd pair && docker compose down')
      await run('docker rm -f served')
      const serve = 'docker run -d --name kept --network=host tiny sh -c'
      await run(`${serve} "mkdir /www; echo kept > /www/index.html; exec httpd -f -p 8083 -h /www"`)
      await isText(warren, sandbox, 8083, 'kept\n')
      await run('sudo mount -t tmpfs none /mnt && echo kept | sudo tee /mnt/file')
      await sandbox.pause()
      sandbox = await Sandbox.connect(sandbox.sandboxId, { ...warren.client, timeoutMs: 3_600_000 })
      const [fork] = await sandbox.fork({ timeoutMs: 3_600_000 })
      assert.ok(fork instanceof Sandbox, String(fork))
      for (const one of [sandbox, fork]) {
        await isText(warren, one, 8083, 'kept\n')
        assert.equal(await run('cat /mnt/file', one), 'kept')
        await eventually(async () => assert.equal(await run('docker run --rm tiny echo again', one), 'again'))
        assert.match(await run(askOutside(internet), one), /from/)
      }
      await fork.kill()
    })
  })
}

if (isolations.includes('container')) {
  it('the template `docker` reports that it needs gVisor if sandboxes are containers', async () => {
    const warren = await startWarren('container', { settings: { ...trustSettings(), ...noWarmPool } })
    try {
      const added = addTemplate(warren)
      assert.notEqual(added.status, 0)
      assert.match(added.stdout + added.stderr, /Docker needs a root user who may mount/)
    } finally {
      await warren.stop()
    }
  })
}
