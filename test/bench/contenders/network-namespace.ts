/** Prepared network namespaces with a link to the host, each for one sandbox that is started by hand. */
import { runCommand } from '../../../src/lib/run-command.ts'
import { testPlace } from '../../support/warren.ts'

export type NetworkNamespace = {
  namespacePath: string
  /** The address of the sandbox. */
  address: string
  /** gVisor takes address and routes off the interface when it starts: to be called before each start. */
  restore(): Promise<void>
  close(): Promise<void>
}

// The range that RFC 2544 sets aside for benchmarks. In each place others, so that all may run at once.
const networkOf = (number: number) => `198.18.${16 * testPlace + number}`

export async function openNetworkNamespace(number = 0): Promise<NetworkNamespace> {
  const name = `warren-bench-${process.pid}-${number}`
  const link = `wb${process.pid}-${number}`
  const [hostAddress, address] = [`${networkOf(number)}.1`, `${networkOf(number)}.2`]
  const ip = (...args: string[]) => runCommand('ip', args)
  const close = async () => {
    await ip('link', 'delete', link).catch(() => {})
    await ip('netns', 'delete', name).catch(() => {})
  }
  const restore = async () => {
    await ip('-n', name, 'address', 'replace', `${address}/30`, 'dev', 'eth0')
    await ip('-n', name, 'link', 'set', 'eth0', 'up')
    await ip('-n', name, 'route', 'replace', 'default', 'via', hostAddress)
  }
  try {
    await ip('netns', 'add', name)
    await ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
    await ip('address', 'add', `${hostAddress}/30`, 'dev', link)
    await ip('link', 'set', link, 'up')
    await ip('-n', name, 'link', 'set', 'lo', 'up')
    await restore()
  } catch (error) {
    await close()
    throw error
  }
  return { namespacePath: `/run/netns/${name}`, address, restore, close }
}
