/** Let's Encrypt's own test authority, with a name server that leads every name to this machine. Both on loopback. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findGo } from '../../src/app/setup/go-toolchain.ts'
import { issueCertificate, makeAuthority } from '../../src/lib/certificates.ts'
import { eventually } from './eventually.ts'
import { cacheFolder } from './warren.ts'

const version = 'v2.10.1'
const programs = ['pebble', 'pebble-challtestsrv']

export type Pebble = {
  directory: string
  /** The authority of the directory's own certificate. */
  trustFile: string
  /** What certificates of this authority lead to. */
  readRoot(): Promise<string>
  /** A program for WARREN_ACME_DNS; while the file `mute` exists beside it, it sets nothing. */
  dnsProgram: string
  muteFile: string
  /** How often a certificate was asked for. */
  countOrders(): number
  close(): void
}

type PebbleOptions = { folder: string; firstPort: number; httpPort: number; validSeconds: number }

export async function startPebble(options: PebbleOptions): Promise<Pebble> {
  const bin = await installPebble()
  const { folder, firstPort, httpPort, validSeconds } = options
  const [acme, management, dns, control] = [0, 1, 2, 3].map((offset) => firstPort + offset)
  const inFolder = (name: string) => join(folder, name)
  const authority = makeAuthority('of the directory')
  const leaf = issueCertificate(authority, { names: ['localhost'], days: 1 })
  writeFileSync(inFolder('directory-ca.pem'), authority.certificate)
  writeFileSync(inFolder('directory.pem'), leaf.certificate)
  writeFileSync(inFolder('directory-key.pem'), leaf.key)
  const settings = {
    listenAddress: `127.0.0.1:${acme}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: inFolder('directory.pem'),
    privateKey: inFolder('directory-key.pem'),
    httpPort,
    tlsPort: httpPort,
    ocspResponderURL: '',
    externalAccountBindingRequired: false,
    profiles: { default: { description: 'short', validityPeriod: validSeconds } },
  }
  writeFileSync(inFolder('pebble.json'), JSON.stringify({ pebble: settings }))
  const names = spawn(
    join(bin, 'pebble-challtestsrv'),
    [
      ...[
        '-dnsserver',
        `127.0.0.1:${dns}`,
        '-management',
        `127.0.0.1:${control}`,
        '-defaultIPv4',
        '127.0.0.1',
      ],
      ...['-defaultIPv6', '', '-http01', '', '-https01', '', '-tlsalpn01', '', '-doh', ''],
    ],
    { stdio: 'ignore' },
  )
  const server = spawn(
    join(bin, 'pebble'),
    ['-config', inFolder('pebble.json'), '-dnsserver', `127.0.0.1:${dns}`],
    {
      env: { PATH: process.env.PATH, PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: '5' },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  let output = ''
  for (const stream of [server.stdout, server.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk
    })
  }
  const dnsProgram = inFolder('set-record')
  const muteFile = inFolder('mute')
  writeFileSync(dnsProgram, recordProgram(`http://127.0.0.1:${control}`, muteFile))
  chmodSync(dnsProgram, 0o755)
  const children: ChildProcess[] = [names, server]
  const ask = (url: string) =>
    execFileSync('curl', ['-sf', '--cacert', inFolder('directory-ca.pem'), url], { encoding: 'utf8' })
  const directory = `https://localhost:${acme}/dir`
  await eventually(() => void ask(directory))
  return {
    directory,
    trustFile: inFolder('directory-ca.pem'),
    readRoot: async () => ask(`https://localhost:${management}/roots/0`),
    dnsProgram,
    muteFile,
    countOrders: () => output.split('Added order').length - 1,
    close() {
      for (const child of children) child.kill()
    },
  }
}

const recordProgram = (control: string, muteFile: string) => `#!/bin/sh
set -eu
[ ! -e ${muteFile} ] || exit 0
if [ "$1" = add ]; then call=set-txt; else call=clear-txt; fi
curl -sf -d "{\\"host\\":\\"$2.\\",\\"value\\":\\"$3\\"}" ${control}/$call
`

/** Built once, by the Go of this machine, from the sources of the module proxy. */
async function installPebble(): Promise<string> {
  const bin = join(cacheFolder, `pebble-${version}`)
  if (programs.every((name) => existsSync(join(bin, name)))) return bin
  mkdirSync(bin, { recursive: true })
  const go = await findGo()
  if (!go) throw new Error('Pebble needs Go: install it, or put it on the path')
  for (const name of programs) {
    const module = `github.com/letsencrypt/pebble/v2/cmd/${name}@${version}`
    execFileSync(go.program, ['install', module], { env: { ...process.env, ...go.environment, GOBIN: bin } })
  }
  return bin
}
