/**
 * Roots that are not Debian, for the agent must run in any: one with nothing but busybox, and one whose only
 * libc is musl, with a program that needs it. Made once, from Debian's packages, which are unpacked and not
 * installed. The shell in both is the static busybox.
 */
import { existsSync, globSync } from 'node:fs'
import { copyFile, cp, mkdir, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { createProgress } from '../../src/app/setup/progress.ts'
import { installSystemPackages } from '../../src/app/setup/system-packages.ts'
import { runCommand } from '../../src/lib/run-command.ts'
import { cacheFolder } from './warren.ts'

export async function busyboxRoot(): Promise<string> {
  return madeOnce('busybox', async (root) => {
    await addBusybox(root, await unpacked('busybox-static'))
    // In a group besides its own, so that commands take the way that sets groups.
    const tables = {
      passwd: 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n',
      group: 'root:x:0:\nuser:x:1000:\nextra:x:2000:user\n',
    }
    for (const [name, text] of Object.entries(tables)) await writeFile(join(root, 'etc', name), text)
    await mkdir(join(root, 'home/user'), { recursive: true })
    await runCommand('chown', ['1000:1000', join(root, 'home/user')])
  })
}

/** Has no /etc/passwd: the user comes from Warren. */
export async function muslRoot(): Promise<string> {
  return madeOnce('musl', async (root) => {
    await addBusybox(root, await unpacked('busybox-static'))
    const libc = await unpacked('musl')
    await cp(join(libc, 'lib'), join(root, 'lib'), { recursive: true, verbatimSymlinks: true })
    const loader = globSync('ld-musl-*.so.1', { cwd: join(libc, 'lib') })[0]
    if (!loader) throw new Error("Debian's package musl has no loader")
    await compile(join(root, 'bin/musl-program'), libc, await unpacked('musl-dev'), `/lib/${loader}`)
  })
}

/** Debian, without what only takes time to pack and unpack: compilers, languages, git, translations and manuals. */
export async function debianRoot(base: string): Promise<string> {
  return madeOnce(`small-debian-${basename(base)}`, async (root) => {
    const libraries = ['*.a', 'lib*san.so*', 'libgprofng.so*', 'libisl.so*', 'libpython*', 'perl', 'libperl*']
    const bulk = [
      ...[
        'usr/include',
        'usr/local/*',
        'usr/share/doc',
        'usr/share/locale',
        'usr/share/man',
        'usr/share/perl',
      ],
      ...['usr/bin/gh', 'usr/bin/git*', 'usr/bin/scalar', 'usr/lib/git-core', 'usr/share/perl5'],
      ...['usr/bin/*-linux-gnu-*', 'usr/lib/gcc', 'usr/bin/perl*', 'usr/bin/python3*', 'usr/lib/python3*'],
      ...['usr/share/vim', 'usr/lib/file', ...libraries.map((name) => `usr/lib/*-linux-gnu/${name}`)],
    ]
    const left = bulk.map((name) => `--exclude=./${name}`)
    const archive = `${root}.tar`
    await runCommand('tar', ['-C', base, '--numeric-owner', ...left, '-cf', archive, '.'])
    await runCommand('tar', ['-C', root, '--numeric-owner', '-xpf', archive])
    await rm(archive)
  })
}

async function madeOnce(name: string, make: (root: string) => Promise<void>): Promise<string> {
  const folder = join(cacheFolder, 'roots', name)
  if (existsSync(folder)) return folder
  const partial = `${folder}.${process.pid}.partial`
  await rm(partial, { recursive: true, force: true })
  await mkdir(partial, { recursive: true })
  await make(partial)
  await rename(partial, folder).catch(async (error) => {
    if (!existsSync(folder)) throw error
    // Another process has made the same meanwhile.
    await rm(partial, { recursive: true })
  })
  return folder
}

/** A package of Debian, and others that it needs, unpacked into one folder and not installed. */
export function unpacked(name: string, others: readonly string[] = []): Promise<string> {
  return madeOnce(`package-${name}`, async (folder) => {
    const download = `${folder}.download`
    await mkdir(download, { recursive: true })
    try {
      await runCommand('apt-get', ['download', name, ...others], { cwd: download })
      for (const file of await readdir(download)) {
        await runCommand('dpkg', ['--extract', join(download, file), folder])
      }
    } finally {
      await rm(download, { recursive: true, force: true })
    }
  })
}

async function addBusybox(root: string, from: string): Promise<void> {
  for (const folder of ['bin', 'etc', 'root', 'tmp', 'usr']) await mkdir(join(root, folder))
  await runCommand('chmod', ['1777', join(root, 'tmp')])
  const [program] = globSync('{bin,usr/bin}/busybox', { cwd: from })
  if (!program) throw new Error("Debian's package busybox-static has no busybox")
  await copyFile(join(from, program), join(root, 'bin/busybox'))
  const { stdout } = await runCommand(join(root, 'bin/busybox'), ['--list'])
  const applets = stdout.split('\n').filter((name) => name !== '' && name !== 'busybox')
  for (const applet of applets) await symlink('busybox', join(root, 'bin', basename(applet)))
}

/** Tells of itself what only a working libc can: the user's name, a thread, a name's address, its libc. */
const source = `
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>
#ifdef __GLIBC__
#error "compiled against glibc"
#endif
static void *work(void *result) { *(int *)result = 42; return 0; }
int main(void) {
  int result = 0;
  pthread_t thread;
  struct addrinfo *found;
  if (pthread_create(&thread, 0, work, &result) || pthread_join(thread, 0)) return 2;
  if (getaddrinfo("127.0.0.1", "80", 0, &found)) return 3;
  struct passwd *user = getpwuid(getuid());
  printf("%s %d\\n", user ? user->pw_name : "nobody", result);
  return 0;
}
`

async function compile(output: string, libc: string, headers: string, loader: string): Promise<void> {
  await installSystemPackages(
    [{ package: 'gcc', file: 'gcc', why: 'compiles the program for musl' }],
    createProgress(process.stderr),
  )
  const include = globSync('usr/include/*-linux-musl', { cwd: headers })[0]!
  const objects = join(headers, globSync('usr/lib/*-linux-musl', { cwd: headers })[0]!)
  const shared = join(libc, globSync('lib/*-linux-musl', { cwd: libc })[0]!)
  const file = `${output}.c`
  await writeFile(file, source)
  const { stdout: support } = await runCommand('gcc', ['-print-libgcc-file-name'])
  const own = ['-nostdinc', '-isystem', join(headers, include), '-nostdlib', '-no-pie']
  const begin = [join(objects, 'crt1.o'), join(objects, 'crti.o')]
  const end = ['-L', shared, '-lc', support.trim(), join(objects, 'crtn.o'), `-Wl,--dynamic-linker=${loader}`]
  await runCommand('gcc', [...own, '-o', output, ...begin, file, ...end])
  await rm(file)
}
