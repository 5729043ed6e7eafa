/** Gets what the tests need on a machine where Warren never ran: the same setup as a start, and more. */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createProgress, type Progress } from '../../src/app/setup/progress.ts'
import { installSystemPackages, missingNeeds } from '../../src/app/setup/system-packages.ts'
import { installVersitygw } from './object-store.ts'
import { pythonWith } from './python.ts'
import { busyboxRoot, debianRoot, muslRoot, unpacked } from './roots.ts'
import { testMachine } from './test-machine.ts'
import { repoFolder } from './warren.ts'

export const pythonClients = ['e2b==2.63.0', 'e2b==2.45.1'] as const
export const pythonInterpreter = 'e2b-code-interpreter==2.11.5'

const testTools = [
  { package: 'skopeo', file: 'skopeo', why: 'puts images into the registry of the tests' },
  { package: 'openssl', file: 'openssl', why: 'judges the certificates that Warren makes' },
  { package: 'git', file: 'git', why: 'keeps the repository that sandboxes clone' },
  { package: 'systemd', file: 'systemd-analyze', why: 'judges the unit of the service' },
  { package: 'default-jre-headless', file: 'keytool', why: 'reads the certificates that Java gets' },
  { package: 'openssh-client', file: 'ssh-keygen', why: 'makes keys for SSH' },
  ...compilers(),
  { package: 'libwrap0', file: '/usr/share/doc/libwrap0', why: 'is a part of the SSH server of the tests' },
]

/** For both kinds of machines: the files in `native/built` are compared with what the sources give. */
function compilers() {
  const [other, gcc] =
    process.arch === 'arm64' ? ['amd64', 'x86-64-linux-gnu'] : ['arm64', 'aarch64-linux-gnu']
  const program = `${gcc.replace('x86-64', 'x86_64')}-gcc`
  const why = 'builds the addon'
  return [
    { package: 'gcc', file: 'gcc', why },
    { package: 'libc6-dev', file: '/usr/include/dlfcn.h', why },
    { package: `gcc-${gcc}`, file: program, why },
    { package: `libc6-dev-${other}-cross`, file: `/usr/${program.slice(0, -4)}/include/dlfcn.h`, why },
  ]
}

/** Reports what cannot be prepared; the tests that need it decide whether they skip or fail. */
export async function prepareTests(): Promise<void> {
  const progress = createProgress(process.stderr)
  if (process.getuid?.() !== 0) {
    progress.note('Not root: nothing is installed, and tests that need real sandboxes will fail.')
    return
  }
  const steps = [
    // Else the first servers would each make one.
    async () => void execFileSync(join(repoFolder, 'bin/bundle'), { stdio: ['ignore', 'ignore', 'inherit'] }),
    async () => void (await debianRoot((await testMachine()).baseRootFolder)),
    () => installPostgres(progress),
    busyboxRoot,
    muslRoot,
    () => unpacked('docker-registry'),
    () => unpacked('openssh-server'),
    async () => void (await installVersitygw()),
    () => installSystemPackages(testTools, progress),
    () => installPython(progress),
    ...[...pythonClients, pythonInterpreter].map((client) => () => makePython(client, progress)),
  ]
  for (const step of steps) {
    await step().catch((error: Error) => progress.note(`Tests go on without it: ${error.message}`))
  }
}

async function makePython(client: string, progress: Progress): Promise<void> {
  const started = Date.now()
  pythonWith(client)
  if (Date.now() - started > 1000) progress.note(`Made a Python with ${client}.`)
}

async function installPython(progress: Progress): Promise<void> {
  if (spawnSync('python3', ['-c', 'import venv, ensurepip'], { stdio: 'ignore' }).status === 0) return
  const why = 'keeps the Python clients apart'
  await installSystemPackages(
    [{ package: 'python3-venv', file: '/usr/share/doc/python3-venv', why }],
    progress,
  )
}

/** Only the programs are wanted: Debian would also make a database, and start it at every boot. */
async function installPostgres(progress: Progress): Promise<void> {
  const server = {
    package: 'postgresql',
    file: '/usr/lib/postgresql',
    why: 'is the other database that is proved',
  }
  if (missingNeeds([server]).length === 0) return
  const settings = '/etc/postgresql-common/createcluster.conf'
  const common = {
    package: 'postgresql-common',
    file: settings,
    why: 'says what the next one does by itself',
  }
  await installSystemPackages([common], progress)
  const text = readFileSync(settings, 'utf8')
  writeFileSync(settings, text.replace(/^#?\s*create_main_cluster\b.*$/m, 'create_main_cluster = false'))
  await installSystemPackages([server], progress)
}
