/** A real OCI driver on this machine for tests: its own data folder, names and subnet, and a stand-in agent. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freeNetwork } from '../../../../test/support/leftovers.ts'
import { testMachine } from '../../../../test/support/test-machine.ts'
import { installedProgram } from '../../../app/isolation/isolation-runtime.ts'
import type { DriverHandle, SandboxSpec } from '../../../core/ports/driver.ts'
import { delay } from '../../../lib/clock.ts'
import { listed, newSpec } from '../../driver-fixture.ts'
import type { FailureBench } from '../../failure-suite.ts'
import { createLayout, instanceOf } from '../../host/record/layout.ts'
import type { RuntimeName } from '../../host/record/records.ts'
import type { SnapshotBench } from '../../snapshot-suite.ts'
import type { OciDriverOptions } from '../context/driver-options.ts'
import { createOciDriver, type OciDriver } from '../oci-driver.ts'
import { flavourOf } from '../runtime/flavours.ts'
import { startedPid } from '../runtime/runtime-files.ts'

export type OciBench = Omit<FailureBench, 'driver' | 'another'> & {
  driver: OciDriver
  another(): OciDriver
  snapshotFolder(name: string): string
  remember: SnapshotBench['remember']
  recall: SnapshotBench['recall']
  options: OciDriverOptions
  /** Starts a sandbox and waits until its stand-in agent answers. */
  sandbox(changes?: Partial<SandboxSpec>): Promise<DriverHandle>
  /** Runs a shell script as root inside the sandbox and returns its output. */
  run(handle: DriverHandle, script: string): Promise<string>
}

const agentPort = 49983
const poolSize = 3
export const testPidsLimit = 300

/** Accepts one connection after another: runs the script that it receives and sends back the output. */
const standInAgent = `use strict; use IO::Socket::INET;
$SIG{CHLD} = 'IGNORE';
my $server = IO::Socket::INET->new(LocalPort => ${agentPort}, Listen => 64, ReuseAddr => 1) or die $!;
while (1) {
  my $client = $server->accept or next;
  next if fork;
  $SIG{CHLD} = 'DEFAULT';
  open STDIN, '<&', $client; open STDOUT, '>&', $client; open STDERR, '>&', $client;
  if (open my $score, '>', '/proc/self/oom_score_adj') { print $score 500; close $score }
  exec '/bin/bash' or exit 127;
}
`

/**
 * Starts a process that holds the text in memory and sends it to every client; it is ready when the script ends. The
 * process of an earlier call is not killed: after a reboot of the sandbox its pid may belong to another process.
 */
const remember = (memory: string, file: string) => `echo '${file}' > /root/text
rm -f /root/memory /root/ready
setsid perl -e 'use IO::Socket::UNIX; my $text = shift;
  my $server = IO::Socket::UNIX->new(Local => "/root/memory", Listen => 5) or die $!;
  open my $out, ">", "/root/ready"; close $out;
  while (my $client = $server->accept) { print $client $text; close $client }' '${memory}' </dev/null >/dev/null 2>&1 &
while ! [ -e /root/ready ]; do sleep 0.01; done`

const recall = `perl -e 'use IO::Socket::UNIX; my $client = IO::Socket::UNIX->new(Peer => "/root/memory") or exit;
  print <$client>'; echo; cat /root/text`

export async function openOciBench(
  runtime: RuntimeName,
  subnet: string,
  changes: Partial<OciDriverOptions> = {},
): Promise<OciBench> {
  const machine = await testMachine()
  const { isolation } = flavourOf({ runtime })
  const runtimeBinary = installedProgram(machine.runtimes[isolation])
  if (!runtimeBinary)
    throw new Error(`${runtime} is not here: ${JSON.stringify(machine.runtimes[isolation])}`)
  await freeNetwork(changes.subnet ?? subnet)
  const folder = await mkdtemp(join(tmpdir(), 'warren-driver-'))
  const agentFolder = join(folder, 'agent')
  const brokenRootFolder = join(folder, 'empty-root')
  for (const each of [agentFolder, brokenRootFolder]) await mkdir(each, { mode: 0o755 })
  await writeFile(join(agentFolder, 'agent.pl'), standInAgent)
  const dataFolder = join(folder, 'data')
  const options: OciDriverOptions = {
    isolation,
    runtimeBinary,
    dataFolder,
    instance: instanceOf(dataFolder),
    subnet,
    poolSize,
    agentFolders: [agentFolder],
    dnsServers: [],
    poolDiskMB: 128,
    pidsLimit: testPidsLimit,
    platform: 'systrap',
    ...changes,
  }
  const driver = createOciDriver(options)
  await driver.prepare(brokenRootFolder)
  await driver.prepare(machine.baseRootFolder)
  const bench: OciBench = {
    driver,
    options,
    brokenRootFolder,
    rootFolder: machine.baseRootFolder,
    agent: {
      folder: agentFolder,
      command: ['/usr/bin/perl', '/.warren/agent.pl'],
      env: {},
      setHostname: ['/bin/hostname'],
    },
    another: () => createOciDriver(options),
    snapshotFolder: (name) => join(dataFolder, 'saved', name),
    remember: async (handle, memory, file) => {
      await runInside(driver, handle, remember(memory, file))
    },
    recall: async (handle) => {
      const [memory, file] = (await runInside(driver, handle, recall)).split('\n')
      return { memory: memory || undefined, file: file || undefined }
    },
    killProcesses: (handle) => killProcesses(options, handle),
    makeUnreadable: (sandboxID) => makeUnreadable(join(dataFolder, 'sandboxes', sandboxID, 'record.json')),
    breakEgress: () => breakEgress(options),
    isClosed: async (handle) => isClosed(options, driver.endpoint(handle, 0).host),
    traces: async () => tracesOf(options),
    settled: () => settled(driver, options),
    run: (handle, script) => runInside(driver, handle, script),
    sandbox: async (changes) => {
      const handle = await driver.start(newSpec(bench, changes))
      await runInside(driver, handle, 'true')
      return handle
    },
    close: async () => {
      for (const { handle } of await listed(driver)) await driver.stop(handle)
      // Opened and closed once more, to remove what another process left behind.
      await driver.open()
      await driver.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
  return bench
}

async function killProcesses(options: OciDriverOptions, { data }: DriverHandle): Promise<void> {
  const layout = createLayout(options.dataFolder, options.instance)
  process.kill((await startedPid(layout.sandbox(String(data.sandboxID))))!, 'SIGKILL')
}

/** Replaces the file by a folder, because root may read every file. */
async function makeUnreadable(path: string): Promise<() => Promise<void>> {
  await rename(path, `${path}.aside`)
  await mkdir(path)
  return async () => {
    await rmdir(path)
    await rename(`${path}.aside`, path)
  }
}

/** Deletes the firewall's table, so that changes fail. An unreadable record keeps the driver from loading it again. */
async function breakEgress({ dataFolder, instance }: OciDriverOptions): Promise<() => Promise<void>> {
  const { table, sandboxes } = createLayout(dataFolder, instance)
  const folder = join(sandboxes, 'unreadable')
  await mkdir(join(folder, 'record.json'), { recursive: true })
  spawnSync('nft', ['delete', 'table', 'inet', table])
  return () => rm(folder, { recursive: true })
}

function isClosed({ dataFolder, instance }: OciDriverOptions, address: string): boolean {
  const { table } = createLayout(dataFolder, instance)
  const element = `{ ${address} . 0.0.0.0-255.255.255.255 }`
  return spawnSync('nft', ['get', 'element', 'inet', table, 'denied', element]).status === 0
}

async function runInside(driver: OciDriver, handle: DriverHandle, script: string): Promise<string> {
  const { host, port } = driver.endpoint(handle, agentPort)
  for (let attempt = 0; ; attempt++) {
    try {
      return await converse(host, port, script)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // A sandbox without CPU time for seconds does not even answer ARP requests.
      if ((code !== 'ECONNREFUSED' && code !== 'EHOSTUNREACH') || attempt > 500) throw error
      await delay(20)
    }
  }
}

function converse(host: string, port: number, script: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const output: Buffer[] = []
    const socket = connect({ host, port, allowHalfOpen: true })
    socket.setTimeout(120_000, () => socket.destroy(new Error(`no end of: ${script}`)))
    socket.on('data', (chunk) => output.push(chunk))
    socket.on('error', reject)
    socket.on('end', () => {
      socket.destroy()
      resolve(Buffer.concat(output).toString())
    })
    socket.end(`${script}\n`)
  })
}

async function settled(driver: OciDriver, options: OciDriverOptions): Promise<void> {
  await driver.open()
  const { netnsPrefix, mountNamespaces } = createLayout(options.dataFolder, options.instance)
  for (let attempt = 0; attempt < 200; attempt++) {
    const running = (await driver.list()).length
    const names = namesIn('/run/netns', netnsPrefix)
    const disks = loopFiles().filter((file) => file.startsWith(join(options.dataFolder, 'disks')))
    const mountCount = textOf('/proc/self/mountinfo').split(` ${mountNamespaces}/`).length - 1
    if (names.length === poolSize + running && mountCount === names.length && disks.length === poolSize)
      return
    await delay(50)
  }
}

/** The backing file of each loop device. */
export function loopFiles(): string[] {
  return namesIn('/sys/block', 'loop').map((name) => textOf(`/sys/block/${name}/loop/backing_file`))
}

/** Cheap, because tests poll it: it runs one program and otherwise reads files with synchronous I/O. */
function tracesOf(options: OciDriverOptions): string[] {
  const layout = createLayout(options.dataFolder, options.instance)
  const paths = (folder: string, prefix?: string) => namesIn(folder, prefix).map((name) => join(folder, name))
  const pids = namesIn('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  const cgroups = ['.', ...namesIn('/sys/fs/cgroup')].flatMap((mount) =>
    foldersBelow(join('/sys/fs/cgroup', mount, layout.cgroupParent)),
  )
  return [
    ...pids
      .map((pid) => `process ${pid} ${textOf(`/proc/${pid}/cmdline`)}`)
      .filter((line) => line.includes(options.dataFolder)),
    ...textOf('/proc/self/mountinfo')
      .split('\n')
      .filter((line) => line.includes(layout.instance)),
    ...loopFiles().filter((file) => file.startsWith(options.dataFolder)),
    ...paths('/run/netns', layout.netnsPrefix),
    ...paths('/sys/class/net', layout.linkPrefix),
    ...cgroups,
    ...ruleElements(layout.table),
    ...paths(layout.runtimeStates),
    ...paths(layout.sandboxes),
    ...paths(layout.disks, 'slot-'),
    ...paths(layout.mountNamespaces),
  ]
}

/** The addresses in the sets that have elements for single sandboxes. */
function ruleElements(table: string): string[] {
  const { stdout } = spawnSync('nft', ['list', 'table', 'inet', table], { encoding: 'utf8' })
  const sets = [...stdout.matchAll(/^\tset (allowed|denied|gated|tunnelled) \{(.*?)^\t\}/gms)]
  return sets.flatMap(([, , text]) => text!.match(/\d+\.\d+\.\d+\.\d+/g) ?? [])
}

/** Returns no names if the folder does not exist. */
function namesIn(folder: string, prefix = ''): string[] {
  try {
    return readdirSync(folder).filter((name) => name.startsWith(prefix))
  } catch {
    return []
  }
}

function foldersBelow(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
    return entries
      .filter((entry) => entry.isDirectory())
      .map(({ parentPath, name }) => join(parentPath, name))
  } catch {
    // The folder does not exist, or parts of it vanished meanwhile. Callers count again until the number is stable.
    return []
  }
}

/** Returns an empty text if the file cannot be read, because a process may have ended. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return ''
  }
}
