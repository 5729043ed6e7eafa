/** A real OCI driver on this machine for tests: its own data folder, names and subnet, and a stand-in agent. */
import { mkdir, mkdtemp, readdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freeNetwork } from '../../../test/support/leftovers.ts'
import { testMachine } from '../../../test/support/test-machine.ts'
import type { DriverHandle, SandboxSpec } from '../../core/driver.ts'
import { delay } from '../../lib/clock.ts'
import { runCommand } from '../../lib/run-command.ts'
import { listed, newSpec } from '../driver-suite.ts'
import type { FailureBench } from '../failure-suite.ts'
import type { SnapshotBench } from '../snapshot-suite.ts'
import { flavourOf } from './flavours.ts'
import { createLayout, instanceOf } from './layout.ts'
import { createOciDriver, type OciDriver, type OciDriverOptions } from './oci-driver.ts'
import { startedPid } from './runtime-files.ts'
import type { RuntimeName } from './runtime-flavour.ts'

export type OciBench = Omit<FailureBench, 'driver' | 'another'> & {
  driver: OciDriver
  another(): OciDriver
  snapshotFolder(name: string): string
  remember: SnapshotBench['remember']
  recall: SnapshotBench['recall']
  options: OciDriverOptions
  /** Starts a sandbox and waits until its stand-in agent answers. */
  sandbox(changes?: Partial<SandboxSpec>): Promise<DriverHandle>
  /** Runs a shell script as root inside and gives back all it printed. */
  run(handle: DriverHandle, script: string): Promise<string>
}

const agentPort = 49983
const poolSize = 3
export const testPidsLimit = 300

/** Takes one connection after another: what comes in is a script, what it prints goes back. */
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
 * A process that holds the text and gives it to whoever connects, and is ready when the script ends. The one before it
 * is not ended: a number in a file may be that of another process, or of this script, once the sandbox was booted anew.
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
  const runtimeBinary = machine.runtimes[runtime]
  if (!runtimeBinary) throw new Error(`${runtime} is not here: ${machine.runscMissing}`)
  await freeNetwork(changes.subnet ?? subnet)
  const folder = await mkdtemp(join(tmpdir(), 'warren-driver-'))
  const agentFolder = join(folder, 'agent')
  const brokenRootFolder = join(folder, 'empty-root')
  for (const each of [agentFolder, brokenRootFolder]) await mkdir(each, { mode: 0o755 })
  await writeFile(join(agentFolder, 'agent.pl'), standInAgent)
  const dataFolder = join(folder, 'data')
  const options: OciDriverOptions = {
    ...{
      isolation: flavourOf({ runtime }).isolation,
      runtimeBinary,
      dataFolder,
      instance: instanceOf(dataFolder),
      subnet,
      poolSize,
    },
    agent: {
      folder: agentFolder,
      command: ['/usr/bin/perl', '/.warren/agent.pl'],
      env: {},
      setHostname: ['/bin/hostname'],
    },
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
    ...{ driver, options, brokenRootFolder, rootFolder: machine.baseRootFolder },
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
    traces: () => tracesOf(options),
    settled: () => settled(driver, options),
    run: (handle, script) => runInside(driver, handle, script),
    sandbox: async (changes) => {
      const handle = await driver.start(newSpec(machine.baseRootFolder, changes))
      await runInside(driver, handle, 'true')
      return handle
    },
    close: async () => {
      for (const { handle } of await listed(driver)) await driver.stop(handle)
      // Opened once more, so that what another process left goes too.
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

/** Root may read every file, so a folder takes the file's place. */
export async function makeUnreadable(path: string): Promise<() => Promise<void>> {
  await rename(path, `${path}.aside`)
  await mkdir(path)
  return async () => {
    await rmdir(path)
    await rename(`${path}.aside`, path)
  }
}

async function runInside(driver: OciDriver, handle: DriverHandle, script: string): Promise<string> {
  const { host, port } = driver.endpoint(handle, agentPort)
  for (let attempt = 0; ; attempt++) {
    try {
      return await converse(host, port, script)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ECONNREFUSED' || attempt > 500) throw error
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
  const { netnsPrefix } = createLayout(options.dataFolder, options.instance)
  for (let attempt = 0; attempt < 200; attempt++) {
    const running = (await driver.list()).length
    const names = (await readdir('/run/netns').catch(() => [])).filter((name) => name.startsWith(netnsPrefix))
    const disks = (await loopFiles()).filter((file) => file.startsWith(join(options.dataFolder, 'disks')))
    if (names.length === poolSize + running && disks.length === poolSize) return
    await delay(50)
  }
}

async function loopFiles(): Promise<string[]> {
  const loops = (await readdir('/sys/block')).filter((name) => name.startsWith('loop'))
  return Promise.all(
    loops.map((name) => readFile(`/sys/block/${name}/loop/backing_file`, 'utf8').catch(() => '')),
  )
}

async function tracesOf(options: OciDriverOptions): Promise<string[]> {
  const layout = createLayout(options.dataFolder, options.instance)
  const names = async (folder: string, prefix = '') =>
    (await readdir(folder).catch(() => []))
      .filter((name) => name.startsWith(prefix))
      .map((name) => join(folder, name))
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  const read = (path: string) => readFile(path, 'utf8').catch(() => '')
  const commands = await Promise.all(
    pids.map(async (pid) => `process ${pid} ${await read(`/proc/${pid}/cmdline`)}`),
  )
  const loops = await loopFiles()
  const cgroups = await runCommand('find', [
    '/sys/fs/cgroup',
    '-path',
    `*${layout.cgroupParent}/*`,
    '-type',
    'd',
  ]).catch(() => ({ stdout: '' }))
  const sets = await Promise.all(
    ['allowed', 'denied', 'gated', 'tunnelled'].map((set) =>
      runCommand('nft', ['list', 'set', 'inet', layout.table, set]).catch(() => ({ stdout: '' })),
    ),
  )
  return [
    ...commands.filter((line) => line.includes(options.dataFolder)),
    ...(await read('/proc/self/mountinfo')).split('\n').filter((line) => line.includes(layout.instance)),
    ...loops.filter((file) => file.startsWith(options.dataFolder)),
    ...(await names('/run/netns', layout.netnsPrefix)),
    ...(await names('/sys/class/net', layout.linkPrefix)),
    ...cgroups.stdout.split('\n').filter(Boolean),
    ...sets.flatMap(({ stdout }) => stdout.match(/\d+\.\d+\.\d+\.\d+/g) ?? []),
    ...(await names(layout.runtimeStates)),
    ...(await names(layout.sandboxes)),
    ...(await names(layout.disks, 'slot-')),
    ...(await names(layout.mountNamespaces)),
  ]
}
