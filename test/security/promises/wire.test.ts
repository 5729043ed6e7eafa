/**
 * The wire: as root, a sandbox does random things to and with its network while its policy changes. Recorders at the other
 * end, outside and on a neighbour's link, see every packet. Only what the policy of that moment allows may arrive,
 * and only from the sandbox's own address. `WARREN_TEST_SEED` repeats a run.
 */
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { ALL_TRAFFIC, Sandbox } from 'e2b'
import { parseSubnet } from '../../../src/drivers/host/network/addresses.ts'
import { createLayout, instanceOf } from '../../../src/drivers/host/record/layout.ts'
import { closed, elsewhere, internet, nameServer, Outside } from '../../../src/drivers/oci/suite/outside.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { countOf } from '../../support/count-of.ts'
import { eventually } from '../../support/eventually.ts'
import { newSeed, seeded } from '../../support/fuzz.ts'
import { isolations, noWarmPool, seat, startWarren, subnetOf, type Warren } from '../../support/warren.ts'
import { type ActorTask, actorProgram, firstPort, senderPorts } from '../../support/wire-actor.ts'
import { LinkRecorder, type Packet, packetsIn, recorder } from '../../support/wire-recorder.ts'

const seed = Number(process.env.WARREN_TEST_SEED) || newSeed()
/** What the masquerading host has outside. */
const hostOutside = '203.0.113.1'
const sentinelPort = 9

type Policy = { options: Parameters<Sandbox['updateNetwork']>[0]; reached: readonly string[] }
const both = [internet, elsewhere]
const policies: readonly Policy[] = [
  { options: {}, reached: both },
  { options: { allowInternetAccess: false }, reached: [] },
  { options: { denyOut: [ALL_TRAFFIC] }, reached: [] },
  { options: { denyOut: [internet] }, reached: [elsewhere] },
  { options: { allowOut: [internet], denyOut: [ALL_TRAFFIC] }, reached: [internet] },
  { options: { allowOut: ['allowed.test', '*.other.test'], denyOut: [ALL_TRAFFIC] }, reached: [] },
  { options: { allowOut: [elsewhere, 'allowed.test'], denyOut: [ALL_TRAFFIC] }, reached: [elsewhere] },
]

for (const isolation of isolations) {
  describe(`the wire of a sandbox, ${isolation}`, () => {
    let warren: Warren
    let outside: Outside
    let sandbox: Sandbox
    let neighbour: Sandbox
    let neighbourLink: LinkRecorder
    const layout = () => createLayout(warren.dataFolder, instanceOf(warren.dataFolder))
    const subnet = parseSubnet(subnetOf(isolation, seat))
    const addresses = new Map<Sandbox, string>()
    const slotOf = (one: Sandbox) =>
      [...Array(subnet.capacity).keys()].find((slot) => subnet.sandbox(slot) === addresses.get(one))!

    before(async () => {
      warren = await startWarren(isolation, {
        settings: { ...noWarmPool, WARREN_DNS_SERVERS: nameServer },
      })
      outside = new Outside(instanceOf(warren.dataFolder), recorder('eth0', 0))
      await outside.open()
      const create = async () => {
        const one = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
        addresses.set(one, (await one.commands.run('hostname -I')).stdout.trim().split(' ')[0]!)
        return one
      }
      ;[sandbox, neighbour] = [await create(), await create()]
      neighbourLink = new LinkRecorder(layout().link(slotOf(neighbour)))
      await eventually(() => assert.match(neighbourLink.printed, /ready/))
    })
    after(async () => {
      neighbourLink?.close()
      await outside?.close()
      await warren?.stop()
    })

    function taskOf(random: { below(limit: number): number }, framesOnly: boolean): ActorTask {
      const own = addresses.get(sandbox)!
      const slot = slotOf(sandbox)
      const link = own.replace(/\d+$/, (last) => String(Number(last) - 2))
      const broadcast = own.replace(/\d+$/, (last) => String(Number(last) + 1))
      const others = [link, broadcast, subnet.gateway(slot), addresses.get(neighbour)!, subnet.sandbox(50)]
      return {
        seed: random.below(2 ** 31),
        count: countOf(framesOnly ? { short: 40, long: 400 } : { short: 16, long: 120 }),
        // A socket may have 0.0.0.0, and sends from the usual address; a frame has what it says.
        senders: [
          own,
          link,
          ...others,
          '203.0.113.9',
          '192.0.2.7',
          '127.0.0.1',
          hostOutside,
          ...(framesOnly ? ['0.0.0.0'] : []),
        ],
        targets: [
          ...both,
          internet,
          ...closed.slice(0, 2),
          nameServer,
          addresses.get(neighbour)!,
          hostOutside,
        ],
        sendsAsOwn: isolation === 'gvisor' ? broadcast : null,
        gateway: subnet.gateway(slot),
        gatewayMAC: readFileSync(`/sys/class/net/${layout().link(slot)}/address`, 'utf8').trim(),
        framesOnly,
      }
    }

    /** In the background: what it does to its network may cut its own caller off for a moment. */
    async function actInside(task: ActorTask): Promise<string> {
      // What it did in the round before may have ended connections to it.
      await eventually(async () => {
        await sandbox.files.write('/root/actor.py', actorProgram(task), { user: 'root' })
      })
      const script =
        'rm -f /root/done; (timeout 120 python3 /root/actor.py > /root/out 2>&1; touch /root/done)'
      await sandbox.commands.run(`setsid bash -c '${script}' </dev/null >/dev/null 2>&1 &`, { user: 'root' })
      let output = ''
      await eventually(async () => {
        output = (await sandbox.commands.run('cat /root/done /root/out', { user: 'root' })).stdout
      })
      return output
    }

    async function actOutside(task: ActorTask): Promise<string> {
      const namespace = `--net=${layout().netnsPath(slotOf(sandbox))}`
      return (await runCommand('nsenter', [namespace, 'python3', '-c', actorProgram(task)])).stdout
    }

    let sentinels = 0
    /** Everything that was recorded since the last call: what the host sends now arrives after all that was sent before. */
    async function recorded(): Promise<(Packet | string)[]> {
      const text = `sentinel-${++sentinels}`
      const socket = createSocket('udp4')
      await new Promise((resolve) =>
        socket.send(`wire ${text} end`, sentinelPort, internet, () => socket.close(() => resolve(0))),
      )
      const printed = await outside.sees(new RegExp(`${text}\n`))
      const from = sentinels === 1 ? 0 : printed.indexOf(`sentinel-${sentinels - 1}\n`)
      return packetsIn(printed.slice(from)).filter((one) => !isSentinel(one))
    }
    const isSentinel = (one: Packet | string) =>
      typeof one !== 'string' && /^sentinel/.test(one.claimed ?? '')

    /** Why a packet outside may not be there. */
    function faultOf(packet: Packet | string, reached: readonly string[], own: string): string | undefined {
      if (typeof packet === 'string') return 'is no IPv4'
      const { source, target, port, claimed, protocol, isLater } = packet
      const isNumbered = (protocol === 6 || protocol === 17) && port >= firstPort
      if (claimed === undefined && !(isNumbered && !isLater)) return undefined
      if (source !== hostOutside) return 'has another sender than the host'
      if (claimed !== undefined && claimed !== own) return 'claims another sender'
      if (isNumbered && port >= firstPort + senderPorts) return 'is of another sender'
      return reached.includes(target) ? undefined : 'is not allowed by the policy'
    }

    it('carries only what the policy allows, and only from the sandbox’s own address', async (t) => {
      t.diagnostic(`WARREN_TEST_SEED=${seed}`)
      const random = seeded(seed)
      const own = addresses.get(sandbox)!
      const acts: string[] = []
      let last = policies[0]!
      let allowed = 0
      for (let round = 0; round < countOf({ short: policies.length + 1, long: 60 }); round++) {
        const policy = policies[round % policies.length]!
        // In one of three rounds, the policy changes meanwhile; then either holds.
        const isLate = random.below(3) === 0
        const change = () => sandbox.updateNetwork(policy.options)
        if (!isLate) await change()
        const task = taskOf(random, false)
        const [done] = await Promise.all([actInside(task), isLate ? change() : undefined])
        acts.push(done.trim(), (await actOutside(taskOf(random, true))).trim())
        const reached = isLate ? [...last.reached, ...policy.reached] : policy.reached
        const seen = await recorded()
        const faults = seen.flatMap((packet) => {
          const fault = faultOf(packet, reached, own)
          return fault ? [`${fault}: ${JSON.stringify(packet)}`] : []
        })
        const about = `seed ${seed}, round ${round}, ${JSON.stringify(policy.options)}; it did ${acts.slice(-2).join(' ')}`
        assert.deepEqual(faults.slice(0, 5), [], about)
        allowed += seen.filter((one) => typeof one !== 'string' && one.claimed === own).length
        last = policy
      }
      assert.ok(allowed > 0, 'packets from its own address that the policies allow arrive')
      t.diagnostic(`it did ${acts.join(' ')}; ${allowed} packets of its own arrived`)
    })

    it('leads to no neighbour', () => {
      const gateway = subnet.gateway(slotOf(neighbour))
      const strange = packetsIn(neighbourLink.printed).filter(
        (one) => typeof one === 'string' || one.claimed !== undefined || one.source !== gateway,
      )
      assert.deepEqual(strange, [])
    })
  })
}
