/** The outside for network tests: a network namespace that has the addresses to which tests send packets. */
import { type ChildProcess, spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { runCommand } from '../../../lib/run-command.ts'
import type { OciBench } from './bench.ts'

const lockFile = join(tmpdir(), 'warren-test-outside.lock')

/** Documentation addresses, which belong to nobody. They stand for the internet. */
export const internet = '198.51.100.7'
export const elsewhere = '198.51.100.200'
export const nameServer = '172.31.231.53'
export const closed = [
  '10.231.0.7',
  '100.100.231.7',
  '169.254.231.7',
  '172.31.231.7',
  '192.168.231.7',
  '198.18.231.7',
]
export const port = 7777
/** On this port the server sends data ten times a second until the connection ends. */
export const talkativePort = 7778

/** Answers every client on a few ports and prints each sender of a datagram. */
export const outsideServer = `
import socket, threading, time
def serve(server, answer):
    while True:
        client, peer = server.accept()
        threading.Thread(target=answer, args=(client, peer), daemon=True).start()
def once(client, peer):
    client.sendall(('from ' + peer[0]).encode()); client.close()
def talk(client, peer):
    try:
        while True: client.sendall(b'tick\\n'); time.sleep(0.1)
    except OSError: client.close()
def listen(datagrams, port):
    while True:
        data, peer = datagrams.recvfrom(100); print(peer[0], port, data.decode(), flush=True)
for port in (${port}, ${talkativePort}, 53, 80, 443):
    server = socket.create_server(('', port))
    threading.Thread(target=serve, args=(server, talk if port == ${talkativePort} else once)).start()
for port in (${port}, 53, 443):
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagrams.bind(('', port))
    threading.Thread(target=listen, args=(datagrams, port)).start()
print('ready', flush=True)
`

const endWithParent = `import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
`

export class Outside {
  readonly #netns: string
  readonly #link: string
  readonly #program: string
  #server: ChildProcess | undefined
  #printed = ''

  /** `server` is a Python program that prints `ready` when it answers. */
  constructor(instance: string, server = outsideServer) {
    this.#program = server
    this.#netns = `outside-${instance}`
    this.#link = `o${instance}`
  }

  /** Waits until no other outside is open: a machine has one at a time, because the addresses are always the same. */
  async open(): Promise<void> {
    const script = ['sh', '-ec', this.#setUp(), 'sh', endWithParent + this.#program]
    this.#server = spawn('flock', ['--no-fork', lockFile, ...script], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#server.stdout!.on('data', (chunk) => {
      this.#printed += chunk
    })
    await this.sees(/ready/)
  }

  #setUp(): string {
    const [netns, link] = [this.#netns, this.#link]
    const addresses = [internet, elsewhere, nameServer, ...closed]
    return `for left in $(ls /run/netns | grep '^outside-'); do
  [ "$(ip netns pids "$left")" ] || ip netns del "$left"
done
ip -batch - <<END
netns add ${netns}
link add ${link} type veth peer name eth0 netns ${netns}
address add 203.0.113.1/30 dev ${link}
link set ${link} up
END
ip -n ${netns} -batch - <<END
link set lo up
address add 203.0.113.2/30 dev eth0
link set eth0 up
route add default via 203.0.113.1
${addresses.map((address) => `address add ${address}/32 dev lo`).join('\n')}
END
ip -batch - <<END
${addresses.map((address) => `route add ${address}/32 via 203.0.113.2`).join('\n')}
END
exec nsenter --net=/run/netns/${netns} python3 -c "$1"`
  }

  async sees(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.#printed)) {
      await new Promise((resolve, reject) => {
        this.#server!.stdout!.once('data', resolve)
        this.#server!.once('exit', () => reject(new Error(`the outside ended; it saw: ${this.#printed}`)))
      })
    }
    return this.#printed
  }

  /** Number of datagrams with this text that have arrived. */
  count(text: string): number {
    return this.#printed.split(text).length - 1
  }

  /** Whether it can open a connection, from an address to which sandboxes may send. */
  async connects(host: string, to: number): Promise<boolean> {
    const script = `import socket; socket.create_connection(('${host}', ${to}), 1, ('${internet}', 0))`
    return runCommand('nsenter', [`--net=/run/netns/${this.#netns}`, 'python3', '-c', script]).then(
      () => true,
      () => false,
    )
  }

  async close(): Promise<void> {
    await runCommand('ip', ['link', 'del', this.#link]).catch(() => {})
    await runCommand('ip', ['netns', 'del', this.#netns]).catch(() => {})
    this.#server?.kill('SIGKILL')
  }
}

/** Connects to all targets at once and returns each answer, or an empty text. A silent target takes the whole timeout. */
export async function reachFrom(
  bench: OciBench,
  handle: DriverHandle,
  targets: string[],
  withinSeconds = 30,
): Promise<string[]> {
  const one = (target: string) =>
    `(answer=$(timeout ${withinSeconds} bash -c 'exec 3<>/dev/tcp/${target.replace(':', '/')} && head -c 100 <&3' 2>/dev/null); echo "${target} $answer") &`
  const output = await bench.run(handle, `${targets.map(one).join('\n')}\nwait`)
  const answers = new Map(
    output
      .trim()
      .split('\n')
      .map((line) => [line.split(' ')[0], line.split(' ').slice(1).join(' ')]),
  )
  return targets.map((target) => answers.get(target) ?? 'not tried')
}
