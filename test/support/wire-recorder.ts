/** Records every frame that arrives at one end of a wire, and says which of them a sandbox sent. */
import { type ChildProcess, spawn } from 'node:child_process'

export type Packet = {
  protocol: number
  source: string
  target: string
  /** Of UDP and TCP. */
  port: number
  /** A TCP packet that opens no connection. */
  isLater: boolean
  /** The sender that the packet's text claims. */
  claimed: string | undefined
}

/**
 * Python that prints a line for each frame on a link: its ether type, and for IPv4 the protocol, sender, target, port and
 * flags; then the sender that its text claims. `direction` as the kernel has it: 0 arrives here, 4 leaves.
 */
export const recorder = (link: string, direction: 0 | 4): string => `
import re, socket, struct
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
frames.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
frames.bind(('${link}', 3))
print('ready', flush=True)
while True:
    try: data, where = frames.recvfrom(65536)
    except OSError: break
    if where[2] ${direction === 4 ? '!=' : '=='} 4: continue
    kind, at = struct.unpack('>H', data[12:14])[0], 14
    claimed = re.search(rb'wire (\\S+) end', data)
    words = ['frame', '%04x' % kind]
    if kind == 0x800 and len(data) >= 34:
        start = at + (data[at] & 15) * 4
        port = struct.unpack('>H', data[start + 2:start + 4])[0] if data[at + 9] in (6, 17) and len(data) >= start + 4 else 0
        later = data[at + 9] == 6 and len(data) > start + 13 and data[start + 13] & 0x12 != 2
        words += [str(data[at + 9]), socket.inet_ntoa(data[at + 12:at + 16]), socket.inet_ntoa(data[at + 16:at + 20]), str(port), 'later' if later else 'first']
    print(*words, claimed.group(1).decode() if claimed else '-', flush=True)
`

/** Frames that are not IPv4 are left out, unless a sandbox sent them. */
export function packetsIn(printed: string): (Packet | string)[] {
  return printed.split('\n').flatMap((line): (Packet | string)[] => {
    const words = line.split(' ')
    if (words[0] !== 'frame' || words.length < 3) return []
    const claimed = words.at(-1) === '-' ? undefined : words.at(-1)
    if (words.length < 8) return claimed === undefined ? [] : [line]
    const [, , protocol, source, target, port, order] = words as [string, ...string[]]
    return [
      {
        protocol: Number(protocol),
        source: source!,
        target: target!,
        port: Number(port),
        isLater: order === 'later',
        claimed,
      },
    ]
  })
}

/** A recorder on a link of this machine. */
export class LinkRecorder {
  readonly #program: ChildProcess
  #printed = ''

  constructor(link: string) {
    this.#program = spawn('python3', ['-c', endWithInput + recorder(link, 4)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#program.stdout!.on('data', (chunk) => {
      this.#printed += chunk
    })
  }

  /** Everything so far, and nothing before the recorder is ready. */
  get printed(): string {
    return this.#printed
  }

  close(): void {
    this.#program.kill('SIGKILL')
  }
}

const endWithInput = `import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
`
