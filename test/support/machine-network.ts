/**
 * A network of machines for tests: each machine is a network namespace with one link to a bridge, on which this process
 * has an address too. Cutting a machine off takes its link down, so that packets to and from it vanish without a word.
 */
import { runCommand } from '../../src/lib/run-command.ts'
import { names, run } from './traces.ts'
import { type Isolation, isolationNumber, seat, testPlace } from './warren.ts'

export type MachineNetwork = {
  /** Where machines reach what this process serves. */
  hostAddress: string
  addMachine(index: number): Promise<TestMachine>
  remove(): Promise<void>
}

export type TestMachine = {
  /** The path of its network namespace. */
  namespace: string
  address: string
  cut(): Promise<void>
  mend(): Promise<void>
  /** Nothing that it sends to the other machine arrives there; all others it reaches. */
  cutFrom(other: TestMachine): Promise<void>
  mendTo(other: TestMachine): Promise<void>
}

/** A name of a link has at most 15 characters. */
export async function makeMachineNetwork(isolation: Isolation): Promise<MachineNetwork> {
  const number = 16 * testPlace + 2 * seat + isolationNumber(isolation)
  const [prefix, network] = [`wtest${number}`, `198.19.${number}`]
  const bridge = `${prefix}-br`
  // What a test that was cut off left.
  removeNetwork(prefix, bridge)
  await ip('link', 'add', bridge, 'type', 'bridge')
  await ip('address', 'add', `${network}.1/24`, 'dev', bridge)
  await ip('link', 'set', bridge, 'up')
  return {
    hostAddress: `${network}.1`,
    async addMachine(index) {
      const [name, link, address] = [`${prefix}-${index}`, `${prefix}-l${index}`, `${network}.${10 + index}`]
      await ip('netns', 'add', name)
      await ip('link', 'add', link, 'master', bridge, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
      await ip('link', 'set', link, 'up')
      await ip('-n', name, 'link', 'set', 'lo', 'up')
      await ip('-n', name, 'address', 'add', `${address}/24`, 'dev', 'eth0')
      await ip('-n', name, 'link', 'set', 'eth0', 'up')
      return {
        namespace: `/run/netns/${name}`,
        address,
        cut: () => ip('link', 'set', link, 'down'),
        mend: () => ip('link', 'set', link, 'up'),
        // No machine has this hardware address.
        cutFrom: (other) =>
          ip(...neighbour(name, 'replace', other), 'lladdr', '02:00:00:00:00:01', 'nud', 'permanent'),
        mendTo: (other) => ip(...neighbour(name, 'del', other)),
      }
    },
    remove: async () => removeNetwork(prefix, bridge),
  }
}

const neighbour = (name: string, verb: string, { address }: TestMachine) => [
  '-n',
  name,
  'neigh',
  verb,
  address,
  'dev',
  'eth0',
]

function removeNetwork(prefix: string, bridge: string): void {
  for (const name of names('/run/netns').filter((one) => one.startsWith(`${prefix}-`)))
    run('ip', 'netns', 'del', name)
  run('ip', 'link', 'del', bridge)
}

const ip = (...args: string[]): Promise<void> => runCommand('ip', args).then(() => {})
